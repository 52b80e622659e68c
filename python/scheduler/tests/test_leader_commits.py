"""The leader keeps the store busy: a full batch follows the one in flight, and nobody is told before his commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from leaders import leading
from typing_extensions import override

from taskyard_core.engine.events import Accepted, Cancel, NewTask, Refused, Submit
from taskyard_core.records import CANCELLED, INSTANCE_COLUMNS, Changes, Policy
from taskyard_scheduler.leader import BATCH_ROWS, Leader
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.port import RefusedRow, RowsRefused, StoreUnavailable

ID = INSTANCE_COLUMNS.index("id")
PATIENCE_S = 30.0


class GatedStore(MemoryStore):
    """Commits one revision for each permit, and fails as it is told to.

    Attributes:
        asked: Revisions in the order in which they were asked for.
        fail: What to raise at a revision, once, and whether before or after it is written.
        refuse: Request ids whose rows the database does not take.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database)
        self.permits = asyncio.Semaphore(0)
        self.asked: list[int] = []
        self.fail: dict[int, str] = {}
        self.refuse: set[str] = set()
        self.arrived = asyncio.Condition()

    @override
    async def commit(self, term: int, changes: Changes) -> None:
        async with self.arrived:
            self.asked.append(changes.revision)
            self.arrived.notify_all()
        await super().commit(term, changes)

    @asynccontextmanager
    async def _operation(self, name: str) -> AsyncIterator[None]:
        if name == "commit":
            await self.permits.acquire()
        yield

    def _commit(self, term: int, changes: Changes) -> None:
        how = self.fail.pop(changes.revision, None)
        if how == "before":
            raise StoreUnavailable("it is down")
        request = INSTANCE_COLUMNS.index("request_id")
        refused = [row for row in changes.instance_inserts if row[request] in self.refuse]
        if refused and self._database.revision == changes.revision - 1:
            raise RowsRefused([RefusedRow("instance_inserts", row[:2], "no") for row in refused])
        super()._commit(term, changes)
        if how == "after":
            raise StoreUnavailable("the connection was lost")

    async def until_asked(self, count: int) -> None:
        """Returns when so many commits have been asked for."""
        async with asyncio.timeout(PATIENCE_S), self.arrived:
            await self.arrived.wait_for(lambda: len(self.asked) >= count)

    def open_wide(self) -> None:
        """Lets everything through from now on."""
        for _ in range(1_000):
            self.permits.release()


def submission(leader: Leader, *request_ids: str) -> asyncio.Future[Any]:
    """Submits a task for each request id; returns what becomes of them."""
    tasks = [NewTask("greet", Policy(), "", "", request_id=id, request_hash=b"h") for id in request_ids]
    reply = leader.future()
    leader.handle(Submit(reply, "default", tasks))
    return reply


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
