"""A handler that holds the event loop: a thread says what has started, and the rest waits for the scheduler's word."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import grpc
import pytest
from pydantic import SecretStr
from worker_fakes import PATIENCE_S, Answers, Bench, FakeLink, Silent, assignment, gated, order, status, working
from worker_grpc_scheduler import GrpcScheduler, serving

from taskyard.v1.workers_pb2 import HeartbeatRequest, HeartbeatResponse
from taskyard_worker import Context, TaskRegistry
from taskyard_worker.confirmation import BACKLOG_S, Doubt
from taskyard_worker.grpc_link import ThreadLink
from taskyard_worker.link import LinkError
from taskyard_worker.settings import WorkerSettings
from taskyard_worker.stand_in import StandIn
from taskyard_worker.watchdog import LoopGuard
from taskyard_worker.worker import open_links

NOTICE_S = 0.05


class Direct:
    """The scheduler as the thread reaches it; fails as often as the test says."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.tries = 0
        self.heartbeats: list[HeartbeatRequest] = []
        self.spoken = threading.Event()

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self.tries += 1
        if self.tries <= self.failures:
            raise LinkError("UNAVAILABLE", "", "nobody is there")
        self.heartbeats.append(request)
        self.spoken.set()
        return HeartbeatResponse(ok=True)

    def hold_the_loop(self) -> None:
        """Blocks the calling thread until the other one has spoken."""
        assert self.spoken.wait(PATIENCE_S)


@asynccontextmanager
async def guarded(registry: TaskRegistry, direct: Direct, link: FakeLink | None = None) -> AsyncIterator[Bench]:
    """Run a worker whose loop is guarded."""
    async with working(registry, link) as bench:
        stand_in = StandIn(bench.runtime.work, bench.runtime.session, direct, bench.log)
        guard = LoopGuard(bench.log, stand_in, notice_s=NOTICE_S)
        guard.start()
        try:
            yield bench
        finally:
            guard.close()


def blocking(registry: TaskRegistry, direct: Direct, before: Callable[[], object] = lambda: None) -> list[str]:
    """Registers a handler that holds the loop until a thread has spoken, and one that only says that it ran."""
    ran: list[str] = []

    @registry.task("block")
    async def block(ctx: Context) -> str:
        ran.append(ctx.task_id)
        before()
        direct.hold_the_loop()
        return "blocked"

    @registry.task("quick")
    async def quick(ctx: Context) -> None:
        ran.append(ctx.task_id)

    return ran


async def test_a_thread_tells_what_has_started_while_a_handler_holds_the_loop(registry: TaskRegistry) -> None:
    direct = Direct()
    ran = blocking(registry, direct)
    async with guarded(registry, direct) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("before", "quick"), assignment("a", "block"), assignment("behind", "quick"))
        assert status(await stream.result("a")) == "SUCCESS"
        told = direct.heartbeats[0]
        assert set(told.started_tokens) == {"before", "a"}, "what ended and could not be sent has started, too"
        assert list(told.attempt_tokens) == [], "no lease is renewed by a worker that cannot stop anything"
        assert (told.worker_id, told.session_epoch, told.active_tasks) == ("worker-1", 1, 2)
        await stream.result("behind")
        assert ran == ["task-before", "task-a", "task-behind"]


async def test_what_has_suspended_before_is_told_as_well(registry: TaskRegistry) -> None:
    direct = Direct()
    blocking(registry, direct)
    gate, _, _ = gated(registry)
    async with guarded(registry, direct) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("waits"), assignment("a", "block"))
        await stream.result("a")
        assert set(direct.heartbeats[0].started_tokens) == {"waits", "a"}
        gate.set()
        await stream.result("waits")


async def test_what_was_not_entered_waits_for_the_scheduler_and_is_dropped_if_it_was_lost(
    registry: TaskRegistry,
) -> None:
    """The same frame and one that came during the hold: some was given to another worker meanwhile."""
    direct, link = Direct(), FakeLink(heartbeat_answers=Answers(HeartbeatResponse(ok=True, lost_tokens=["b", "d"])))
    ran = blocking(registry, direct, lambda: link.streams[0].assign(assignment("d", "quick"), assignment("e", "quick")))
    async with guarded(registry, direct, link):
        stream = await link.stream()
        stream.assign(assignment("a", "block"), assignment("b", "quick"), assignment("c", "quick"))
        for token in ("a", "c", "e"):
            assert status(await stream.result(token)) == "SUCCESS"
        assert ran == ["task-a", "task-c", "task-e"]
        assert stream.started[0] == "c", "what starts late says so before it is entered: it may hold the loop, too"
        assert {token for beat in link.heartbeats for token in beat.attempt_tokens} >= {"b", "c", "d", "e"}
        assert not any(beat.started_tokens for beat in link.heartbeats)


async def test_what_waited_is_entered_when_its_start_has_been_sent(registry: TaskRegistry) -> None:
    """It may hold the loop as well, and by then its start timeout may be near."""
    direct, link, sent = Direct(), FakeLink(), []
    blocking(registry, direct)

    @registry.task("late")
    async def late() -> None:
        sent.append("b" in link.streams[0].started)

    async with guarded(registry, direct, link):
        stream = await link.stream()
        stream.assign(assignment("a", "block"), assignment("b", "late"))
        await stream.result("b")
        assert sent == [True]


async def test_without_an_answer_nothing_that_waits_is_entered_and_it_can_be_cancelled(
    registry: TaskRegistry,
) -> None:
    direct, link = Direct(), FakeLink(heartbeat_answers=Answers(LinkError("UNAVAILABLE", "", "cut off")))
    ran = blocking(registry, direct)
    async with guarded(registry, direct, link) as bench:
        stream = await link.stream()
        stream.assign(assignment("a", "block"), assignment("b", "quick"))
        await stream.result("a")
        stream.push(cancels=[order("b")])
        assert status(await stream.result("b")) == "CANCELLED"
        assert ran == ["task-a"]
        assert bench.runtime.work.active == 0


async def test_a_held_worker_goes_on_trying_to_speak_and_complains_once(registry: TaskRegistry) -> None:
    direct = Direct(failures=3)
    blocking(registry, direct)
    async with guarded(registry, direct) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "block"))
        await stream.result("a")
        complaints = [facts for _, event, facts in bench.log.events if "could not be told" in event]
        assert [facts["code"] for facts in complaints] == ["UNAVAILABLE"]
        assert direct.tries == 4


async def test_after_a_hold_the_worker_says_at_once_that_it_goes_on(registry: TaskRegistry) -> None:
    """Without that the scheduler, which sends nothing to a held worker, would wait for the next regular heartbeat."""
    direct = Direct()
    blocking(registry, direct)
    async with guarded(registry, direct) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "block"))
        await stream.result("a")
        await bench.link.changed.until(lambda: bool(bench.link.heartbeats))
        assert not bench.link.heartbeats[0].started_tokens


async def test_a_hold_of_nothing_that_was_entered_says_nothing(registry: TaskRegistry) -> None:
    """An empty list would be an ordinary heartbeat, and so a proof that the loop goes on."""
    direct = Direct()
    async with guarded(registry, direct) as bench:
        await bench.link.stream()
        stand_in = StandIn(bench.runtime.work, bench.runtime.session, direct, bench.log)
        stand_in.held(asyncio.get_running_loop().time())
        assert direct.tries == 0
        assert bench.runtime.work.doubt.stands


async def test_the_guard_outlives_whoever_listens_to_it() -> None:
    log, heard = Silent(), threading.Event()

    class Faulty:
        def held(self, now: float) -> None:
            if log.events:
                heard.set()
            raise RuntimeError("it cannot listen")

        def free(self) -> None: ...

    guard = LoopGuard(log, Faulty(), notice_s=NOTICE_S)
    guard.start()
    assert heard.wait(PATIENCE_S)
    guard.close()
    assert log.events[0][:2] == ("error", "the guard of the event loop failed")


def test_a_doubt_is_settled_only_by_a_heartbeat_that_was_sent_after_the_hold() -> None:
    doubt = Doubt()
    assert doubt.settle(1.0)
    doubt.mark(5.0)
    assert not doubt.settle(5.0)
    assert (doubt.stands, doubt.lingers) == (True, True)
    assert doubt.settle(5.1)
    assert (doubt.stands, doubt.lingers) == (False, True), "something may still arrive that was sent during the hold"
    assert doubt.settle(5.1 + BACKLOG_S)
    assert (doubt.stands, doubt.lingers) == (False, False)


# --- the thread's way to the scheduler -------------------------------------------------------------


async def test_a_thread_speaks_over_a_channel_of_its_own_with_the_workers_token() -> None:
    scheduler = GrpcScheduler()
    async with serving(scheduler) as port:
        settings = WorkerSettings(address=f"127.0.0.1:{port}", token=SecretStr("the-token"), worker_id="w")
        link, direct, _ = open_links(settings, Random(1))
        answer = await asyncio.to_thread(direct.heartbeat, HeartbeatRequest(worker_id="w", started_tokens=["a"]))
        assert answer.ok
        assert list(scheduler.heartbeats[0].started_tokens) == ["a"]
        assert scheduler.tokens == ["Bearer the-token"]
        direct.close()
        await link.close()


async def test_what_fails_for_a_thread_is_an_error_of_the_link() -> None:
    scheduler = GrpcScheduler()
    scheduler.errors = [(grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED", None)]
    async with serving(scheduler) as port:
        direct = ThreadLink(f"127.0.0.1:{port}", "the-token")
        with pytest.raises(LinkError) as caught:
            await asyncio.to_thread(direct.heartbeat, HeartbeatRequest(worker_id="w"))
        assert caught.value.superseded
    with pytest.raises(LinkError) as caught:
        await asyncio.to_thread(direct.heartbeat, HeartbeatRequest(worker_id="w"))
    assert caught.value.code == "UNAVAILABLE"
    direct.close()
    with pytest.raises(LinkError, match="closed"):
        direct.heartbeat(HeartbeatRequest(worker_id="w"))
