"""A watch of instances tells each committed state once, and asks SQL for nothing that a commit is about to tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from gated_store import PATIENCE_S, GatedStore, submission
from leaders import leading
from typing_extensions import override

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.events import Cancel
from taskyard_core.records import Row
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.watch_calls import WatchCalls
from taskyard_scheduler.store.memory import MemoryDatabase
from taskyard_service.errors import NotFound
from taskyard_service.identity import CURRENT, Identity, Role

QUEUED, CANCELLED = pb.TASK_STATUS_QUEUED, pb.TASK_STATUS_CANCELLED


class CountingStore(GatedStore):
    """Counts how often instances are read."""

    reads = 0

    @override
    async def get_instances(self, tenant: str, ids: Sequence[str]) -> list[Row]:
        self.reads += 1
        return await super().get_instances(tenant, ids)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryDatabase())


def watch(leader: Leader, *ids: str, after: int = 0, tenant: str = "default") -> AsyncIterator[pb.WatchTasksResponse]:
    """Opens a watch as a client of a tenant does."""

    class Calls(WatchCalls):
        _scheduler = cast(Scheduler, type("Only", (), {"leader": staticmethod(lambda: leader)}))

    CURRENT.set(Identity("someone", tenant, Role.VIEWER))
    return Calls().WatchTasks(pb.WatchTasksRequest(task_ids=ids, after_revision=after), None)


async def submitted(leader: Leader, store: CountingStore, *requests: str) -> list[str]:
    """Has tasks submitted and committed; returns their ids."""
    store.permits.release()
    return [outcome.id for outcome in await submission(leader, *requests)]


def cancel(leader: Leader, id: str) -> asyncio.Future[Any]:
    """Cancels a task; returns what comes of it."""
    reply = leader.future()
    leader.handle(Cancel(reply, id, ""))
    return reply


def told(frame: pb.WatchTasksResponse) -> dict[str, int]:
    """The states in a frame, by id."""
    return {task.task_id: task.status for task in frame.tasks}


async def silent(frame: asyncio.Future[Any]) -> bool:
    """Tells whether nothing is said while nothing is committed."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not frame.done()


async def test_what_is_committed_in_memory_is_told_at_once_and_without_sql(store: CountingStore) -> None:
    async with leading(store) as leader:
        [id] = await submitted(leader, store, "a")
        frames = watch(leader, id)
        assert told(await anext(frames)) == {id: QUEUED}
        cancelled = cancel(leader, id)
        store.open_wide()
        await cancelled
        assert told(await anext(frames)) == {id: CANCELLED}
        assert await anext(frames, None) is None
    assert store.reads == 0


async def test_a_change_that_is_being_committed_is_the_first_word_and_not_before_its_commit(
    store: CountingStore,
) -> None:
    async with leading(store) as leader:
        [id] = await submitted(leader, store, "a")
        cancelled = cancel(leader, id)
        await store.until_asked(2)
        frames = watch(leader, id)
        first = asyncio.ensure_future(anext(frames))
        assert await silent(first)
        store.open_wide()
        await cancelled
        frame = await first
        assert told(frame) == {id: CANCELLED}
        assert frame.revision == frame.tasks[0].revision
        assert await anext(frames, None) is None
    assert store.reads == 0


async def test_an_end_that_has_just_been_committed_is_known_without_sql(store: CountingStore) -> None:
    store.open_wide()
    async with leading(store) as leader:
        [id] = await submitted(leader, store, "a")
        await cancel(leader, id)
        assert [told(frame) async for frame in watch(leader, id)] == [{id: CANCELLED}]
    assert store.reads == 0


async def test_the_others_are_told_at_once_and_resuming_brings_all_again_until_each_was_told(
    store: CountingStore,
) -> None:
    async with leading(store) as leader:
        changing, still = await submitted(leader, store, "a", "b")
        cancelled = cancel(leader, changing)
        await store.until_asked(2)
        frames = watch(leader, changing, still)
        frame = await anext(frames)
        assert told(frame) == {still: QUEUED}
        assert frame.revision == 0, "the other one was not told yet: who resumes must be told both"
        store.permits.release()
        await cancelled
        frame = await anext(frames)
        assert told(frame) == {changing: CANCELLED}
        assert frame.revision == frame.tasks[0].revision
        await frames.aclose()  # type: ignore[attr-defined]  # it is a generator
        resumed = watch(leader, changing, still, after=frame.revision)
        assert told(await anext(resumed)) == {}
        await resumed.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_while_the_database_stands_still_what_it_has_is_told(store: CountingStore) -> None:
    async with leading(store) as leader:
        [id] = await submitted(leader, store, "a")
        store.fail[2] = "before"
        cancelled = cancel(leader, id)
        store.permits.release()
        await store.until_asked(3)  # once more: so the leader knows that the database does not answer
        frames = watch(leader, id)
        assert told(await anext(frames)) == {id: QUEUED}
        store.open_wide()
        await cancelled
        assert told(await anext(frames)) == {id: CANCELLED}


@pytest.mark.parametrize("stage", ["committed", "being changed", "ended", "being made"])
async def test_nobody_is_told_of_another_tenants_task_or_of_one_that_is_not_there_yet(
    store: CountingStore, stage: str
) -> None:
    async with leading(store) as leader:
        if stage == "being made":
            submission(leader, "a")
            [id] = leader.engine.cluster.instances
        else:
            [id] = await submitted(leader, store, "a")
        if stage in ("being changed", "ended"):
            reply = cancel(leader, id)
            await store.until_asked(2)
            if stage == "ended":
                store.open_wide()
                await reply
        tenant = "default" if stage == "being made" else "other"
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(NotFound):
                await anext(watch(leader, id, tenant=tenant))
        store.open_wide()


async def test_a_frame_holds_no_more_than_its_share_and_the_last_says_the_revision(store: CountingStore) -> None:
    store.open_wide()
    async with leading(store) as leader:
        ids = await submitted(leader, store, *map(str, range(501)))
        frames = watch(leader, *ids)
        first, second = await anext(frames), await anext(frames)
        assert [len(first.tasks), len(second.tasks)] == [500, 1]
        assert first.revision == 0
        assert second.revision == second.tasks[0].revision
        await frames.aclose()  # type: ignore[attr-defined]  # it is a generator
