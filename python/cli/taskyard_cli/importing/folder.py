"""The folder that workflow files are written to, one for each workflow."""

from __future__ import annotations

import os
from pathlib import Path

from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output
from taskyard_cli.problems import BadFile, Problem
from taskyard_cli.workflows.yaml_source import MAX_BYTES
from taskyard_cli.workflows.yaml_writer import workflow_yaml

STDOUT = "-"


def check_folder(name: str) -> None:
    """Refuses a name that is most likely not meant as a folder's.

    Raises:
        CliError: It is a file, or one of the words that `--output` takes in other commands.
    """
    if name in set(Output) and not Path(name).is_dir():
        raise CliError(f"--output names a folder here: write `-o {name}`, or --output ./{name}", Exit.USAGE)
    if Path(name).is_file():
        raise CliError(f"--output {name} is a file: name a folder, or - for stdout", Exit.USAGE)


def file_of(workflow: Workflow, source: str) -> str:
    """Returns a workflow's file.

    Args:
        workflow: What is to be in it.
        source: The file that it was made of, for the message.

    Raises:
        BadFile: The file would be larger than `workflow apply` takes.
    """
    text = workflow_yaml(workflow)
    size = len(text.encode())
    if size > MAX_BYTES:
        say = f"makes a workflow file of {size:,} bytes, and at most {MAX_BYTES:,} are read; import it without --output"
        raise BadFile(source, [Problem(None, "", say)])
    return text


def write_file(folder: str, stem: str, text: str) -> str:
    """Writes a file, whole or not at all, and returns in words what was done to which one.

    Args:
        folder: Made where it is missing.
        stem: The file's name without its ending.
        text: What to write.

    Raises:
        CliError: It cannot be written.
    """
    path = Path(folder, f"{stem}.yaml")
    data = text.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else None
        if before == data:
            return f"unchanged in {path}"
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}", Exit.REFUSED) from None
    return f"{'written to' if before is None else 'replaced in'} {path}"
