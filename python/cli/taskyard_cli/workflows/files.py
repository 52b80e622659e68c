"""The workflow files of a command line: all are read and checked before the first is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.problems import BadFile, Problem
from taskyard_cli.several import all_of
from taskyard_cli.show import harmless
from taskyard_cli.sources import Source, read_sources
from taskyard_cli.workflows.file import located, read_workflow
from taskyard_cli.workflows.yaml_source import MAX_BYTES, Document
from taskyard_client import InvalidInput


@dataclass(frozen=True, slots=True)
class WorkflowFile:
    """A file and what is in it."""

    workflow: Workflow
    document: Document

    @contextmanager
    def places(self) -> Iterator[None]:
        """Gives what the scheduler says of the workflow its places in the file.

        Raises:
            BadFile: Instead of an InvalidInput that names fields.
        """
        try:
            yield
        except InvalidInput as error:
            if error.violations:
                raise located(self.document, error.violations) from error
            raise


def read_workflows(names: Sequence[str]) -> dict[str, WorkflowFile]:
    """Reads workflow files, and those of folders by name.

    Args:
        names: Files, folders, and `-` for stdin.

    Returns:
        By file, in their order.

    Raises:
        BadFile: One alone was given, and is wrong.
        typer.Exit: Of several, some are wrong; all that is wrong was said.
    """
    sources: dict[str, Source] = {}
    all_of(names, lambda name: sources.update({each.file: each for each in read_sources([name], _SUFFIXES, MAX_BYTES)}))
    read: dict[str, WorkflowFile] = {}
    names_read: dict[str, str] = {}
    all_of(list(sources), lambda file: read.update({file: _read(sources[file], names_read)}))
    return read


_SUFFIXES = (".yaml", ".yml")


def _read(source: Source, names: dict[str, str]) -> WorkflowFile:
    """Reads one and notes in `names` the file of its workflow's name: two versions of one would be an accident."""
    found = WorkflowFile(*read_workflow(source.file, source.data))
    name = found.workflow.name
    if name in names:
        say = f"{harmless(name)} is the name in {names[name]} too, and nobody said which is the newer; keep one of them"
        raise BadFile(source.file, [Problem(None, "name", say)])
    names[name] = source.file
    return found
