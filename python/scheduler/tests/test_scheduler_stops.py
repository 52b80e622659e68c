"""A scheduler and a worker's call that are cancelled while they end something end themselves, and in bounded time."""

from __future__ import annotations

import asyncio
import gc
import io
import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from leaders import leading
from prometheus_client import CollectorRegistry
from store_rows import NOW

from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine import Limits
from taskyard_core.engine.events import Register
from taskyard_scheduler.election.memory import Ballot, MemoryElection
from taskyard_scheduler.ingress.workers import read_registration
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services import workers as workers_module
from taskyard_scheduler.services.workers import WorkerService
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_service.errors import Unavailable
from taskyard_service.identity import CURRENT, Identity, Role
from taskyard_service.lifecycle import end_tasks
from taskyard_service.logging import make_logger
from taskyard_service.metrics import Metrics

PATIENCE_S = 30.0


class Slow:
    """Something that takes its time to end when it is cancelled."""

    def __init__(self) -> None:
        self.asked, self.let_go = asyncio.Event(), asyncio.Event()

    async def last(self) -> None:
        """Runs until it is let go, cancelled or not."""
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.asked.set()


@pytest.mark.parametrize("together", [False, True])
async def test_a_scheduler_that_is_cancelled_while_a_term_ends_campaigns_no_more(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    slow, leads, told = Slow(), asyncio.Event(), []

    async def run(leader: Leader) -> str:
        leads.set()
        await slow.last()
        return "let go"

    async def on_leading(now: bool) -> None:
        told.append(now)

    monkeypatch.setattr(Leader, "run", run)
    ballot, store = Ballot(), MemoryStore(MemoryDatabase())
    scheduler = Scheduler(
        scheduler_id="s", store=store, election=MemoryElection(ballot), limits=Limits(), wall=lambda: NOW,
        rng=random.Random(1), metrics=Metrics(CollectorRegistry()), log=make_logger("test", "error"),
        on_leading=on_leading,
    )  # fmt: skip
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    async with asyncio.timeout(PATIENCE_S):
        await leads.wait()
        ballot.depose()
        await slow.asked.wait()  # it ends its term
        running.cancel()
        if together:
            slow.let_go.set()
        await asyncio.wait({running})
    assert running.cancelled()
    assert told == [True, False]
    assert ballot.leader is None
    slow.let_go.set()


async def test_who_has_not_asked_yet_when_the_term_ends_is_told_then_and_nothing_is_logged() -> None:
    """A call makes its reply, reads what it needs, and asks: the term may end in between."""
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["message"]))
    async with leading(MemoryStore(MemoryDatabase())) as leader:
        reply, unasked = leader.future(), leader.future()
        leader._end("deposed")
        with pytest.raises(Unavailable, match="repeat the same request"):
            await reply
        del reply, unasked
        gc.collect()
    assert faults == []


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_stream_is_over_for_the_leader_although_its_reader_does_not_end(
    monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """The reader is cancelled once and waited for in vain; meanwhile the call itself may be cancelled."""
    limit_s = PATIENCE_S if cancelled else 0.01
    monkeypatch.setattr(workers_module, "end_tasks", lambda tasks, log: end_tasks(tasks, log, limit_s))
    CURRENT.set(Identity("w", "default", Role.WORKER))
    log, slow = io.StringIO(), Slow()
    async with leading(MemoryStore(MemoryDatabase())) as leader, asyncio.timeout(PATIENCE_S):
        registration = read_registration(pb.RegisterRequest(worker_id="w", capabilities=["a"], max_concurrency=1))
        answer = await leader.ask(Register(leader.future(), "w", "default", registration))

        async def frames() -> AsyncIterator[pb.AssignTaskRequest]:
            yield pb.AssignTaskRequest(hello=pb.Hello(worker_id="w", session_epoch=answer.epoch))
            await slow.last()

        scheduler: Any = SimpleNamespace(
            leader=lambda: leader, log=make_logger("t", stream=log), metrics=Metrics(CollectorRegistry())
        )
        service = WorkerService(scheduler, None, 10)  # type: ignore[arg-type]  # logs are not asked for
        call = service.AssignTask(frames(), None)
        taking: asyncio.Task[Any] = asyncio.create_task(anext(call), name="call")  # type: ignore[arg-type]
        worker = leader.engine.cluster.fleet.workers["w"]
        while worker.stream is None:  # noqa: ASYNC110 - turns of the loop, no time
            await asyncio.sleep(0)
        taking.cancel()
        await slow.asked.wait()
        if cancelled:
            taking.cancel()
        await asyncio.wait({taking})
        assert taking.cancelled()
        assert worker.stream is None
        assert ("ignored its cancellation" in log.getvalue()) != cancelled
        slow.let_go.set()
