from __future__ import annotations

import asyncio
import io
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable

import pytest

from taskyard_service.lifecycle import BackgroundTask, Group, LoopFailed, TaskHolder, end_tasks, signals
from taskyard_service.logging import make_logger


class Journal(io.StringIO):
    def events(self, key: str = "event") -> list[str]:
        return [json.loads(line)[key] for line in self.getvalue().splitlines()]


class Story(list[str]):
    """What was asked of the loops, in order; one can wait for it to be so long."""

    def __init__(self) -> None:
        super().__init__()
        self._grown = asyncio.Event()

    def tell(self, line: str) -> None:
        self.append(line)
        self._grown.set()

    async def has(self, lines: int) -> None:
        while len(self) < lines:
            self._grown.clear()
            await asyncio.wait_for(self._grown.wait(), 10)


class Recorder:
    """A loop that writes down what is asked of it, and fails where it is told to."""

    def __init__(self, name: str, story: Story, fails: str = "") -> None:
        self.name = name
        self.story = story
        self.fails = fails
        self.asked = asyncio.Event()
        self.break_down = asyncio.Event()

    async def start(self) -> None:
        self.story.tell(f"{self.name} start")
        if self.fails == "hang in start":
            await asyncio.Event().wait()
        self._maybe("start")

    async def run(self) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.asked, self.break_down)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        if self.break_down.is_set() and self.fails == "return":
            return
        if self.fails == "ignore stop":
            await asyncio.Event().wait()
        while self.fails == "ignore cancel" and not self.break_down.is_set():
            try:
                await self.break_down.wait()
            except asyncio.CancelledError:
                continue
        self._maybe("run")

    async def stop(self) -> None:
        self.story.tell(f"{self.name} stop")
        self.asked.set()
        self._maybe("stop")

    def _maybe(self, where: str) -> None:
        if self.fails == where:
            raise RuntimeError(f"{where} broke")


def group_of(*loops: Recorder, timeout_s: float = 5.0) -> tuple[Group, Journal]:
    journal = Journal()
    group = Group(make_logger("t", stream=journal), stop_timeout_s=timeout_s, cancel_timeout_s=timeout_s)
    for loop in loops:
        group.add(loop)
    return group, journal


async def test_starts_in_order_and_stops_in_reverse() -> None:
    story = Story()
    group, _ = group_of(*(Recorder(name, story) for name in "abc"))
    running = asyncio.create_task(group.run(), name="run")
    await story.has(3)
    group.request_stop("enough")
    group.request_stop("later reasons do not count")
    assert await running == "enough"
    assert story == ["a start", "b start", "c start", "c stop", "b stop", "a stop"]


async def test_the_first_failure_stops_all_and_is_the_reason() -> None:
    story = Story()
    loops = [Recorder("a", story), Recorder("b", story, fails="run"), Recorder("c", story)]
    group, journal = group_of(*loops)
    loops[1].break_down.set()
    with pytest.raises(LoopFailed, match="b failed: run broke") as caught:
        await group.run()
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.loop == "b"
    assert story[-1] == "a stop"
    assert "failed" in journal.events()


async def test_a_loop_that_returns_unasked_is_a_failure() -> None:
    loop = Recorder("a", Story(), fails="return")
    group, _ = group_of(loop)
    loop.break_down.set()
    with pytest.raises(LoopFailed, match="a ended though nobody asked"):
        await group.run()


async def test_a_loop_that_does_not_start_stops_those_before_it_and_starts_none_after() -> None:
    story = Story()
    group, _ = group_of(Recorder("a", story), Recorder("b", story, fails="start"), Recorder("c", story))
    with pytest.raises(LoopFailed, match="b did not start: start broke"):
        await group.run()
    assert story == ["a start", "b start", "a stop"]


async def test_a_stop_while_a_loop_starts_cancels_the_start() -> None:
    story = Story()
    group, _ = group_of(Recorder("a", story), Recorder("b", story, fails="hang in start"))
    running = asyncio.create_task(group.run(), name="run")
    await story.has(2)
    group.request_stop("changed my mind")
    assert await running == "changed my mind"
    assert story == ["a start", "b start", "a stop"]


async def test_a_group_that_is_stopped_before_it_runs_starts_nothing() -> None:
    story = Story()
    group, _ = group_of(Recorder("a", story))
    group.request_stop("x")
    assert await group.run() == "x"
    assert story == []


async def test_a_stop_that_fails_does_not_keep_the_others_running() -> None:
    story = Story()
    group, _ = group_of(Recorder("a", story), Recorder("b", story, fails="stop"))
    running = asyncio.create_task(group.run(), name="run")
    await story.has(2)
    group.request_stop("x")
    with pytest.raises(LoopFailed, match="b did not stop well: stop broke"):
        await running
    assert story[-2:] == ["b stop", "a stop"]


async def test_a_loop_that_ignores_stop_is_cancelled_after_its_time() -> None:
    story = Story()
    group, journal = group_of(Recorder("a", story), Recorder("b", story, fails="ignore stop"), timeout_s=0.05)
    running = asyncio.create_task(group.run(), name="run")
    await story.has(2)
    group.request_stop("x")
    assert await running == "x"
    assert "did not stop in time, cancelled" in journal.events()
    assert story[-1] == "a stop"


async def test_a_loop_that_ignores_its_cancellation_is_reported_and_does_not_hold_the_rest_up() -> None:
    story = Story()
    stubborn = Recorder("b", story, fails="ignore cancel")
    group, _ = group_of(Recorder("a", story), stubborn, timeout_s=0.05)
    running = asyncio.create_task(group.run(), name="run")
    await story.has(2)
    group.request_stop("x")
    with pytest.raises(LoopFailed, match="b ignored its cancellation"):
        await running
    assert story[-1] == "a stop"
    stubborn.break_down.set()


async def test_cancelling_the_group_stops_all_and_stays_a_cancellation() -> None:
    story = Story()
    group, _ = group_of(Recorder("a", story), Recorder("b", story))
    running = asyncio.create_task(group.run(), name="run")
    await story.has(2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert story[-2:] == ["b stop", "a stop"]


async def test_a_background_task_is_a_loop() -> None:
    cleaned = asyncio.Event()

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    group = Group(make_logger("t", stream=Journal()))
    group.add(BackgroundTask("sweeper", body))
    running = asyncio.create_task(group.run(), name="run")
    await asyncio.sleep(0.01)
    group.request_stop("x")
    assert await running == "x"
    assert cleaned.is_set()


async def test_a_background_task_that_ends_is_a_failure() -> None:
    async def body() -> None:
        return

    group = Group(make_logger("t", stream=Journal()))
    group.add(BackgroundTask("sweeper", body))
    with pytest.raises(LoopFailed, match="sweeper ended though nobody asked"):
        await group.run()


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_fails_and_whenever_it_stops_nothing_is_left_running(seed: int) -> None:
    chance = random.Random(seed)
    story = Story()
    kinds = ["", "", "", "start", "run", "stop", "return", "ignore stop", "hang in start"]
    loops = [Recorder(f"l{n}", story, fails=chance.choice(kinds)) for n in range(chance.randint(1, 6))]
    group, _ = group_of(*loops, timeout_s=0.02)
    before = asyncio.all_tasks()
    running = asyncio.create_task(group.run(), name="run")
    hits: list[Callable[[], object]] = [loop.break_down.set for loop in loops]
    in_a_hurry = False

    def cancel() -> None:
        nonlocal in_a_hurry
        in_a_hurry = group.stopping  # a cancellation while it stops: no more asking, everything is cancelled
        running.cancel()

    hits += [lambda: group.request_stop("asked"), cancel]
    for _ in range(chance.randint(0, 12)):
        await asyncio.sleep(0)
    for hit in chance.sample(hits, chance.randint(1, len(hits))):
        hit()
        for _ in range(chance.randint(0, 4)):
            await asyncio.sleep(0)
    group.request_stop("end of the test")
    _, late = await asyncio.wait({running}, timeout=20)
    assert not late
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() if not task.done()} == before
    # Whoever was started is stopped once, the last first, and nobody else is.
    stops = [line.split()[0] for line in story if line.endswith("stop")]
    begun = [line.split()[0] for line in story if line.endswith("start")]
    good = {loop.name for loop in loops if loop.fails not in ("start", "hang in start")}
    expected = sorted(good.intersection(begun), reverse=True)
    assert stops == (expected[: len(stops)] if in_a_hurry else expected)


async def test_a_signal_stops_and_a_second_one_ends_at_once() -> None:
    codes: list[int] = []
    ended = asyncio.Event()

    def exit_now(code: int) -> None:
        codes.append(code)
        ended.set()

    group, journal = group_of(Recorder("a", story := Story()))
    log = make_logger("t", stream=journal)
    with signals(group, log, exit_now=exit_now):  # type: ignore[arg-type]  # the real one does not return
        running = asyncio.create_task(group.run(), name="run")
        await story.has(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(running, 10) == "SIGTERM"
        assert codes == []
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(ended.wait(), 10)
    assert codes == [130]
    assert "second signal, ending at once" in journal.events()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_a_holder_owns_names_and_ends_its_tasks() -> None:
    journal = Journal()
    holder = TaskHolder("streams", make_logger("t", stream=journal))

    async def forever() -> None:
        await asyncio.Event().wait()

    async def broken() -> None:
        raise RuntimeError("oh")

    kept = holder.spawn(forever(), "w-1")
    failed = holder.spawn(broken(), "w-2")
    await asyncio.wait({failed})
    await asyncio.sleep(0)
    assert (kept.get_name(), len(holder)) == ("streams.w-1", 1)
    assert journal.events("task") == ["streams.w-2"]
    await holder.close()
    assert kept.cancelled()
    assert len(holder) == 0
    late: Awaitable[None] = forever()
    with pytest.raises(RuntimeError, match="streams is closed"):
        holder.spawn(late, "w-3")  # type: ignore[arg-type]


class Stubborn:
    """Ignores its cancellation until it is let go."""

    def __init__(self) -> None:
        self.runs, self.asked, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._run(), name="stubborn")

    async def _run(self) -> None:
        self.runs.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.asked.set()


async def test_who_ends_tasks_and_is_cancelled_meanwhile_is_cancelled() -> None:
    """Also when the task ends in the same moment: its end must not be taken for all that happened."""
    for together in (False, True):
        stubborn = Stubborn()
        await stubborn.runs.wait()
        ending = asyncio.create_task(end_tasks([stubborn.task], make_logger("t")), name="ending")
        await asyncio.wait_for(stubborn.asked.wait(), 10)
        ending.cancel()
        if together:
            stubborn.let_go.set()
        await asyncio.wait({ending}, timeout=10)
        assert ending.cancelled()
        stubborn.let_go.set()
        await asyncio.wait_for(stubborn.task, 10)


async def test_a_task_that_ignores_its_cancellation_is_left_behind_and_said() -> None:
    journal, stubborn = Journal(), Stubborn()
    await stubborn.runs.wait()
    await asyncio.wait_for(end_tasks([stubborn.task], make_logger("t", stream=journal), 0.01), 10)
    assert journal.events() == ["ignored its cancellation and was left behind"]
    stubborn.let_go.set()
    await asyncio.wait_for(stubborn.task, 10)


async def test_what_a_task_raises_as_it_is_cancelled_is_said_once() -> None:
    journal = Journal()
    log = make_logger("t", stream=journal)
    runs = asyncio.Event()

    async def breaks() -> None:
        runs.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("while cleaning up")

    holder = TaskHolder("streams", log)
    holder.spawn(breaks(), "w")
    await asyncio.wait_for(runs.wait(), 10)
    await holder.close()
    runs.clear()
    alone = asyncio.create_task(breaks(), name="alone")
    await asyncio.wait_for(runs.wait(), 10)
    await end_tasks([alone], log)
    assert journal.events() == ["background task failed"] * 2
