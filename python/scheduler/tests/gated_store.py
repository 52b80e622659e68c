"""A store that commits when it is let, and what tests of the leader submit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from typing_extensions import override

from taskyard_core.engine.events import NewTask, Submit
from taskyard_core.records import INSTANCE_COLUMNS, Changes, Policy
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.port import RefusedRow, RowsRefused, StoreUnavailable

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
