"""Handlers that hold their worker's event loop: they run once, and what is sent there meanwhile is not failed."""

from __future__ import annotations

from collections import Counter

import pytest

from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import AsyncClient, Retry, TaskHandle, Timeouts

START_S = 3.0
BLOCKED_S = 4.5
"""Longer than the start timeout, which is longer than the worker takes to notice that its loop is held."""
TIMEOUTS = Timeouts(start=START_S)
ONCE = Retry(max_attempts=1)


async def block(client: AsyncClient, seconds: float = BLOCKED_S, start: float = START_S) -> TaskHandle:
    """Submits a task that holds the loop of its worker."""
    return await client.submit("block", {"seconds": seconds}, retry=ONCE, timeouts=Timeouts(start=start))


async def double(client: AsyncClient, count: int) -> list[TaskHandle]:
    """Submits tasks that do no harm."""
    return [await client.submit("double", {"number": n}, retry=ONCE, timeouts=TIMEOUTS) for n in range(count)]


def runs(site: Site) -> Counter[str]:
    """Returns how often each task was run."""
    return Counter(each["task"] for each in executions(site) if each["what"] == "start")


async def test_a_handler_that_holds_the_loop_longer_than_the_start_timeout_runs_once(site: Site) -> None:
    await site.start_scheduler()
    worker = await site.start_worker("held")
    client = site.client()
    handle = await block(client, 6.0)
    assert await handle.result(60) == {"blocked": 6.0}
    task = (await client.get_task(handle.id)).task
    assert (task.attempt, runs(site)[handle.id]) == (1, 1)
    warning = next(line for line in worker.events() if "the event loop is held by" in str(line.get("event")))
    assert "by block (" in warning["event"]
    assert "handlers.py:" in warning["event"]


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_is_sent_to_a_held_worker_is_run_once_and_not_failed(site: Site, workers: int) -> None:
    await site.start_scheduler()
    for number in range(workers):
        await site.start_worker(f"worker-{number}")
    client = site.client()
    blocker = await block(client)
    innocent = await double(client, 8)
    await until(lambda: runs(site)[blocker.id] == 1)
    innocent += await double(client, 8)
    for handle in (blocker, *innocent):
        assert (await handle.wait(60)).status == tasks.TASK_STATUS_SUCCESS
    assert set(runs(site).values()) == {1}, executions(site)
    assert (await client.get_task(blocker.id)).task.attempt == 1


async def test_tasks_that_all_hold_the_loop_run_one_after_another_and_none_is_failed(site: Site) -> None:
    """More of them than a task may be sent in vain, each holding up all that wait behind it beyond their time."""
    await site.start_scheduler()
    await site.start_worker("held")
    client = site.client()
    handles = [await block(client, 2.5, start=2.0) for _ in range(7)]
    for handle in handles:
        assert (await handle.wait(90)).status == tasks.TASK_STATUS_SUCCESS
    assert set(runs(site).values()) == {1}, executions(site)


async def test_a_task_says_that_it_waits_for_a_worker_whose_loop_is_held(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("held")
    client = site.client()
    blocker = await block(client)

    async def running() -> bool:
        return (await client.get_task(blocker.id)).task.status == tasks.TASK_STATUS_RUNNING

    await until(running, what="the start is acknowledged by a thread")
    behind = await client.submit("double", {"number": 1})
    (reason,) = (await client.explain(behind.id)).reasons
    assert reason.code == "WORKERS_UNHEALTHY"
    assert "held (a handler holds its event loop: it is sent nothing until it is heard again)" in reason.message
    assert await behind.result(60) == {"double": 2}


async def test_a_task_that_takes_its_worker_down_in_its_first_step_is_tried_five_times(site: Site) -> None:
    await site.start_scheduler()
    client = site.client()
    handle = await client.submit("deadly", {}, retry=ONCE)
    for tried in range(1, 6):
        assert await site.launch_worker("dies").wait() == 7
        assert runs(site)[handle.id] == tried
    site.launch_worker("dies")
    ended = await handle.wait(60)
    assert (ended.status, ended.error.kind) == (tasks.TASK_STATUS_FAILED, "NEVER_STARTED")
    assert ended.attempt == 5
