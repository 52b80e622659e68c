"""`--prune`: the workflows of a set that no file has any more, and that a person agrees to their deletion.

Never more than a set: what others have applied is not known here, and its files are elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.tasks_pb2 import BULK_ACTION_CANCEL
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, print_json
from taskyard_cli.several import each_of
from taskyard_cli.show import err, harmless, out
from taskyard_cli.values import not_empty, only_with
from taskyard_client import AsyncClient

IN_FLIGHT = 'state in ["PENDING", "RUNNING", "CANCELLING"]'
PANEL = "Sets"

Source = Annotated[
    str | None,
    typer.Option(callback=not_empty, rich_help_panel=PANEL, help="Put the workflows into this set. Else: as they are."),
]
Prune = Annotated[
    bool,
    typer.Option("--prune", rich_help_panel=PANEL, help="Delete the set's workflows that no file has; asks first."),
]
PlanPrune = Annotated[
    bool,
    typer.Option("--prune", rich_help_panel=PANEL, help="Show which of the set's workflows no file has."),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", rich_help_panel=PANEL, help="With --prune: do not ask, for programs.")
]


def check_options(prune: bool, source: str | None, *, yes: bool) -> None:
    """Refuses options that mean nothing, and a question that nobody would answer, before anything is done.

    Raises:
        CliError: That is so.
    """
    if not prune:
        only_with("--yes", yes, "--prune")
    if prune and not source:
        way = "add --source SET; `taskyard workflow apply --source SET FILES` puts workflows into one"
        raise CliError(f"--prune deletes within a set only, never what others have applied: {way}", Exit.USAGE)
    if prune and not yes and not sys.stdin.isatty():
        raise CliError("--prune asks before it deletes, and there is no terminal to ask on: add --yes", Exit.USAGE)


async def superfluous(client: AsyncClient, source: str, kept: Collection[str]) -> list[pb.Workflow]:
    """Returns the workflows of a set whose names are not among those kept."""
    wanted = f"source == {json.dumps(source, ensure_ascii=False)}"
    return [each async for each in client.list_workflows(filter=wanted) if each.name not in kept]


def agree(gone: list[pb.Workflow], source: str, *, yes: bool) -> None:
    """Says what would be deleted, and asks unless told not to.

    Raises:
        CliError: The person does not want it.
    """
    if not gone:
        return
    names = ", ".join(harmless(each.name) for each in gone)
    what = "1 workflow" if len(gone) == 1 else f"{len(gone):,} workflows"
    err().print(Text(f"{what} of the set {harmless(source)} that no file has: {names}"))
    if not yes and not typer.confirm(f"delete {what}?", err=True):
        raise CliError("nothing was done", Exit.REFUSED)


async def delete_all(client: AsyncClient, gone: list[pb.Workflow], output: Output) -> None:
    """Deletes workflows and tells of each; one that is in use keeps no other from it."""

    async def one(name: str) -> None:
        version = await client.delete_workflow(name)
        if output is Output.JSON:
            print_json(pb.DeleteWorkflowResponse(name=name, version=version), line=True)
        else:
            out().print(Text(deleted(name, version)))

    if gone:
        await each_of([each.name for each in gone], one)


def deleted(name: str, version: int) -> str:
    """Returns what became of a workflow, in words."""
    return f"{harmless(name)} deleted; its newest version was {version}"


async def in_flight(client: AsyncClient, name: str) -> int:
    """Returns how many runs of a workflow have not ended."""
    wanted = f"{IN_FLIGHT} && workflow == {json.dumps(name, ensure_ascii=False)}"
    return await client.check_bulk_runs(wanted, BULK_ACTION_CANCEL)


async def tell_all(client: AsyncClient, gone: list[pb.Workflow], output: Output) -> None:
    """Tells of each workflow that it would be deleted, or why it could not be now."""
    for each in gone:
        if output is Output.JSON:
            print_json(pb.DeleteWorkflowResponse(name=each.name, version=each.version), line=True)
            continue
        count = await in_flight(client, each.name)
        runs = f"{count:,} run{'' if count == 1 else 's'} of it {'has' if count == 1 else 'have'} not ended"
        say = (
            f"could not be deleted now: {runs}" if count else f"would be deleted; its newest version is {each.version}"
        )
        out().print(Text(f"{harmless(each.name)} {say}"))
