"""The leader keeps the store busy: a full batch follows the one in flight, and nobody is told before his commit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gated_store import PATIENCE_S, GatedStore, submission
from leaders import leading

from taskyard_core.engine.events import Accepted, Cancel, Refused
from taskyard_core.records import CANCELLED, INSTANCE_COLUMNS
from taskyard_scheduler.leader import BATCH_ROWS, Leader
from taskyard_scheduler.store.memory import MemoryDatabase

ID = INSTANCE_COLUMNS.index("id")


def full(leader: Leader, name: str) -> asyncio.Future[Any]:
    """Submits as much as a batch takes."""
    return submission(leader, *(f"{name}{number}" for number in range(BATCH_ROWS)))


async def test_a_full_batch_follows_the_one_in_flight_and_no_third_does() -> None:
    store = GatedStore(MemoryDatabase())
    async with leading(store) as leader:
        replies = [submission(leader, "first")]
        await store.until_asked(1)
        replies.append(submission(leader, "second"))
        await asyncio.sleep(0)
        assert store.asked == [1], "a small batch waits for more to come"
        replies.append(full(leader, "more"))
        await store.until_asked(2)
        replies.append(full(leader, "third"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert store.asked == [1, 2]
        assert not any(reply.done() for reply in replies)
        store.permits.release()
        await replies[0]
        assert not any(reply.done() for reply in replies[1:])
        store.open_wide()
        for reply in replies:
            assert all(isinstance(outcome, Accepted) for outcome in await reply)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("revision", [1, 2])
async def test_when_one_of_two_commits_fails_both_are_written_once(revision: int, when: str) -> None:
    database = MemoryDatabase()
    store = GatedStore(database)
    store.fail[revision] = when
    async with leading(store) as leader:
        first = submission(leader, "first")
        await store.until_asked(1)
        second = full(leader, "second")
        await store.until_asked(2)
        store.open_wide()
        async with asyncio.timeout(PATIENCE_S):
            accepted = [*await first, *await second]
    assert {outcome.id for outcome in accepted} == {id for _, id in database.tables["instances"].rows}
    assert database.revision == 2


async def test_an_answer_that_needs_no_commit_waits_for_those_before_it() -> None:
    store = GatedStore(MemoryDatabase())
    async with leading(store) as leader:
        first = submission(leader, "first")
        await store.until_asked(1)
        again = submission(leader, "first")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not again.done()
        store.open_wide()
        assert (await again)[0].id == (await first)[0].id


async def test_a_refused_task_is_taken_out_of_the_batch_behind_it_too() -> None:
    database = MemoryDatabase()
    store = GatedStore(database)
    store.refuse.add("bad")
    async with leading(store) as leader:
        first = submission(leader, "good", "bad")
        await store.until_asked(1)
        ids = list(leader.engine.cluster.instances)
        cancelled = leader.future()
        leader.handle(Cancel(cancelled, ids[1], "not wanted", None))
        again = submission(leader, "bad")
        behind = full(leader, "more")
        await store.until_asked(2)
        store.open_wide()
        async with asyncio.timeout(PATIENCE_S):
            good, bad = await first
            (repeated,) = await again
            assert len(await behind) == BATCH_ROWS
            assert await cancelled == CANCELLED
    assert isinstance(good, Accepted)
    assert isinstance(bad, Refused)
    assert isinstance(repeated, Refused)
    assert bad.reason == repeated.reason == "NOT_STORABLE"
    stored = {id for _, id in database.tables["instances"].rows}
    assert len(stored) == BATCH_ROWS + 1
    assert good.id in stored
    assert ids[1] not in stored
