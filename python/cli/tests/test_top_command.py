"""`taskyard top` as a process in a terminal: it shows, it ends in every way, and without a terminal it says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from cli_served import Cli, Served
from scripted_faults import Fault
from terminals import PATIENCE_S, Terminal
from top_snapshots import queue, status, task, worker

from taskyard.v1.tasks_pb2 import TaskError
from taskyard_cli.exits import Exit

Golden = Callable[[str, str], None]


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(served: Served) -> Iterator[Open]:
    opened: list[Terminal] = []

    def begin(*arguments: str, code: str = "") -> Terminal:
        opened.append(Terminal("top", "--address", served.server.address, "--token", "t", *arguments, code=code))
        return opened[-1]

    yield begin
    for each in opened:
        each.close()


@pytest.fixture(autouse=True)
def furnished(served: Served) -> None:
    model = served.model
    model.status.MergeFrom(status(SUCCESS=5, FAILED=1))
    model.queues.append(queue("train", "NO_WORKER_FOR_TYPE", waiting=12))
    model.workers.append(worker("w-first", active=3))
    model.tasks["task-run"] = task("task-run", worker_id="w-first")
    model.tasks["task-bad"] = task("task-bad", "FAILED", error=TaskError(kind="HANDLER_ERROR", message="no page"))


def test_it_shows_a_worker_and_q_ends_it(terminal: Open) -> None:
    screen = terminal()
    screen.read_until(b"w-first")
    screen.press(b"q")
    assert screen.ended() == Exit.OK
    assert screen.text.rfind(b"\x1b[?1049l") > screen.text.rfind(b"\x1b[?1049h"), "the screen before is there again"
    assert screen.text.rfind(b"\x1b[?25h") > screen.text.rfind(b"\x1b[?25l"), "and so is the cursor"
    assert b"Traceback" not in screen.text


@pytest.mark.parametrize("how", ["ctrl-c", "SIGINT", "SIGTERM"])
def test_it_ends_in_order_however_it_is_told_to(how: str, terminal: Open) -> None:
    screen = terminal()
    screen.read_until(b"w-first")
    if how == "ctrl-c":
        screen.press(b"\x03")
    else:
        screen.process.send_signal(signal.Signals[how])
    assert screen.ended() == Exit.OK
    assert screen.text.rfind(b"\x1b[?1049l") > screen.text.rfind(b"\x1b[?1049h")
    assert b"Traceback" not in screen.text


@pytest.mark.parametrize("how", ["closed", "SIGHUP"])
def test_it_ends_with_its_terminal(how: str, terminal: Open) -> None:
    screen = terminal()
    screen.read_until(b"w-first")
    if how == "closed":
        screen.hang_up()
    else:
        screen.process.send_signal(signal.SIGHUP)
    assert screen.process.wait(PATIENCE_S) == Exit.OK


def test_it_goes_on_with_a_scheduler_that_comes_back(terminal: Open, served: Served) -> None:
    screen = terminal("--interval", "200ms")
    screen.read_until(b"w-first")
    served.thread.run(served.server.stop())
    screen.read_until(b"no connection since")
    served.model.workers[0].worker_id = "w-later"
    served.thread.run(served.server.start())
    screen.read_until(b"w-later")
    screen.press(b"q")
    assert screen.ended() == Exit.OK


BROKEN = """
from taskyard_cli.main import main
from taskyard_cli.top import screen

def broken(*_):
    secret = "not for the screen"
    raise ValueError(secret[:3])

screen.work_line = broken
main()
"""


def test_a_fault_of_the_screen_is_told_as_any_other(terminal: Open) -> None:
    screen = terminal(code=BROKEN)
    assert screen.ended() == Exit.UNEXPECTED
    last = screen.text[screen.text.rfind(b"\x1b[?1049l") :]
    assert b"error: ValueError: a fault of this program; the details are in" in last
    assert b"Traceback" not in screen.text
    assert b"not for the screen" not in screen.text


@pytest.mark.parametrize(
    ("fault", "code", "says"),
    [
        (Fault(grpc.StatusCode.UNAUTHENTICATED, "the token has expired", "TOKEN"), Exit.NOT_ALLOWED, b"has expired"),
        (Fault(grpc.StatusCode.PERMISSION_DENIED, "a worker may not", "ROLE"), Exit.NOT_ALLOWED, b"a worker may not"),
    ],
)
def test_who_may_not_look_is_told_before_there_is_a_screen(
    fault: Fault, code: Exit, says: bytes, terminal: Open, served: Served
) -> None:
    served.server.script("GetClusterStatus", fault)
    screen = terminal()
    assert screen.ended() == code
    assert says in screen.text
    assert b"\x1b[?1049h" not in screen.text


def test_without_a_terminal_it_says_so(at: Cli) -> None:
    shown = at("top")
    assert (shown.exit_code, shown.stdout) == (Exit.USAGE, "")
    assert shown.stderr.endswith("and top needs one; `taskyard top --once` prints a snapshot as text\n")


@pytest.mark.parametrize("arguments", [("--interval", "10ms"), ("--interval", "soon"), ("-o", "json")])
def test_a_wrong_command_line_is_refused(arguments: tuple[str, ...], at: Cli) -> None:
    assert at("top", *arguments).exit_code == Exit.USAGE


def test_one_snapshot_as_text(at: Cli, served: Served, golden: Golden) -> None:
    shown = at("top", "--once", "--interval", "200ms", "--filter", 'task_type == "shell"')
    assert (shown.exit_code, shown.stderr) == (Exit.OK, "")
    golden("top-once.txt", shown.stdout.replace(served.server.address, "ADDRESS"))
    assert "(task_type ==" in served.wire.named("ListTasks")[0].filter


def test_one_snapshot_as_json(at: Cli) -> None:
    shown = at("top", "--once", "--interval", "200ms", "-o", "json")
    told = json.loads(shown.stdout)
    assert [each["workerId"] for each in told["workers"]] == ["w-first"]
    assert [each["taskId"] for each in told["running"]] == ["task-run"]
    assert [each["error"]["kind"] for each in told["failed"]] == ["HANDLER_ERROR"]
    assert told["queues"][0]["reasons"][0]["code"] == "NO_WORKER_FOR_TYPE"
    assert told["endedPerSecond"] == {"FAILED": 0.0, "SUCCESS": 0.0}


def test_the_library_that_draws_is_loaded_for_the_screen_alone(tmp_path: Path, served: Served) -> None:
    arguments = ["top", "--once", "--interval", "200ms", "--address", served.server.address]
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "taskyard_cli", *arguments],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    modules = {line.rpartition("|")[2].strip() for line in loaded.stderr.splitlines()}
    assert "taskyard_cli.top.reading" in modules
    assert "textual" not in modules


def test_the_first_frame_has_everything_at_its_full_width(served: Served, terminal: Open) -> None:
    served.model.tasks["old-one"] = task("old-one", "FAILED", error=TaskError(kind="HANDLER_ERROR", message="no page"))
    begun = terminal()
    begun.read_until(b"HANDLER_ERROR")
    first, _, later = begun.text.partition(b"4 FAILED")
    assert first.count(b"1 QUEUES") == 1, "another frame was drawn before it"
    assert b"NO_WORKER_FOR_TYPE: because of NO_WORKER_FOR_TYPE" in first
    assert b"no page" in later
