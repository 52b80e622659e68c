"""Processes that hang without dying (SIGSTOP): silence is noticed, work goes on elsewhere, the late word is stale."""

from __future__ import annotations

import random

import pytest

from e2e.history import check, executions
from e2e.load import Load
from e2e.process import until
from e2e.site import Site
from taskyard.v1 import fleet_pb2
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import Retry


async def test_a_frozen_worker_loses_its_work_and_its_late_result_changes_nothing(site: Site) -> None:
    """The connection stays open and silent: half-open. Its lease ends, another worker runs the task."""
    await site.start_scheduler(settings={"TASKYARD_WORKER_SILENCE_S": "2", "TASKYARD_LEASE_S": "5"})
    frozen = await site.start_worker("frozen")
    client = site.client()
    handle = await client.submit("pause", {"number": 1, "seconds": 0.5}, retry=Retry(first_delay=0.0))
    await until(lambda: len(executions(site)) == 1)
    frozen.freeze()
    await site.start_worker("awake")

    async def unhealthy() -> bool:
        return (await client.get_worker("frozen")).state == fleet_pb2.WORKER_STATE_UNHEALTHY

    await until(unhealthy)
    assert await handle.result(60) == {"double": 2}
    told = await client.get_task(handle.id)
    assert (told.task.attempt, told.task.worker_id) == (2, "awake")
    assert told.attempts[0].error.kind == "WORKER_LOST"
    frozen.thaw()
    await site.wait_healthy("frozen")  # the next good sign of life
    other = await client.submit("double", {"number": 5})
    assert await other.result(60) == {"double": 10}
    assert (await client.get_task(handle.id)).task == told.task


@pytest.mark.long
async def test_a_worker_frozen_under_load_loses_nothing(site: Site, rng: random.Random) -> None:
    await site.start_scheduler(settings={"TASKYARD_WORKER_SILENCE_S": "2", "TASKYARD_LEASE_S": "5"})
    frozen = await site.start_worker("frozen")
    await site.start_worker("awake")
    client = site.client()
    load = Load(site, rng)

    async def unhealthy() -> bool:
        return (await client.get_worker("frozen")).state == fleet_pb2.WORKER_STATE_UNHEALTHY

    async def story() -> None:
        await load.reach(rng.randint(10, 60), lambda: load.ended)
        frozen.freeze()
        await until(unhealthy)
        await load.reach(20, lambda: load.ended)
        frozen.thaw()
        await site.wait_healthy("frozen")
        await load.reach(20, lambda: load.ended)

    await load.during(story())
    await check(site, load.history)


async def test_a_frozen_scheduler_goes_on_where_it_stopped(site: Site, rng: random.Random) -> None:
    scheduler = await site.start_scheduler()
    await site.start_worker()
    load = Load(site, rng)
    client = site.client(timeout=1)

    async def refuses() -> bool:
        try:
            await client.cluster_status()
        except Exception as error:  # whatever a client makes of silence
            return bool(error)
        return False

    async def story() -> None:
        await load.reach(rng.randint(10, 60), lambda: load.ended)
        scheduler.freeze()
        await until(refuses)
        scheduler.thaw()
        await load.reach(40, lambda: load.ended)

    await load.during(story())
    await check(site, load.history)
    assert scheduler.code is None


async def test_a_deaf_thread_keeps_its_slot_and_says_that_it_cannot_be_stopped(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("one-slot", concurrency=1)
    client = site.client()
    handle = await client.submit("deaf", {"seconds": 8})
    await until(lambda: len(executions(site)) == 1)
    await handle.cancel()

    async def unconfirmed() -> bool:
        return any(r.code == "CANCEL_UNCONFIRMED" for r in (await client.explain(handle.id)).reasons)

    await until(unconfirmed)
    behind = await client.submit("double", {"number": 1})
    assert (await client.get_task(behind.id)).task.status == tasks.TASK_STATUS_QUEUED
    assert (await handle.wait(60)).status == tasks.TASK_STATUS_CANCELLED
    assert await behind.result(60) == {"double": 2}
