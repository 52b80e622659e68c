"""Removes what nothing refers to once its grace is over: rows first, then their bytes; and bytes that have no row.

A background loop of the leader, in small batches. A reference that comes while a row is being deleted keeps it: the
store deletes only what nothing refers to in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from taskyard_core.artifacts import is_id
from taskyard_core.ids import time_of
from taskyard_scheduler.artifacts.port import ArtifactStore, ArtifactStoreUnavailable, Key
from taskyard_scheduler.artifacts.uploads import Uploads
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.store.port import StoreError
from taskyard_service.errors import ServiceError

PAGE: Final = 500
PAUSE_S: Final = 0.05
"""Between two pages, so that whoever lists or commits gets his turn."""
PERIODS_PER_GRACE: Final = 10
SHORTEST_S: Final = 1.0
LONGEST_S: Final = 600.0


class Removal:
    """Looks for what can go, again and again.

    Args:
        scheduler: Who leads.
        store: Where bytes are.
        uploads: What is being taken in is left alone.
        grace_s: How long an artifact is kept in any case after its creation, in seconds.
        log: Told of what was removed.
    """

    def __init__(
        self, scheduler: Scheduler, store: ArtifactStore, uploads: Uploads, grace_s: float, log: FilteringBoundLogger
    ) -> None:
        self._scheduler = scheduler
        self._store = store
        self._uploads = uploads
        self._grace_ms = int(grace_s * 1000)
        self._period_s = min(max(grace_s / PERIODS_PER_GRACE, SHORTEST_S), LONGEST_S)
        self._log = log

    async def run(self) -> None:
        """Removes for ever, while this scheduler leads. What fails is tried again with the next round."""
        while True:
            await asyncio.sleep(self._period_s)
            if not self._scheduler.leading:
                continue
            try:
                await self.round(self._scheduler.leader())
            except (StoreError, ServiceError, ArtifactStoreUnavailable) as error:
                self._log.warning("removal of artifacts failed, trying again later", error=str(error))

    async def round(self, leader: Leader) -> None:
        """Looks at every artifact once, and at all bytes."""
        before_ms = leader.clock.now() - self._grace_ms
        removed = await self._rows(leader, before_ms)
        without_row = await self._files(leader, before_ms)
        if removed or without_row:
            self._log.info("artifacts removed", artifacts=removed, bytes_without_artifact=without_row)

    async def _rows(self, leader: Leader, before_ms: int) -> int:
        after, removed = ("", ""), 0
        while page := await leader.store.load_artifacts(after, PAGE):
            unused = [
                Key(tenant, id) for tenant, id, created_at, used in page if not used and created_at <= before_ms
            ]  # fmt: skip
            removed += await remove(leader, self._store, unused)
            after = page[-1][:2]
            await asyncio.sleep(PAUSE_S)
        return removed

    async def _files(self, leader: Leader, before_ms: int) -> int:
        after: Key | None = None
        removed = 0
        while page := await self._store.scan(after, PAGE):
            old = [key for key in page if is_id(key.id) and time_of(key.id) <= before_ms]
            for key in await _unknown(leader, old):
                if key not in self._uploads.pending:
                    await self._store.delete(key)
                    removed += 1
            after = page[-1]
            await asyncio.sleep(PAUSE_S)
        return removed


async def remove(leader: Leader, store: ArtifactStore, keys: list[Key]) -> int:
    """Removes artifacts, those that nothing refers to by now; returns how many that were.

    Raises:
        ServiceError: The term has ended.
        ArtifactStoreUnavailable: The bytes of some are left; they go with what has no row.
    """
    if not keys:
        return 0
    leader.engine.cluster.batch.changes.artifact_deletes += keys
    await leader.committed()
    gone = await _unknown(leader, keys)
    for key in gone:
        await store.delete(key)
    return len(gone)


async def _unknown(leader: Leader, keys: Iterable[Key]) -> list[Key]:
    """Returns those of the keys that have no row."""
    by_tenant: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        by_tenant[key.tenant].append(key.id)
    unknown: list[Key] = []
    for tenant, ids in by_tenant.items():
        known = await leader.store.known_artifacts(tenant, ids)
        unknown += [Key(tenant, id) for id in ids if id not in known]
    return unknown
