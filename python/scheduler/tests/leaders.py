"""A leader for tests, without what is around it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import CollectorRegistry
from store_rows import NOW

from taskyard_core.engine import Engine
from taskyard_scheduler.clock import Clock
from taskyard_scheduler.definitions import Definitions
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.recovery import recover
from taskyard_scheduler.store.port import Store
from taskyard_service.logging import make_logger
from taskyard_service.metrics import Metrics
from taskyard_service.watchdog import Progress


@asynccontextmanager
async def leading(store: Store) -> AsyncIterator[Leader]:
    """A leader of the next term, which has recovered and runs until the block ends."""
    clock = Clock(lambda: NOW, asyncio.get_running_loop().time)
    start = await store.begin_term("test", clock.now())
    rng = random.Random(1)
    engine = Engine(start.term, start.revision, random_bits=rng.getrandbits, random=rng.random)
    definitions = Definitions(store, engine.cluster.workflows)
    await recover(engine, definitions, store, clock.now())
    leader = Leader(
        scheduler_id="s", term=start.term, engine=engine, definitions=definitions, store=store, clock=clock,
        metrics=Metrics(CollectorRegistry()), log=make_logger("test", "error"), lease_ms=60_000, grace_ms=10_000,
        progress=Progress(),
    )  # fmt: skip
    running = asyncio.create_task(leader.run(), name="leader")
    try:
        yield leader
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
