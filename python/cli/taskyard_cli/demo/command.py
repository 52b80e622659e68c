"""The command `taskyard demo`."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from taskyard_cli import interrupts
from taskyard_cli.demo.account import (
    answers_line,
    appendix,
    events,
    excerpt,
    shortfalls,
    steps_line,
    time_rows,
    workers_line,
)
from taskyard_cli.demo.drill import Drill
from taskyard_cli.demo.fleet import HEARTBEAT_S, LEASE_S, WORKERS, Fleet
from taskyard_cli.demo.history import History, read_history
from taskyard_cli.demo.workflow import NAME, workflow
from taskyard_cli.dev.place import Place
from taskyard_cli.durations import show_seconds
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.services import require
from taskyard_cli.show import facts, out
from taskyard_cli.values import not_empty

REPORT = "report.md"
HASHING = "hashing-v1"
SAMPLE = "When are the default values of a function's parameters evaluated?"
"""The question whose answer the terminal shows."""


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running afterwards, until Ctrl-C.")] = False,
    report: Annotated[
        str | None,
        typer.Option(callback=not_empty, help="Where the report goes; else into the temporary directory."),
    ] = None,
) -> None:
    """Run a real workflow on two workers here: an index, questions and answers, a failure, a killed worker."""
    require("scheduler", "worker")  # what is missing is said before anything starts
    wanted = Path(report).absolute() if report else None
    if wanted is not None and not wanted.parent.is_dir():
        raise CliError(f"there is no directory {wanted.parent} for the report", Exit.NOT_FOUND)
    folder = Path(tempfile.mkdtemp(prefix="taskyard-demo-"))
    target = wanted or folder / REPORT
    data = folder / "data"
    with Place(data) as place:
        try:
            interrupts.run(_run(place, target, keep))
        except asyncio.CancelledError:
            raise CliError("stopped by SIGTERM", Exit.INTERRUPTED) from None
    # Only after success: what went wrong can be looked at in the logs.
    shutil.rmtree(folder if report else data)


async def _run(place: Place, target: Path, keep: bool) -> None:
    begun = time.monotonic()
    _cancelled_by(signal.SIGTERM)
    console = out()
    console.print(Text(f"Starting a scheduler and {len(WORKERS)} workers; their data is in {place.path}"))
    fleet = Fleet(place, os.environ)
    async with fleet.running() as client:
        ready = time.monotonic()
        drill = Drill(client, fleet)
        run = await drill.run(workflow(llm=speaks(os.environ)), {"report": str(target), "model": embeds(os.environ)})
        history = await read_history(client, run.run_id)
        missing = _finish(history, drill.killed, target)
        if missing:
            raise CliError("the demo did not show what it should:\n" + "\n".join(missing[:10]), Exit.FAILED)
        spent = f"starting {show_seconds(ready - begun)}, the run {show_seconds(history.seconds)}"
        if keep:
            _show(history, drill.killed, target, f"{show_seconds(time.monotonic() - begun)}: {spent}")
            await fleet.start_worker(drill.killed)
            await fleet.wait_healthy(client)
            console.print(Text(_look_around(place.path, run.run_id)))
            await _interrupted()
    if not keep:
        _show(history, drill.killed, target, f"{show_seconds(time.monotonic() - begun)}: {spent}, and stopping")
        console.print(
            Text("\nAll of it has stopped; `taskyard demo --keep` (make demo DEMO=--keep) leaves it to look around.")
        )


def _finish(history: History, killed: str, target: Path) -> list[str]:
    """Adds the account to the report, and returns what is not as it should be."""
    if not target.is_file():
        return shortfalls(history, killed, None)
    with target.open("a", encoding="utf-8") as file:
        file.write(f"\n{appendix(history, killed)}")
    return shortfalls(history, killed, target.read_text(encoding="utf-8"))


def _show(history: History, killed: str, target: Path, wall: str) -> None:
    console = out()
    for sentence in events(history, killed):
        console.print(Text(f"  {sentence}"))
    rows = [
        ("steps", steps_line(history)),
        ("workers", workers_line(history)),
        ("answers", answers_line(history)),
        ("wall time", wall),
        ("time of tasks", f"{show_seconds(history.phases.total)} in all, since they run beside each other"),
        *((f"  {name}", spent) for name, spent in time_rows(history)),
        ("leases", f"{LEASE_S} s here, heartbeats each {HEARTBEAT_S} s (by default 60 s and 10 s)"),
        ("report", str(target)),
    ]
    console.print(facts(rows))
    console.print(Text(f"\n{SAMPLE}\n{excerpt(target.read_text(encoding='utf-8'), SAMPLE)}"))


def _look_around(data: Path, run_id: str) -> str:
    return "\n".join(
        [
            "",
            "It is still running. In another terminal (with .venv/bin on its PATH):",
            f"  export TASKYARD_DATA={data}",
            f"  taskyard runs show {run_id}",
            f"  taskyard tasks --run {run_id}",
            f"  taskyard workflow show {NAME} -o yaml",
            "  taskyard workers",
            "Ctrl-C stops everything.",
        ]
    )


def speaks(environ: Mapping[str, str]) -> bool:
    """Tells whether the workers have an endpoint that answers."""
    return bool(environ.get("TASKYARD_LLM_BASE_URL", "").strip())


def embeds(environ: Mapping[str, str]) -> str:
    """Returns the model that the workers embed with, so that the run names it and every worker uses the same."""
    return environ.get("TASKYARD_EMBEDDING_MODEL", "").strip() or HASHING


def _cancelled_by(number: signal.Signals) -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _interrupted() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
