"""The screen of `taskyard top` on a scripted scheduler: what it shows, what its keys do, what it says of trouble."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import pytest
from scripted_faults import Fault
from scripted_server import ScriptedServer
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, RichLog, Static
from top_snapshots import queue, status, task, worker

from taskyard.v1 import tasks_pb2
from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard_cli.top.dialogs import FilterWindow, Question, ReasonWindow, Sheet
from taskyard_cli.top.log_screen import LogScreen
from taskyard_cli.top.panes import Pane
from taskyard_cli.top.reading import Reader
from taskyard_cli.top.screen import Main, TopApp
from taskyard_cli.top.task_screen import TaskScreen
from taskyard_client import AsyncClient

INTERVAL = 0.05
SMALL, LARGE = (80, 24), (160, 50)


@dataclass
class Shown:
    """The screen, and the scheduler behind it."""

    app: TopApp
    main: Main
    pilot: Pilot[None]
    server: ScriptedServer

    async def until(self, true: Callable[[], object], what: str = "") -> None:
        """Waits until the screen shows something: it draws in turns of the loop, and has no signal for it."""
        async with asyncio.timeout(30):
            while not true():
                await self.pilot.pause(0.01)

    async def reads(self, count: int = 1) -> None:
        """Waits for further readings."""
        wanted = self.main.readings + count
        await self.until(lambda: self.main.readings >= wanted)

    def text(self, name: str) -> str:
        return str(self.app.screen.query_one(f"#{name}", Static).visual)

    def cells(self, name: str) -> list[list[str]]:
        pane = self.main.query_one(f"#{name}", Pane)
        return [[str(cell).strip() for cell in pane.get_row_at(at)] for at in range(pane.row_count)]

    def seen(self) -> str:
        """Returns what stands on the screen, as text."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in lines)


@asynccontextmanager
async def shown(server: ScriptedServer, size: tuple[int, int] = SMALL, timeout: float = 2.0) -> AsyncIterator[Shown]:
    async with AsyncClient(server.address, "t", timeout=timeout) as client:
        reader = Reader(client)
        main = Main(reader, await reader.read(), server.address, interval=INTERVAL, filter="")
        app = TopApp(main)
        async with app.run_test(size=size, notifications=True) as pilot:
            yield Shown(app, main, pilot, server)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        model = running.model
        model.status.MergeFrom(status(SUCCESS=5))
        model.status.tasks_in_flight = 1
        model.queues.append(queue("train", "NO_WORKER_FOR_TYPE", waiting=12))
        model.workers += [worker("w-1", active=3), worker("w-2", "UNHEALTHY")]
        for each in (
            task("task-run", worker_id="w-1", percent=40),
            task("task-bad", "FAILED", error=tasks_pb2.TaskError(kind="HANDLER_ERROR", message="no such page")),
            task("head-of-train", "QUEUED"),
        ):
            each.start_time.FromDatetime(datetime.now(UTC))
            each.end_time.FromDatetime(datetime.now(UTC))
            model.tasks[each.task_id] = each
        model.logs["task-run"] = [
            tasks_pb2.StoredLogLine(attempt=1, line=0, content=tasks_pb2.LogLine(text="begin\x1b[2J")),
            tasks_pb2.StoredLogLine(attempt=2, line=0, content=tasks_pb2.LogLine(text="again")),
        ]
        yield running


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_everything_is_on_the_screen(server: ScriptedServer, size: tuple[int, int]) -> None:
    async with shown(server, size) as on:
        parts = ("QUEUES", "WORKERS", "RUNNING", "FAILED", "train", "NO_WORKER_FOR_TYPE", "w-1", "3/10", "task-run",
                     "40", "task-bad", "HANDLER_ERROR", "term 1", "q quit")  # fmt: skip
        await on.until(lambda: not [part for part in parts if part not in on.seen()])
        assert [row[0] for row in on.cells("queues")] == ["!"]
        assert [row[:3] for row in on.cells("workers")] == [["!", "w-2", "UNHEALTHY"], ["", "w-1", "HEALTHY"]]
        assert max(len(line) for line in on.seen().splitlines()) <= size[0]


async def test_throughput_comes_from_two_readings(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.until(lambda: "0.0/s" in on.text("rate"))
        server.model.status.tasks_ended["FAILED"] = 10_000
        await on.until(lambda: "FAILED" in on.text("rate"))
        assert "█" in on.text("rate")
        await on.until(lambda: "0.0/s" in on.text("rate"))


async def test_the_cursor_stays_with_its_task(server: ScriptedServer) -> None:
    async with shown(server) as on:
        for number in range(3):
            server.model.tasks[f"t{number}"] = task(f"t{number}")
        await on.until(lambda: len(on.cells("running")) == 4)
        await on.pilot.press("down")
        chosen = on.main.task_id()
        assert chosen
        first = on.cells("running")[0][1]
        del server.model.tasks[first]
        await on.until(lambda: len(on.cells("running")) == 3)
        assert on.main.task_id() == chosen


async def test_a_task_is_opened_and_its_page_follows_it(server: ScriptedServer) -> None:
    async with shown(server, LARGE) as on:
        await on.pilot.press("enter")
        await on.until(lambda: isinstance(on.app.screen, TaskScreen) and "explained" in on.seen())
        assert "task-run" in on.seen()
        server.model.tasks["task-run"].progress_message = "page 7"
        await on.until(lambda: "page 7" in on.seen())
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.main)


@pytest.mark.parametrize(
    ("key", "part", "where", "call"),
    [("enter", "#page", AsyncClient, "explain"), ("l", "#state", AsyncClient, "logs"), ("", "#rate", Reader, "read")],
)
async def test_what_comes_when_a_screen_is_being_closed_is_dropped(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, key: str, part: str, where: type, call: str
) -> None:
    reading, late, asked = asyncio.Event(), False, getattr(where, call)
    opened: Screen[object] | None = None

    async def parts_are_gone() -> None:
        nonlocal late  # what is cancelled first shows nothing
        reading.set()
        while opened is None or opened.query(part):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        late = True

    async def answer(*args: object, **named: object) -> object:
        found = await asked(*args, **named)
        await parts_are_gone()
        return found

    async def lines(*args: object, **named: object) -> AsyncIterator[object]:
        async for line in asked(*args, **named):
            await parts_are_gone()
            yield line

    async with shown(server) as on:
        monkeypatch.setattr(where, call, lines if call == "logs" else answer)
        if key:
            await on.pilot.press(key)
            await on.until(lambda: on.app.screen is not on.main)
        opened = on.app.screen
        await asyncio.wait_for(reading.wait(), 30)
    assert late


async def test_a_queue_opens_its_first_task_and_a_worker_shows_its_own(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("1", "enter")
        await on.until(lambda: isinstance(on.app.screen, TaskScreen) and "head-of-train" in on.seen())
        await on.pilot.press("escape", "2", "enter")
        await on.until(lambda: "where worker_id" in on.seen())
        assert 'worker_id == "w-2"' in server.wire.named("ListTasks")[-1].filter


async def test_logs_are_followed_and_cannot_drive_the_terminal(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("l")
        await on.until(lambda: isinstance(on.app.screen, LogScreen) and len(on.app.screen.query_one(RichLog).lines) > 2)
        lines = [strip.text.strip() for strip in on.app.screen.query_one(RichLog).lines]
        assert lines == ["begin␛[2J", "--- attempt 2 ---", "again"]
        await on.until(lambda: "has ended" in on.text("state"))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.main)


async def test_text_that_comes_in_pieces_is_joined_as_it_comes(server: ScriptedServer) -> None:
    server.model.logs["task-run"] = [
        tasks_pb2.StoredLogLine(
            attempt=1, line=number, content=tasks_pb2.LogLine(text=text, stream=stream, partial=partial)
        )
        for number, (stream, text, partial) in enumerate(
            [("output", "once ", True), ("output", "upon", False), ("output", "a", True), ("log", "note", False),
             ("log", "", False), ("output", "time", True)]
        )
    ]  # fmt: skip
    async with shown(server) as on:
        await on.pilot.press("l")
        await on.until(lambda: isinstance(on.app.screen, LogScreen) and "has ended" in on.text("state"))
        lines = [strip.text.strip() for strip in on.app.screen.query_one(RichLog).lines]
        assert lines == ["once upon", "a", "note", "", "time"]
        assert on.text("open") == ""


async def test_a_key_explains(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("e")
        await on.until(lambda: isinstance(on.app.screen, Sheet) and "NO_WORKER_FOR_TYPE" in on.seen())
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.main)


@pytest.mark.parametrize("key", ["n", "escape", "enter"])
async def test_nothing_is_done_that_was_not_agreed_to(server: ScriptedServer, key: str) -> None:
    async with shown(server) as on:
        await on.pilot.press("c")
        await on.until(lambda: isinstance(on.app.screen, Question) and "cancel task task-run?" in on.seen())
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.main)
        await on.reads(2)
        assert not server.wire.named("CancelTask")


async def test_a_task_is_cancelled_and_another_is_run_again(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("c")
        await on.until(lambda: isinstance(on.app.screen, Question))
        await on.pilot.press("y")
        await on.until(lambda: server.model.tasks["task-run"].status == TaskStatus.TASK_STATUS_CANCELLED)
        await on.until(lambda: on.app.screen is on.main and on.cells("running") == [])
        await on.pilot.press("4", "r")
        await on.until(lambda: isinstance(on.app.screen, Question) and "retry task task-bad?" in on.seen())
        await on.pilot.press("y")
        await on.until(lambda: server.model.tasks["task-bad"].status == TaskStatus.TASK_STATUS_QUEUED)


async def test_who_may_not_act_is_told_and_goes_on_looking(server: ScriptedServer) -> None:
    server.script("CancelTask", Fault(grpc.StatusCode.PERMISSION_DENIED, "a viewer may not cancel", "ROLE"))
    async with shown(server) as on:
        await on.pilot.press("c")
        await on.until(lambda: isinstance(on.app.screen, Question))
        await on.pilot.press("y")
        await on.until(lambda: "a viewer may not cancel" in on.seen())
        await on.reads(2)
        assert on.text("trouble") == ""


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_queue_is_held_back_with_a_reason_once_that_is_agreed_to(
    server: ScriptedServer, size: tuple[int, int]
) -> None:
    server.model.queues[0].name = "train/1f"
    async with shown(server, size) as on:
        await on.reads()
        await on.pilot.press("P")
        await on.until(lambda: "no queue is chosen" in on.seen())
        await on.pilot.press("1", "P")
        await on.until(lambda: isinstance(on.app.screen, ReasonWindow) and "pause queue train/1f?" in on.seen())
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.main)
        assert not server.wire.named("PauseWork")
        await on.pilot.press("P")
        await on.until(lambda: isinstance(on.app.screen, ReasonWindow))
        await on.pilot.press(*"q?", "enter")
        await on.until(lambda: "queue train/1f is paused" in on.seen())
        [asked] = server.wire.named("PauseWork")
        assert (asked.scope, asked.name, asked.reason) == (PauseScope.PAUSE_SCOPE_QUEUE, "train/1f", "q?")


async def test_a_queue_goes_on_that_is_paused_by_itself(server: ScriptedServer) -> None:
    only, all = (
        server.model.held.add(PauseScope.PAUSE_SCOPE_QUEUE, "train/1f", ""),
        Pause(scope=PauseScope.PAUSE_SCOPE_ALL),
    )
    queue = server.model.queues[0]
    queue.name = "train/1f"
    queue.pause.CopyFrom(only)
    async with shown(server) as on:
        await on.reads()
        await on.pilot.press("1", "P")
        await on.until(lambda: isinstance(on.app.screen, Question) and "let queue train/1f go on?" in on.seen())
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.main)
        assert not server.wire.named("ResumeWork")
        await on.pilot.press("P", "y")
        await on.until(lambda: "queue train/1f goes on" in on.seen())
        assert [each.name for each in server.wire.named("ResumeWork")] == ["train/1f"]
        await on.pilot.press("P", "y")
        await on.until(lambda: "not done" in on.seen())  # somebody else was faster
        queue.pause.CopyFrom(all)
        await on.reads(2)
        await on.pilot.press("P")
        await on.until(lambda: isinstance(on.app.screen, ReasonWindow))


async def test_a_filter_is_taken_and_a_wrong_one_is_refused(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("f")
        await on.until(lambda: isinstance(on.app.screen, FilterWindow))
        on.app.screen.query_one(Input).value = 'task_type == "shell"'
        await on.pilot.press("enter")
        await on.until(lambda: 'where task_type == "shell"' in on.seen())
        fault = Fault(grpc.StatusCode.INVALID_ARGUMENT, "no field colour", "INVALID_INPUT")
        await on.pilot.press("f")
        await on.until(lambda: isinstance(on.app.screen, FilterWindow))
        on.app.screen.query_one(Input).value = "colour == 1"
        server.script("ListTasks", *[fault] * 9)
        await on.pilot.press("enter")
        await on.until(lambda: "no field colour" in on.seen())
        asked = [each.filter for each in server.wire.named("ListTasks")]
        assert "colour == 1" in asked  # alone, so that the place is that in what was typed
        server.wire.faults["ListTasks"].clear()
        await on.reads(2)
        assert 'where task_type == "shell"' in on.seen()


async def test_nothing_is_read_while_it_is_paused(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await on.pilot.press("p")
        await on.until(lambda: "PAUSED" in on.seen())
        turns = on.main.turns
        await on.until(lambda: on.main.turns > turns)  # one reading may have been under way
        before = len(server.wire.calls)
        await on.until(lambda: on.main.turns >= turns + 4)
        assert len(server.wire.calls) == before
        await on.pilot.press("p")
        await on.until(lambda: len(server.wire.calls) > before)
        assert "PAUSED" not in on.seen()


async def test_a_scheduler_that_goes_and_comes_back_is_told_of(server: ScriptedServer) -> None:
    async with shown(server) as on:
        await server.stop()
        await on.until(lambda: "no connection since" in on.text("trouble"))
        assert "trying again" in on.text("trouble")
        assert await on.main._read_once() == 0.0, "nobody worked: the next try need not wait"
        assert on.cells("workers"), "what was known stays"
        first = on.text("trouble").partition(",")[0]
        await on.reads(2)
        assert on.text("trouble").partition(",")[0] == first, "since the first of the failures"
        server.model.workers[0].worker_id = "w-new"
        await server.start()
        await on.until(lambda: any(row[1] == "w-new" for row in on.cells("workers")))
        assert on.text("trouble") == ""


async def test_a_token_that_is_refused_is_said_plainly(server: ScriptedServer) -> None:
    async with shown(server) as on:
        server.script("GetClusterStatus", *[Fault(grpc.StatusCode.UNAUTHENTICATED, "the token has expired", "X")] * 500)
        await on.until(lambda: "does not let you look" in on.text("trouble"))
        assert "the token has expired" in on.text("trouble")
        server.wire.faults["GetClusterStatus"].clear()
        await on.until(lambda: on.text("trouble") == "")


async def test_a_slow_scheduler_is_asked_less(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(server) as on:
        await on.reads()
        monkeypatch.setattr("taskyard_cli.top.screen.SHARE", 1_000_000)
        await on.until(lambda: on.main.rest_s > 60)


async def test_help_names_every_key_and_q_ends(server: ScriptedServer) -> None:
    async with shown(server, LARGE) as on:
        await on.pilot.press("question_mark")
        await on.until(lambda: isinstance(on.app.screen, Sheet) and "this page" in on.seen())
        text = on.seen()
        assert [key for key in "lecrfpP?q" if not re.search(rf"│ {re.escape(key)}[ ,]", text)] == []
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.main)
        await on.pilot.press("q")
        await on.until(lambda: not on.app.is_running)
        assert on.app.return_code == 0
