"""Ctrl-C on real processes: at any moment it is exit code 130 and no traceback, and nobody loses an id by it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from cli_served import Served

from taskyard_cli.exits import Exit

NOBODY = ("--address", "127.0.0.1:1")
COMMANDS = {
    "explain": ("explain", "x", *NOBODY),
    "submit": ("submit", "x", "--wait", *NOBODY),
    "run": ("run", "x", *NOBODY),
    "status": ("status", *NOBODY),
    "workflow": ("workflow", "schema"),
    "token": ("token",),
    "dev": ("dev", "--port", "0", "--http-port", "0"),
    "demo": ("demo",),
    "worker": ("worker", *NOBODY),
    "scheduler": ("scheduler",),
    "help": ("--help",),
}
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python process; what still runs afterwards is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, err: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=err, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def read_until(lines: IO[str] | None, wanted: Callable[[str], bool]) -> str:
    assert lines is not None
    read = ""
    for line in lines:
        read += line
        if wanted(line):
            return read
    raise AssertionError(f"it ended before that:\n{read}")


def imported(line: str) -> str:
    """Returns the module of a line that `-X importtime` writes when one is loaded."""
    return line.rpartition("|")[2].strip() if line.startswith("import time:") else ""


def interrupted(process: subprocess.Popen[str]) -> str:
    """Interrupts a process and returns what it still says on stderr, without the lines of `-X importtime`."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == ""
    assert process.returncode == Exit.INTERRUPTED, err
    said = "".join(line for line in err.splitlines(keepends=True) if not imported(line))
    assert not any(word in said for word in ("Traceback", "KeyboardInterrupt", "Aborted", "Exception ignored"))
    return said


@pytest.mark.parametrize("moment", ["the first module", "typer", "taskyard_cli.tree"])
@pytest.mark.parametrize("command", COMMANDS)
def test_while_a_command_loads(command: str, moment: str, start: Start) -> None:
    process = start("-X", "importtime", "-m", "taskyard_cli", *COMMANDS[command])
    read_until(process.stderr, lambda line: imported(line) == "taskyard_cli.main")
    read_until(process.stderr, lambda line: imported(line) == moment or moment == "the first module")
    assert interrupted(process) == ""


@pytest.mark.parametrize(
    ("command", "moment"),
    [(command, moment) for command in ("explain", "submit") for moment in ("asyncio", "grpc", "taskyard_client")]
    + [("worker", "asyncio"), ("worker", "grpc._cython.cygrpc"), ("worker", "prometheus_client")]
    + [("scheduler", "asyncio"), ("scheduler", "grpc._cython.cygrpc")],
)
def test_while_a_command_loads_what_it_reaches_the_scheduler_with(command: str, moment: str, start: Start) -> None:
    process = start("-X", "importtime", "-m", "taskyard_cli", *COMMANDS[command])
    read_until(process.stderr, lambda line: imported(line) == moment)
    assert interrupted(process) == ""


def test_nothing_that_takes_time_is_loaded_before_it_is_answered(start: Start) -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from taskyard_cli.main import main"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = [imported(line) for line in shown.stderr.splitlines()]
    ours = modules[modules.index("site") + 1 :]
    assert len(ours) < 20, ours
    assert not {"typing", "asyncio", "re", "typer"} & set(ours)


@pytest.mark.parametrize("what", ["task", "run"])
def test_who_waits_without_a_terminal_knows_the_id_at_once(what: str, start: Start, served: Served) -> None:
    from cli_furniture import workflow

    served.model.workflows["two"] = workflow()
    name = {"task": "submit", "run": "run"}[what]
    process = start("-m", "taskyard_cli", name, "two", "--wait", "--address", served.server.address)
    told = read_until(process.stderr, lambda line: "is submitted" in line)
    assert told == f"{what} {what}-1 is submitted\n"
    watch = {"task": "WatchTasks", "run": "WatchRun"}[what]
    served.thread.run(served.wire.reached(lambda: bool(served.wire.named(watch))))
    following = {"task": "`taskyard logs -f task-1` follows it", "run": "`taskyard runs show run-1` shows it"}[what]
    assert interrupted(process).endswith(f"{what} {what}-1 goes on: {following}, `taskyard cancel {what}-1` stops it\n")


def test_who_waits_at_a_terminal_knows_the_id_afterwards(start: Start, served: Served) -> None:
    ours, theirs = pty.openpty()
    try:
        process = start("-m", "taskyard_cli", "submit", "x", "--wait", "--address", served.server.address, err=theirs)
        os.close(theirs)
        served.thread.run(served.wire.reached(lambda: bool(served.wire.named("WatchTasks"))))
        shown = b""
        while b"QUEUED" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        shown += b"".join(iter(lambda: _read(ours), b""))
    finally:
        os.close(ours)
    assert process.wait(10) == Exit.INTERRUPTED
    assert b"task task-1 goes on: `taskyard logs -f task-1` follows it" in shown
    assert b"is submitted" not in shown
    assert b"Traceback" not in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")  # the cursor is there again


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side has closed
        return b""


STUBBORN = """
import asyncio, sys
from taskyard_cli import interrupts

async def work():
    print("works", flush=True, file=sys.stderr)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("stops", flush=True, file=sys.stderr)
        await asyncio.Event().wait()

interrupts.answer()
interrupts.run(work())
"""


def test_the_second_one_ends_a_command_that_is_stopping(start: Start) -> None:
    process = start("-c", STUBBORN)
    read_until(process.stderr, lambda line: line == "works\n")
    process.send_signal(signal.SIGINT)
    read_until(process.stderr, lambda line: line == "stops\n")
    assert interrupted(process) == ""


def test_a_second_one_ends_the_demo_at_once(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    process = start("-m", "taskyard_cli", "demo")
    read_until(process.stdout, lambda line: "Starting a scheduler" in line)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED
    assert "Traceback" not in err


IGNORES = "from taskyard_cli import interrupts; import signal; interrupts.answer(); print(signal.getsignal(2).name)"


def test_where_it_is_ignored_it_stays_ignored() -> None:
    shell = f'trap "" INT; exec {sys.executable} -c "{IGNORES}"'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert done.stdout == "SIG_IGN\n"


def test_a_loop_that_takes_the_signal_over_leaves_our_answer_behind() -> None:
    code = """
import asyncio, signal
from taskyard_cli import interrupts

async def work():
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, print)

interrupts.answer()
interrupts.run(work())
print(signal.getsignal(signal.SIGINT).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "_leave\n"
