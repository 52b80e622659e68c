"""`pause`, `resume`, `pauses`: work is held back by hand, and goes on again."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import fleet_pb2
from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.hands.stopping import Reason
from taskyard_cli.mistaken import meant_as_run
from taskyard_cli.offers import ANY, meant, offered_types
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.show import err, harmless, pause_word, table, when
from taskyard_cli.values import not_empty, only_with
from taskyard_client import AsyncClient, TaskyardError

PANEL = "What: one of these"

Type = Annotated[
    str | None, typer.Option("--type", callback=not_empty, rich_help_panel=PANEL, help="All tasks of this type.")
]
Queue = Annotated[
    str | None,
    typer.Option(callback=not_empty, rich_help_panel=PANEL, help="One queue, by its name in `taskyard queues`."),
]
Workflow = Annotated[
    str | None, typer.Option(callback=not_empty, rich_help_panel=PANEL, help="The steps of all runs of this workflow.")
]
Run = Annotated[
    str | None, typer.Option(callback=not_empty, rich_help_panel=PANEL, help="The steps of the run with this id.")
]
Tenant = Annotated[bool, typer.Option("--tenant", rich_help_panel=PANEL, help="All tasks of your tenant.")]
Everything = Annotated[bool, typer.Option("--all", rich_help_panel=PANEL, help="All tasks of all tenants; for admins.")]

_ASKED = {
    PauseScope.PAUSE_SCOPE_TENANT: "all tasks of your tenant",
    PauseScope.PAUSE_SCOPE_ALL: "all tasks of all tenants",
}
"""What is paused only after a question, in words."""


def pause(
    type_: Type = None,
    queue: Queue = None,
    workflow: Workflow = None,
    run: Run = None,
    tenant: Tenant = False,
    everything: Everything = False,
    reason: Reason = "",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="With --tenant and --all: do not ask, for programs.")
    ] = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Hold work back: nothing of it is sent to a worker until `resume`. What runs, runs on; what comes, waits.

    For example: taskyard pause --type shell --reason 'the disk is being changed'
    """
    scope, name = _which(type_, queue, workflow, run, tenant=tenant, everything=everything)
    if scope in _ASKED:
        _ask(_ASKED[scope], yes=yes)
    else:
        only_with("--yes", yes, "--tenant or --all", "leave it out")

    async def work(client: AsyncClient) -> Pause:
        async with meant_as_run(client, name):
            paused = await client.pause_work(scope, name, reason=reason)
        await _tell_unknown(client, paused)
        return paused

    found = with_client(address, token, ca, work)
    way = " ".join(["taskyard resume", *_as_options(found)])
    answer(found, output, lambda: Text(f"{pause_word(found)} is paused; `{way}` lets it go on"))


def resume(
    type_: Type = None,
    queue: Queue = None,
    workflow: Workflow = None,
    run: Run = None,
    tenant: Tenant = False,
    everything: Everything = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Let what was held back go on, in the order in which it would have gone."""
    scope, name = _which(type_, queue, workflow, run, tenant=tenant, everything=everything)
    found = with_client(address, token, ca, lambda client: client.resume_work(scope, name))
    answer(found, output, lambda: Text(f"{pause_word(found)} goes on; it was paused since {when(found.create_time)}"))


def pauses(
    filter_: Annotated[
        str | None,
        typer.Option("--filter", callback=not_empty, help="Which, e.g. 'scope == \"RUN\"': docs/filters.md."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 1_000,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List what is paused, why and by whom."""

    async def work(client: AsyncClient) -> fleet_pb2.ListPausesResponse:
        found = [each async for each in client.pauses(filter=filter_ or "", limit=limit)]
        return fleet_pb2.ListPausesResponse(pauses=found)

    page = with_client(address, token, ca, work)
    columns = ("PAUSED", "SINCE", "BY", "REASON")
    rows = ((pause_word(each), when(each.create_time), each.paused_by, each.reason) for each in page.pauses)
    answer(page, output, lambda: table(columns, rows, empty="nothing is paused"))


def _which(
    type_: str | None, queue: str | None, workflow: str | None, run: str | None, *, tenant: bool, everything: bool
) -> tuple[PauseScope.ValueType, str]:
    """Returns what the options name; exactly one of them is to be given."""
    options: dict[str, tuple[PauseScope.ValueType, str | bool | None]] = {
        "--type": (PauseScope.PAUSE_SCOPE_TASK_TYPE, type_),
        "--queue": (PauseScope.PAUSE_SCOPE_QUEUE, queue),
        "--workflow": (PauseScope.PAUSE_SCOPE_WORKFLOW, workflow),
        "--run": (PauseScope.PAUSE_SCOPE_RUN, run),
        "--tenant": (PauseScope.PAUSE_SCOPE_TENANT, tenant),
        "--all": (PauseScope.PAUSE_SCOPE_ALL, everything),
    }
    given = [option for option, (_, value) in options.items() if value]
    if len(given) != 1:
        say = f"{' and '.join(given)} are given: name one thing at a time" if given else "say what"
        raise CliError(f"{say}; {', '.join(options)} are the choices", Exit.USAGE)
    scope, value = options[given[0]]
    return scope, value if isinstance(value, str) else ""


def _ask(what: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CliError(f"{what} would wait, and there is no terminal to ask on: add --yes to pause them", Exit.USAGE)
    if not typer.confirm(f"pause {what}?", err=True):
        raise CliError("nothing was paused", Exit.REFUSED)


async def _tell_unknown(client: AsyncClient, paused: Pause) -> None:
    """Says on stderr of a name that nobody knows yet: to pause it ahead may be meant, or is a slip of the pen."""
    with suppress(TaskyardError):  # what was asked is done; a note that cannot be made is none
        if note := await _unknown(client, paused):
            err().print(Text(harmless(f"note: {note}")))


async def _unknown(client: AsyncClient, paused: Pause) -> str:
    if paused.scope == PauseScope.PAUSE_SCOPE_TASK_TYPE:
        offered = await offered_types(client)
        if offered is not None and not offered & {ANY, paused.name}:
            return f"no live worker offers the type {paused.name}.{meant(paused.name, offered)}"
    if paused.scope == PauseScope.PAUSE_SCOPE_QUEUE:
        found = [each async for each in client.queues(filter=f"name == {json.dumps(paused.name)}", limit=1)]
        if not any(each.name == paused.name and each.waiting for each in found):
            return f"nothing waits in a queue of the name {paused.name}; `taskyard queues` lists where something does"
    return ""


def _as_options(each: Pause) -> list[str]:
    options = {
        PauseScope.PAUSE_SCOPE_TASK_TYPE: ["--type", each.name],
        PauseScope.PAUSE_SCOPE_QUEUE: ["--queue", each.name],
        PauseScope.PAUSE_SCOPE_WORKFLOW: ["--workflow", each.name],
        PauseScope.PAUSE_SCOPE_RUN: ["--run", each.name],
        PauseScope.PAUSE_SCOPE_TENANT: ["--tenant"],
    }
    return options.get(each.scope, ["--all"])
