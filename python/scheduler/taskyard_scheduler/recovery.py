"""A new leader's memory, read from the store by pages before its first event."""

from __future__ import annotations

from taskyard_core.engine import Engine
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import RUN_COLUMNS, Phase
from taskyard_scheduler.definitions import Definitions
from taskyard_scheduler.store.port import Store

PAGE = 2_000
REQUEST_WINDOW_MS = 24 * 3_600_000
_WORKFLOW = RUN_COLUMNS.index("workflow")
_VERSION = RUN_COLUMNS.index("version")


async def recover(engine: Engine, definitions: Definitions, store: Store, now_ms: int) -> None:
    """Fills an engine with everything that lives.

    Raises:
        StoreUnavailable: the database went away; begin again with a new engine.
    """
    engine.begin(now_ms)
    await definitions.load()
    for row in await store.load_workers():
        engine.restore_worker(row)
    for row in await store.load_pauses():
        engine.restore_pause(row)
    await _runs(engine, definitions, store)
    for phase in (Phase.PENDING, Phase.IN_FLIGHT):
        await _instances(engine, store, int(phase))
    for tenant, queue, waiting, _ in await store.count_ready():
        first = await store.load_ready(tenant, queue, (-(1 << 62), ""), 1)
        if first:
            engine.restore_queue(instance_from_row(first[0]), waiting)
    await _requests(engine, store, now_ms)


async def _runs(engine: Engine, definitions: Definitions, store: Store) -> None:
    after = ("", "")
    while rows := await store.load_runs(after, PAGE):
        for row in rows:
            await definitions.fetch(row[0], row[_WORKFLOW], row[_VERSION])
            steps = [instance_from_row(step) for step in await store.run_instances(row[0], row[1])]
            engine.restore_run(row, steps)
        after = (rows[-1][0], rows[-1][1])


async def _instances(engine: Engine, store: Store, phase: int) -> None:
    after = ("", "")
    while rows := await store.load_instances(phase, after, PAGE):
        for row in rows:
            engine.restore_instance(instance_from_row(row))
        after = (rows[-1][0], rows[-1][1])


async def _requests(engine: Engine, store: Store, now_ms: int) -> None:
    """Takes over the request ids of the last day if they are few enough; then none need be looked up."""
    c = engine.cluster
    found = await store.load_request_ids(now_ms - REQUEST_WINDOW_MS, c.limits.remembered_requests)
    if found is None:
        return
    for tenant, request_id, id, digest in found:
        c.remember_request(tenant, request_id, id, digest)
    c.requests_complete = True
