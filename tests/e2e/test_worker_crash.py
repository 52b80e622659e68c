"""A worker is killed with kill -9 while it runs tasks: its children die too, and its tasks go to others."""

from __future__ import annotations

import os
import random

from e2e.history import check, executions
from e2e.load import ALL, Load
from e2e.process import alive, until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import Retry


async def test_a_worker_killed_under_load_loses_nothing(any_site: Site, rng: random.Random) -> None:
    await any_site.start_scheduler()
    await any_site.start_worker("stays")
    worker = await any_site.start_worker("dies")
    load = Load(any_site, rng, ALL, rest=60)

    async def story() -> None:
        nonlocal worker
        for _ in range(3):
            await load.reach(rng.randint(1, 60), rng.choice([lambda: load.accepted, lambda: load.ended]))
            worker.kill()
            worker = await any_site.start_worker("dies")
        await load.reach(40, lambda: load.ended)

    await load.during(story())
    await check(any_site, load.history)


async def test_the_children_of_a_killed_worker_die(site: Site) -> None:
    await site.start_scheduler()
    worker = await site.start_worker("dies")
    client = site.client()
    pids = site.folder / "pids"
    script = f"sleep 3600 & echo $! >> {pids}; echo $$ >> {pids}; wait"
    once = Retry(max_attempts=1)
    shell = await client.submit("shell", {"script": script}, retry=once)
    apart = await client.submit("family", retry=once)
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    await until(lambda: len(executions(site)) == 1)
    [record] = executions(site)
    children = [int(pid) for pid in pids.read_text().split()] + [record["pid"], record["child"]]
    assert all(alive(pid) for pid in children)
    assert os.getpid() not in children
    worker.kill()
    await until(lambda: not any(alive(pid) for pid in children), what="the end of the worker's children")
    for handle in (shell, apart):
        task = await handle.wait(60)
        assert (task.status, task.error.kind) == (tasks.TASK_STATUS_FAILED, "WORKER_LOST")
        assert task.error.message


async def test_a_killed_worker_that_comes_back_gives_its_tasks_back_at_once(site: Site) -> None:
    """Its first hello lists nothing, so nobody waits for leases to end."""
    await site.start_scheduler(settings={"TASKYARD_LEASE_S": "3600"})
    worker = await site.start_worker("dies")
    client = site.client()
    handle = await client.submit("pause", {"number": 1, "seconds": 3600}, retry=Retry(first_delay=0.0))
    await until(lambda: len(executions(site)) == 1)
    worker.kill()
    await site.start_worker("dies")
    await until(lambda: len(executions(site)) == 2)
    told = await client.get_task(handle.id)
    assert next((a.attempt, a.error.kind) for a in told.attempts) == (1, "WORKER_LOST")
    assert told.task.retry_count == 1
    await handle.cancel()
    assert (await handle.wait(60)).status == tasks.TASK_STATUS_CANCELLED
