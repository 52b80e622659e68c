"""SIGTERM: a worker drains, a scheduler ends its calls and commits what it took in; exit codes mean something."""

from __future__ import annotations

import random
import signal

import pytest

from e2e.history import check, executions
from e2e.load import Load
from e2e.process import until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks


async def test_a_draining_worker_hands_back_what_it_cannot_end(site: Site) -> None:
    """Without spending a retry, and without anyone waiting for a lease to end."""
    await site.start_scheduler(settings={"TASKYARD_LEASE_S": "3600"})
    worker = await site.start_worker("leaves", settings={"TASKYARD_DRAIN_GRACE_S": "1"})
    client = site.client()
    quick = await client.submit("pause", {"number": 1, "seconds": 0.3})
    long = [await client.submit(kind, {"number": 2, "seconds": 3600}) for kind in ("pause", "thread", "apart")]
    shell = await client.submit("shell", {"command": "sleep 3600"})
    await until(lambda: len(executions(site)) == 4)
    assert await worker.terminate() == 0
    assert (await quick.wait(60)).status == tasks.TASK_STATUS_SUCCESS
    for handle in [*long, shell]:
        told = await client.get_task(handle.id)
        assert (told.task.status, told.task.retry_count) == (tasks.TASK_STATUS_QUEUED, 0), told
        assert told.attempts[0].status == tasks.TASK_STATUS_INTERRUPTED
    assert [w async for w in client.workers()] == []  # it said goodbye
    late = await client.submit("double", {"number": 3})
    await site.start_worker("comes")
    assert await late.result(60) == {"double": 6}
    await until(lambda: sum(record["attempt"] == 2 for record in executions(site)) == 3)
    for handle in [*long, shell]:
        await handle.cancel()
        assert (await handle.wait(60)).status == tasks.TASK_STATUS_CANCELLED


@pytest.mark.long
async def test_a_worker_drains_under_load_and_loses_nothing(site: Site, rng: random.Random) -> None:
    await site.start_scheduler()
    await site.start_worker("stays")
    worker = await site.start_worker("leaves")
    load = Load(site, rng)

    async def story() -> None:
        await load.reach(rng.randint(20, 80), lambda: load.ended)
        assert await worker.terminate() == 0
        await load.reach(40, lambda: load.ended)

    await load.during(story())
    await check(site, load.history)


async def test_a_second_signal_stops_a_worker_at_once(site: Site) -> None:
    await site.start_scheduler()
    worker = await site.start_worker("leaves", settings={"TASKYARD_DRAIN_GRACE_S": "3600"})
    handle = await site.client().submit("pause", {"number": 1, "seconds": 3600})
    await until(lambda: len(executions(site)) == 1)
    worker.signal(signal.SIGTERM)
    await until(lambda: "drain" in worker.text(), what="the drain")
    worker.signal(signal.SIGTERM)
    assert await worker.wait() == 75
    assert not await handle.cancel() == tasks.TASK_STATUS_SUCCESS


async def test_a_scheduler_stops_under_load_and_loses_nothing(any_site: Site, rng: random.Random) -> None:
    scheduler = await any_site.start_scheduler()
    await any_site.start_worker()
    load = Load(any_site, rng)

    async def story() -> None:
        nonlocal scheduler
        for _ in range(2):
            await load.reach(rng.randint(20, 100))
            assert await scheduler.terminate() == 0
            assert "Traceback" not in scheduler.text()
            scheduler = await any_site.start_scheduler()
        await load.reach(40, lambda: load.ended)

    await load.during(story())
    await check(any_site, load.history)


async def test_an_idle_scheduler_stops_with_open_streams(site: Site) -> None:
    """A worker's stream and watchers are told, not waited for."""
    scheduler = await site.start_scheduler()
    await site.start_worker()
    handle = await site.client().submit("sleep", {"seconds": 3600})
    door = site.door(site.token())
    watching = door.tasks.WatchTasks(tasks.WatchTasksRequest(task_ids=[handle.id]), metadata=door.metadata)
    await watching.read()
    assert await scheduler.terminate(10) == 0
    assert site.http("/healthz").status == 0
