"""`taskyard top`: checks that there is a terminal, reads once so that what is wrong is said plainly, then shows."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

import typer

from taskyard_cli.connection import Address, Ca, Token, find_target, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, OutputOption
from taskyard_cli.show import out
from taskyard_cli.top.figures import History
from taskyard_cli.top.page import snapshot_json, snapshot_page
from taskyard_cli.top.reading import Reader
from taskyard_cli.values import not_empty, only_with, seconds
from taskyard_client import AsyncClient

LEAST_S = 0.2
MOST_S = 3_600.0
PATIENCE_S = 5.0
"""How long one call may take: whoever looks at a screen wants to know soon that nobody answers."""

Interval = Annotated[
    str, typer.Option("--interval", "-d", callback=not_empty, help="Between two readings, 200ms to 1h.")
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", callback=not_empty, help="Which tasks are shown, as an expression: docs/filters.md."),
]
Once = Annotated[bool, typer.Option("--once", help="Print one snapshot as text (or -o json), and end.")]


def top(
    interval: Interval = "1s",
    filter_: Filter = None,
    once: Once = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Watch throughput, queues, workers, what runs and what failed on a live screen; ? shows its keys."""
    pause = _pause(interval)
    if not once:
        only_with("-o json", output is Output.JSON, "--once")
    where = find_target(address, token, ca, os.environ).address
    if once:
        with_client(address, token, ca, lambda client: _print_once(client, where, pause, filter_ or "", output))
        return
    _require_terminal()

    async def work(client: AsyncClient) -> None:
        from taskyard_cli.top.screen import show  # here, since what draws takes long to load

        reader = Reader(client)
        await show(reader, await reader.read(filter_ or ""), where, interval=pause, filter=filter_ or "")

    with_client(address, token, ca, work, timeout=PATIENCE_S)


def _pause(text: str) -> float:
    pause = seconds(text, "--interval") or 0.0
    if not LEAST_S <= pause <= MOST_S:
        raise CliError(f"--interval {text} is not within 200ms and 1h; leave it out for 1s", Exit.USAGE)
    return pause


def _require_terminal() -> None:
    # All three: keys come from stdin, stdout tells the size, and the screen is drawn on stderr.
    missing = [stream.name.strip("<>") for stream in (sys.stdin, sys.stdout, sys.stderr) if not stream.isatty()]
    if missing:
        say = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} no terminal"
    elif os.environ.get("TERM", "dumb") in ("", "dumb"):
        say = "this terminal (TERM) cannot place text"
    else:
        return
    raise CliError(f"{say}, and top needs one; `taskyard top --once` prints a snapshot as text", Exit.USAGE)


async def _print_once(client: AsyncClient, where: str, pause: float, filter: str, output: Output) -> None:
    """Reads twice, since how much ends a second is what lies between."""
    reader, history = Reader(client), History()
    before = await reader.read(filter)
    await asyncio.sleep(pause)
    after = await reader.read(filter)
    for each in (before, after):
        history.take(each.at, each.status)
    if output is Output.JSON:
        typer.echo(snapshot_json(after, history.now))
    else:
        out().print(snapshot_page(after, history.now, where))
