"""Reading instances and runs for an answer: as committed, and in memory past their end while SQL is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import INSTANCE_COLUMNS, Instance, Row, instance_row
from taskyard_scheduler.leader import Leader
from taskyard_service.errors import NotFound

_TENANT: Final = INSTANCE_COLUMNS.index("tenant")


async def committed_rows(leader: Leader, tenant: str, ids: Sequence[str]) -> dict[str, Row]:
    """Returns the committed rows of those instances that exist, by id: INSTANCE_COLUMNS, checkpoint, its number.

    SQL is asked only for those that are not in memory as they were committed.
    """
    rows: dict[str, Row] = {}
    c = leader.engine.cluster
    for id in ids:
        instance = c.as_committed(id)
        row = instance_row(instance) if instance is not None else leader.ends.row(id)
        if row is not None and row[_TENANT] == tenant:
            rows[id] = (*row, None, 0)
    missing = [id for id in ids if id not in rows]
    if missing:
        rows |= {row[1]: row for row in await leader.store.get_instances(tenant, missing)}
    return rows


def changing(leader: Leader, tenant: str, ids: Sequence[str]) -> set[str]:
    """Returns those of the ids that a commit under way, or the next, changes: watches are about to be told of them."""
    found = {id: leader.engine.cluster.changing(id) for id in ids}
    return {id for id, instance in found.items() if instance is not None and instance.tenant == tenant}


async def stored_instance(leader: Leader, tenant: str, task_id: str) -> Row:
    """Returns the committed row of an instance.

    Raises:
        NotFound: there is none of that id.
    """
    rows = await committed_rows(leader, tenant, [task_id])
    if not rows:
        raise no_task(task_id)
    return rows[task_id]


async def stored_run(leader: Leader, tenant: str, run_id: str) -> Row:
    """Returns the committed row of a run.

    Raises:
        NotFound: there is none of that id.
    """
    row = await leader.store.get_run(tenant, run_id)
    if row is None:
        raise no_run(run_id)
    return row


def no_task(task_id: str) -> NotFound:
    """Returns the error for an unknown instance."""
    return NotFound("TASK_NOT_FOUND", f"there is no task {task_id[:200]!r}", metadata={"task_id": task_id[:200]})


def no_run(run_id: str) -> NotFound:
    """Returns the error for an unknown run."""
    return NotFound("RUN_NOT_FOUND", f"there is no run {run_id[:200]!r}", metadata={"run_id": run_id[:200]})


@asynccontextmanager
async def held(leader: Leader, tenant: str, task_id: str) -> AsyncIterator[Instance]:
    """Gives an instance to act on: the one in memory, else one made of its row, which nothing can outdate meanwhile.

    Raises:
        NotFound: there is none of that id.
    """
    c = leader.engine.cluster
    c.pin(task_id)
    try:
        instance = c.instances.get(task_id)
        if instance is None:
            row = await stored_instance(leader, tenant, task_id)
            instance = c.instances.get(task_id) or instance_from_row(row)
        if instance.tenant != tenant:
            raise no_task(task_id)
        yield instance
    finally:
        c.unpin(task_id)


@asynccontextmanager
async def kept_run(leader: Leader, run_id: str) -> AsyncIterator[None]:
    """Has the leader remember a run's end while SQL, which may not have it yet, is read for it. "" for no run."""
    c = leader.engine.cluster
    if run_id:
        c.pin(run_id)
    try:
        yield
    finally:
        if run_id:
            c.unpin(run_id)
