"""`workflow apply`, `workflow show`, `workflow list`, `workflow schema`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.output import Output, OutputOption, answer, print_json
from taskyard_cli.several import all_of, each_of
from taskyard_cli.show import facts, harmless, out, table, when
from taskyard_cli.values import INT32_MAX, not_empty
from taskyard_cli.workflow_file import located, read_workflow
from taskyard_cli.workflow_rules import workflow_schema
from taskyard_cli.workflow_shape import words_of
from taskyard_cli.workflow_yaml import workflow_yaml
from taskyard_cli.yaml_source import Document
from taskyard_client import AsyncClient, InvalidInput


class ShowOutput(StrEnum):
    """For whom a workflow is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def apply(
    files: Annotated[
        list[str], typer.Argument(callback=not_empty, help="Workflow files (YAML); - reads stdin.", show_default=False)
    ],
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Store workflows; a change makes a new version. Every file is checked before the first is sent."""
    read: dict[str, tuple[pb.Workflow, Document]] = {}
    all_of(files, lambda file: read.update({file: _read(file)}))

    async def work(client: AsyncClient) -> None:
        async def one(file: str) -> None:
            stored = await _apply(client, *read[file])
            answer(stored, output, lambda: _applied(stored), line=len(files) > 1)

        await each_of(files, one)

    with_client(address, token, ca, work)


def _read(file: str) -> tuple[pb.Workflow, Document]:
    return read_workflow("stdin", sys.stdin.buffer.read()) if file == "-" else read_workflow(file)


async def _apply(client: AsyncClient, workflow: pb.Workflow, document: Document) -> pb.ApplyWorkflowResponse:
    try:
        return await client.apply_workflow(workflow)
    except InvalidInput as error:
        if error.violations:
            raise located(document, error.violations) from error
        raise


def _applied(stored: pb.ApplyWorkflowResponse) -> Text:
    workflow = stored.workflow
    what = "stored" if stored.changed else "unchanged"
    steps = f"{len(workflow.steps)} step{'' if len(workflow.steps) == 1 else 's'}"
    return Text(f"{harmless(workflow.name)} {what}, version {workflow.version}, {steps}")


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
            ("description", workflow.description),
            ("stored", when(workflow.create_time)),
            *((f"input {each.name}", each.default_json or "(required)") for each in workflow.inputs),
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
        str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression.")
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
    rows = ((each.name, each.version, when(each.create_time), each.description) for each in page.workflows)
    columns = ("NAME", "VERSION", "STORED", "DESCRIPTION")
    answer(page, output, lambda: table(columns, rows, empty="no workflows"))


def schema() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    typer.echo(json.dumps(workflow_schema(), indent=2, ensure_ascii=False))
