"""`import wfformat`: workflows recorded elsewhere become workflows of `sleep` steps, stored or written to files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.importing.folder import STDOUT, check_folder, file_of, write_file
from taskyard_cli.importing.graph import depth
from taskyard_cli.importing.members import shown
from taskyard_cli.importing.sleeping import name_fault, runtime_fault, sleep_workflow
from taskyard_cli.importing.wfformat import MAX_BYTES, read_wfformat
from taskyard_cli.output import Output, answer
from taskyard_cli.problems import BadFile, Problem
from taskyard_cli.show import harmless
from taskyard_cli.sources import Source, read_sources
from taskyard_cli.values import not_empty
from taskyard_client import AsyncClient, InvalidInput, Violation


@dataclass(frozen=True, slots=True)
class Scales:
    """What recorded seconds and bytes are multiplied with."""

    time: float
    file: float


@dataclass(frozen=True, slots=True)
class Imported:
    """A file and the workflow that it became."""

    source: Source
    workflow: pb.Workflow


def wfformat(
    files: Annotated[
        list[str],
        typer.Argument(
            callback=not_empty,
            help="WfFormat files (JSON), or folders: their *.json files; - reads stdin.",
            show_default=False,
        ),
    ],
    *,
    name: Annotated[
        str | None, typer.Option(callback=not_empty, help="The workflow's name, for one file. Default: the file's.")
    ] = None,
    time_scale: Annotated[
        float, typer.Option(min=0, help="Seconds that a step sleeps for each second that its task ran; 0: none.")
    ] = 1.0,
    file_scale: Annotated[
        float,
        typer.Option(
            min=0, help="Bytes that a step writes as artifacts for each byte that its task wrote; 0: no files."
        ),
    ] = 0.0,
    folder: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="DIR",
            callback=not_empty,
            help="Write workflow files for `workflow apply` there and ask no scheduler; - writes one to stdout.",
        ),
    ] = None,
    output: Annotated[Output, typer.Option("-o", help="table for people, json for programs.")] = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Store recorded workflows in WfFormat 1.5 or 1.6 as workflows of `sleep` steps with the recorded dependencies.

    With --file-scale they are `replay` steps, which read and write artifacts as well.

    Every file is checked before the first is sent. For example: taskyard import wfformat montage.json --time-scale 0.01
    """
    _check_scale("--time-scale", time_scale, "times")
    _check_scale("--file-scale", file_scale, "sizes")
    if folder is not None:
        _check_offline(folder, output, {"--address": address, "--token": token, "--ca": ca})
    imported = _import(files, Scales(time_scale, file_scale), name or "")
    if folder is None:
        with_client(address, token, ca, lambda client: _store(client, imported, output))
    elif folder == STDOUT:
        _print_one(imported)
    else:
        _check_stems(imported)
        texts = [file_of(each.workflow, each.source.file) for each in imported]
        for each, text in zip(imported, texts, strict=True):
            done = write_file(folder, each.source.stem, text)
            answer(each.workflow, output, partial(_told, each.workflow, done), line=len(imported) > 1)


def _check_scale(option: str, scale: float, what: str) -> None:
    if not math.isfinite(scale):
        raise CliError(f"{option} {scale:g} is no number that {what} can be multiplied with", Exit.USAGE)


def _check_offline(folder: str, output: Output, connection: dict[str, str | None]) -> None:
    """Refuses what would do nothing where files are written."""
    for option, given in connection.items():
        if given is not None:
            raise CliError(f"{option} means nothing with --output, which asks no scheduler: leave one out", Exit.USAGE)
    if folder == STDOUT and output is Output.JSON:
        raise CliError("-o json means nothing with --output -, which prints YAML: leave one out", Exit.USAGE)
    check_folder(folder)


def _import(names: Sequence[str], scales: Scales, name: str) -> list[Imported]:
    """Reads every file; nothing is stored or written before all are good."""
    if name and (fault := name_fault(name)):
        raise CliError(f"--name: {fault}", Exit.USAGE)
    sources = list(read_sources(names, (".json",), MAX_BYTES))
    if name and len(sources) > 1:
        raise CliError(f"--name is for one file, and here are {len(sources)}: leave it out", Exit.USAGE)
    imported = [Imported(source, _workflow(source, scales, name)) for source in sources]
    _check_names(imported)
    return imported


def _workflow(source: Source, scales: Scales, name: str) -> pb.Workflow:
    recording = read_wfformat(source.data, source.file)
    faults = {
        f"workflow.specification.tasks[{at}]": runtime_fault(task, scales.time)
        for at, task in enumerate(recording.tasks)
    }
    if not name and (fault := name_fault(recording.name)):
        faults["name"] = f"{fault}; give one with --name"
    problems = [Problem(None, path, fault) for path, fault in faults.items() if fault]
    if problems:
        raise BadFile(source.file, problems)
    return sleep_workflow(recording, scales.time, name, scales.file)


def _check_names(imported: Sequence[Imported]) -> None:
    """Refuses two files that would be versions of one workflow: which is the newer, nobody said."""
    first: dict[str, str] = {}
    for each in imported:
        name, file = each.workflow.name, each.source.file
        if name in first:
            say = f"{shown(name)} is the name in {first[name]} too; import one of them alone, with --name"
            raise BadFile(file, [Problem(None, "name", say)])
        first[name] = file


def _check_stems(imported: Sequence[Imported]) -> None:
    """Refuses two files whose workflows would be written to one."""
    first: dict[str, str] = {}
    for each in imported:
        stem, file = each.source.stem, each.source.file
        if stem in first:
            say = f"is called as {first[stem]} is, and both would be {stem}.yaml; write them to two folders"
            raise BadFile(file, [Problem(None, "", say)])
        first[stem] = file


async def _store(client: AsyncClient, imported: Sequence[Imported], output: Output) -> None:
    for each in imported:
        try:
            stored = await client.apply_workflow(each.workflow)
        except InvalidInput as error:
            if error.violations:
                raise _located(each.source.file, error.violations) from error
            raise
        what = f"{'stored' if stored.changed else 'unchanged'}, version {stored.workflow.version}"
        answer(stored, output, partial(_told, stored.workflow, what), line=len(imported) > 1)


def _located(file: str, violations: Sequence[Violation]) -> BadFile:
    """Returns what the scheduler says of a workflow as problems of the file that it was made of."""
    return BadFile(file, [Problem(None, _recorded(each.field), each.description) for each in violations])


def _recorded(field: str) -> str:
    """Returns where the file has what a field of the workflow was made of."""
    inner = field.removeprefix("workflow.")
    step = re.match(r"steps(\[\d+\])", inner)
    return f"workflow.specification.tasks{step[1]}" if step else inner


def _print_one(imported: Sequence[Imported]) -> None:
    if len(imported) > 1:
        raise CliError(f"--output - is for one file, and here are {len(imported)}: name a folder", Exit.USAGE)
    typer.echo(file_of(imported[0].workflow, imported[0].source.file), nl=False)


def _told(workflow: pb.Workflow, what: str) -> Text:
    parents = {step.id: list(step.needs) for step in workflow.steps}
    figures = (("step", len(parents)), ("edge", sum(map(len, parents.values()))))
    counted = ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for word, count in figures)
    return Text(harmless(f"{workflow.name} {what}, {counted}, depth {depth(parents)}"))
