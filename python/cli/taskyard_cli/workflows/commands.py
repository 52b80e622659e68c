"""`workflow apply`, `workflow plan`, `workflow show`, `workflow list`, `workflow delete`, `workflow schema`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.output import Output, OutputOption, answer, print_json
from taskyard_cli.several import each_of, told_each
from taskyard_cli.show import facts, harmless, out, table, when
from taskyard_cli.values import INT32_MAX, not_empty
from taskyard_cli.workflows import pruning
from taskyard_cli.workflows.files import WorkflowFile, read_workflows
from taskyard_cli.workflows.offers import tell_unoffered
from taskyard_cli.workflows.plan import consequences, difference, input_type
from taskyard_cli.workflows.pruning import PlanPrune, Prune, Source, Yes
from taskyard_cli.workflows.rules import workflow_schema
from taskyard_cli.workflows.shape import words_of
from taskyard_cli.workflows.yaml_writer import workflow_yaml
from taskyard_client import AsyncClient, NotFound


class ShowOutput(StrEnum):
    """For whom a workflow is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Files = Annotated[
    list[str],
    typer.Argument(
        callback=not_empty,
        help="Workflow files (YAML), or folders: their *.yaml and *.yml files; - reads stdin.",
        show_default=False,
    ),
]
Told = Callable[[], RenderableType]
"""Makes an answer for people."""
Ask = Callable[[AsyncClient, pb.Workflow], Awaitable[tuple[pb.ApplyWorkflowResponse, Told]]]
"""Asks the scheduler about a file's workflow."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
"""Of the lines of a difference, by how they begin."""


def apply(
    files: Files,
    source: Source = None,
    prune: Prune = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Store workflows; a change makes a new version. Every file is checked before the first is sent."""
    pruning.check_options(prune, source, yes=yes)
    read = read_workflows(files)
    gone: list[pb.Workflow] = []
    if prune and source:
        gone = with_client(address, token, ca, lambda client: _superfluous(client, source, read))
        pruning.agree(gone, source, yes=yes)

    taken: list[pb.Workflow] = []

    async def one(client: AsyncClient, workflow: pb.Workflow) -> tuple[pb.ApplyWorkflowResponse, Told]:
        stored = await client.apply_workflow(workflow, source=source or "")
        taken.append(stored.workflow)
        return stored, lambda: _applied(stored)

    async def work(client: AsyncClient) -> None:
        try:
            await _each_file(client, read, one, output, line=prune)
        finally:
            await tell_unoffered(client, taken)
        await pruning.delete_all(client, gone, output)

    with_client(address, token, ca, work)


async def _superfluous(client: AsyncClient, source: str, read: Mapping[str, WorkflowFile]) -> list[pb.Workflow]:
    return await pruning.superfluous(client, source, {each.workflow.name for each in read.values()})


async def _each_file(
    client: AsyncClient, read: Mapping[str, WorkflowFile], ask: Ask, output: Output, *, line: bool
) -> None:
    """Asks for one file's workflow after the other, and tells what was answered. `line`: more will be told."""

    async def one(file: str) -> None:
        with read[file].places():
            found, people = await ask(client, read[file].workflow)
        answer(found, output, people, line=line or len(read) > 1)

    await each_of(list(read), one)


def _applied(stored: pb.ApplyWorkflowResponse) -> Text:
    workflow = stored.workflow
    what = "stored" if stored.changed else "unchanged"
    steps = f"{len(workflow.steps)} step{'' if len(workflow.steps) == 1 else 's'}"
    return Text(f"{harmless(workflow.name)} {what}, version {workflow.version}, {steps}")


def plan(
    files: Files,
    source: Source = None,
    prune: PlanPrune = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show what `apply` would change, and what that means for runs and their callers. Nothing is stored."""
    if prune and not source:
        pruning.check_options(prune, source, yes=True)
    read = read_workflows(files)

    taken: list[pb.Workflow] = []

    async def one(client: AsyncClient, workflow: pb.Workflow) -> tuple[pb.ApplyWorkflowResponse, Told]:
        planned = await client.check_workflow(workflow)
        taken.append(planned.workflow)
        newest, in_flight = await _before(client, planned)
        return planned, lambda: _planned(newest, planned, in_flight, source or "")

    async def work(client: AsyncClient) -> None:
        try:
            await _each_file(client, read, one, output, line=prune)
        finally:
            await tell_unoffered(client, taken)
        if prune and source:
            await pruning.tell_all(client, await _superfluous(client, source, read), output)

    with_client(address, token, ca, work)


async def _before(client: AsyncClient, planned: pb.ApplyWorkflowResponse) -> tuple[pb.Workflow, int]:
    """Returns the newest version, empty when there is none, and how many runs of the workflow have not ended."""
    workflow = planned.workflow
    try:
        newest = await client.get_workflow(workflow.name)
    except NotFound:
        return pb.Workflow(), 0
    return newest, await pruning.in_flight(client, workflow.name) if planned.changed else 0


def _planned(newest: pb.Workflow, planned: pb.ApplyWorkflowResponse, in_flight: int, source: str) -> Group:
    workflow = planned.workflow
    said = list(_set_change(newest, source))
    if not planned.changed:
        return Group(Text(f"{harmless(workflow.name)} stays as it is, version {workflow.version}"), *said)
    if not newest.name:
        count = f"{len(workflow.steps)} step{'' if len(workflow.steps) == 1 else 's'}"
        return Group(Text(f"{harmless(workflow.name)} is new: version {workflow.version}, {count}"), *said)
    lines = [Text(f"{harmless(workflow.name)} becomes version {workflow.version}"), *said]
    lines += [Text(f"  {harmless(each)}") for each in consequences(newest, workflow, in_flight)]
    lines += [Text(harmless(line), _COLOURS.get(line[:1], "")) for line in difference(newest, workflow)]
    return Group(*lines)


def _set_change(newest: pb.Workflow, source: str) -> Iterator[Text]:
    if source and newest.source and source != newest.source:
        yield Text(f"  leaves the set {harmless(newest.source)} for {harmless(source)}")
    elif source and source != newest.source:
        yield Text(f"  joins the set {harmless(source)}")


def show(
    name: Annotated[str, typer.Argument(callback=not_empty, help="The workflow's name.", show_default=False)],
    version: Annotated[int, typer.Option(min=0, max=INT32_MAX, help="Which version; 0: the newest.")] = 0,
    output: Annotated[
        ShowOutput, typer.Option("--output", "-o", help="yaml writes a file that `apply` takes again.")
    ] = ShowOutput.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show a workflow."""
    workflow = with_client(address, token, ca, lambda client: client.get_workflow(name, version))
    if output is ShowOutput.YAML:
        typer.echo(workflow_yaml(workflow), nl=False)
    elif output is ShowOutput.JSON:
        print_json(workflow)
    else:
        out().print(_page(workflow))


def _page(workflow: pb.Workflow) -> Group:
    rules = {number: word for word, number in words_of(pb.TriggerRule.DESCRIPTOR).items()}
    top = facts(
        [
            ("workflow", workflow.name),
            ("version", workflow.version),
            ("set", workflow.source),
            ("description", workflow.description),
            ("stored", when(workflow.create_time)),
            *(
                (f"input {each.name}", " ".join(filter(None, (each.default_json or "(required)", input_type(each)))))
                for each in workflow.inputs
            ),
            ("output", workflow.output_json),
        ]
    )
    rows = (
        (step.id, step.task_type, step.task_name, ", ".join(step.needs), rules.get(step.trigger_rule, ""))
        for step in workflow.steps
    )
    return Group(top, Text(), table(("STEP", "TYPE", "TASK", "NEEDS", "RULE"), rows, empty="no steps"))


def list_workflows(
    filter_: Annotated[
        str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression: docs/filters.md.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List workflows by name."""

    async def work(client: AsyncClient) -> pb.ListWorkflowsResponse:
        found = [each async for each in client.list_workflows(filter=filter_ or "", limit=limit)]
        return pb.ListWorkflowsResponse(workflows=found)

    page = with_client(address, token, ca, work)
    rows = ((each.name, each.version, each.source, when(each.create_time), each.description) for each in page.workflows)
    columns = ("NAME", "VERSION", "SET", "STORED", "DESCRIPTION")
    answer(page, output, lambda: table(columns, rows, empty="no workflows"))


def delete(
    names: Annotated[list[str], typer.Argument(callback=not_empty, help="Names of workflows.", show_default=False)],
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Delete workflows: they start no more runs. Runs that they had, and their versions by number, stay."""

    async def one(client: AsyncClient, name: str) -> str:
        return f"deleted; its newest version was {await client.delete_workflow(name)}"

    with_client(address, token, ca, lambda client: told_each(client, names, one))


def schema() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    typer.echo(json.dumps(workflow_schema(), indent=2, ensure_ascii=False))
