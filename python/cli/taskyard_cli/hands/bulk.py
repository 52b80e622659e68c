"""Acting on everything that matches a filter: the count and a question first, then page by page with a bar."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.progress import Progress
from rich.text import Text

from taskyard.v1.tasks_pb2 import BulkAction
from taskyard_cli.connection import with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import on_terminal
from taskyard_cli.show import err, out
from taskyard_cli.values import not_empty
from taskyard_client import AsyncClient

PANEL = "All that match"

Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        callback=not_empty,
        rich_help_panel=PANEL,
        help="Instead of ids: all that match this: docs/filters.md.",
    ),
]
Runs = Annotated[
    bool, typer.Option("--runs", rich_help_panel=PANEL, help="With --filter: runs that match, instead of tasks.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", rich_help_panel=PANEL, help="With --filter: do not ask, for programs.")
]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done with which.

    Attributes:
        verb: What a person is asked, such as `cancel`.
        action: The same for the scheduler.
        filter: Which.
        runs: Whether runs are meant, and not tasks.
        reason: For cancels and marks.
        priority: For a new priority.
        ending: What a person reads behind the thing, such as ` as SKIPPED`.
    """

    verb: str
    action: BulkAction.ValueType
    filter: str
    runs: bool = False
    reason: str = ""
    priority: int = 0
    ending: str = ""

    def named(self, count: int) -> str:
        """Returns `1,234 tasks`."""
        return f"{count:,} {'run' if self.runs else 'task'}{'' if count == 1 else 's'}"


def ids_or_filter(ids: list[str] | None, filter: str | None, *, runs: bool, yes: bool) -> None:
    """Refuses both and neither, and options that mean nothing without a filter.

    Raises:
        CliError: That is so.
    """
    if bool(ids) == bool(filter):
        way = "leave one of the two out" if ids else "name ids, or give --filter EXPRESSION for all that match"
        raise CliError(f"{'ids and --filter are given' if ids else 'nothing is named'}: {way}", Exit.USAGE)
    if ids and (runs or yes):
        raise CliError(f"{'--runs' if runs else '--yes'} means nothing without --filter: leave it out", Exit.USAGE)


def act_on_all(wanted: Wanted, *, yes: bool, address: str | None, token: str | None, ca: str | None) -> None:
    """Counts, asks unless told not to, and acts.

    Raises:
        CliError: Nobody can be asked, or something was refused.
    """
    count = with_client(address, token, ca, lambda client: _count(client, wanted))
    if not count:
        out().print(Text(f"no {'run' if wanted.runs else 'task'} matches"))
        return
    if not yes and not _agreed(wanted, count):
        raise CliError("nothing was done", Exit.REFUSED)
    done, refused = with_client(address, token, ca, lambda client: _act(client, wanted, count))
    out().print(Text(f"{wanted.verb}{wanted.ending}: {wanted.named(done)} done, {sum(refused.values()):,} refused"))
    if refused:
        why = ", ".join(f"{reason} {number:,}" for reason, number in refused.most_common())
        raise CliError(f"{sum(refused.values()):,} were left as they are: {why}", Exit.REFUSED)


def _agreed(wanted: Wanted, count: int) -> bool:
    if not sys.stdin.isatty():
        raise CliError(
            f"{wanted.named(count)} match, and there is no terminal to ask on: add --yes to "
            f"{wanted.verb} them{wanted.ending}",
            Exit.USAGE,
        )
    return typer.confirm(f"{wanted.verb} {wanted.named(count)}{wanted.ending}?", err=True)


async def _count(client: AsyncClient, wanted: Wanted) -> int:
    if wanted.runs:
        return await client.check_bulk_runs(wanted.filter, wanted.action)
    return await client.check_bulk_tasks(wanted.filter, wanted.action, priority=wanted.priority)


def _outcomes(client: AsyncClient, wanted: Wanted) -> AsyncGenerator[Any, None]:
    if wanted.runs:
        return client.bulk_runs(wanted.filter, wanted.action, reason=wanted.reason)
    return client.bulk_tasks(wanted.filter, wanted.action, reason=wanted.reason, priority=wanted.priority)


async def _act(client: AsyncClient, wanted: Wanted, count: int) -> tuple[int, Counter[str]]:
    done, refused = 0, Counter[str]()
    bar = Progress(console=err(), transient=True) if on_terminal() else None
    with bar or nullcontext():
        shown = bar.add_task(wanted.verb, total=count) if bar else None
        async for outcome in _outcomes(client, wanted):
            if outcome.HasField("refusal"):
                refused[outcome.refusal.reason] += 1
            else:
                done += 1
            if bar is not None and shown is not None:
                bar.advance(shown)
    return done, refused
