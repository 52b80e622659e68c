"""What workers offer and tasks ask for: who gets a task, who waits and why, and what is never exceeded."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import AsyncClient, Resources, Retry

GPU = Resources(gpus=1)
CORE = Resources(cpu_millis=1_000)


async def taskyard(site: Site, *arguments: str) -> str:
    """Runs the command as a user does; returns what it printed."""
    environ = site.environ(
        TASKYARD_ADDRESS=site.address, TASKYARD_TOKEN=site.token(), TASKYARD_DATA=str(site.folder / "nobody's")
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskyard_cli", *arguments, env=environ,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


def explains(client: AsyncClient, task_id: str, code: str) -> Callable[[], Awaitable[bool]]:
    """Returns what tells whether a task's first reason is this one."""

    async def asked() -> bool:
        return (await client.explain(task_id)).reasons[0].code == code

    return asked


def started(site: Site, task_id: str) -> bool:
    """Tells whether a task's handler was entered."""
    return any(record["what"] == "start" and record["task"] == task_id for record in executions(site))


def most_at_once(records: list[dict[str, Any]]) -> int:
    """Returns how many executions overlapped; one that ended as another began did not."""
    steps = sorted((record["at"], 1 if record["what"] == "start" else -1) for record in records)
    return max(itertools.accumulate(step for _, step in steps))


async def test_a_task_that_asks_for_a_gpu_goes_only_to_the_worker_that_has_one(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("plain", settings={"TASKYARD_CPUS": "8", "TASKYARD_MEMORY_MB": "65536"})
    client = site.client()
    first = await client.submit("pause", {"number": 0}, resources=GPU)
    await until(explains(client, first.id, "RESOURCES_NEVER_FIT"))
    await site.start_worker("gpu", settings={"TASKYARD_GPUS": "1"})
    asking = [first, *[await client.submit("pause", {"number": n}, resources=GPU) for n in range(5)]]
    others = [await client.submit("pause", {"number": n}) for n in range(20)]
    await client.wait_tasks([each.id for each in [*asking, *others]], 60)
    on_gpu = [record for record in executions(site) if record["task"] in {each.id for each in asking}]
    assert {record["worker"] for record in on_gpu} == {"gpu"}
    assert (len(on_gpu), most_at_once(on_gpu)) == (12, 1)
    rest = [record for record in executions(site) if record["task"] in {each.id for each in others}]
    assert {record["worker"] for record in rest} == {"plain", "gpu"}  # who asks for nothing runs anywhere


async def test_what_asks_for_more_than_anyone_offers_waits_and_says_why(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("small", settings={"TASKYARD_CPUS": "1.5", "TASKYARD_GPUS": "1"})
    client = site.client()
    too_much = await client.submit("double", {"number": 1}, resources=Resources(cpu_millis=500, gpus=2))
    said = await taskyard(site, "explain", too_much.id)
    assert said.startswith("QUEUED")
    assert "it asks for 0.5 cores, 2 GPUs, which no matching worker has even when it is idle." in said
    assert "(RESOURCES_NEVER_FIT)" in said

    holds = await client.submit("pause", {"number": 1, "seconds": 3600}, resources=GPU)
    await until(lambda: started(site, holds.id))
    waits = await client.submit("double", {"number": 2}, resources=GPU)
    said = await taskyard(site, "explain", waits.id)
    assert "it asks for 1 GPU, which no matching worker has free now" in said
    assert "(RESOURCES_SHORT)" in said
    assert "1/20   0/1500m CPU, 1/1 GPU" in await taskyard(site, "workers")
    assert await (await client.submit("double", {"number": 3})).result(60) == {"double": 6}  # held up by neither
    await holds.cancel()
    assert await waits.result(60) == {"double": 4}
    assert "0/20   0/1500m CPU, 0/1 GPU" in await taskyard(site, "workers")

    read = (await client.get_task(too_much.id)).task
    assert (read.status, read.resources.cpu_millis, read.resources.gpus) == (tasks.TASK_STATUS_QUEUED, 500, 2)
    assert "500m CPU, 2 GPU" in await taskyard(site, "task", "show", too_much.id)
    await site.start_worker("large", settings={"TASKYARD_CPUS": "0.5", "TASKYARD_GPUS": "2"})
    assert await too_much.result(60) == {"double": 2}


async def test_a_worker_with_two_cores_never_runs_three_tasks_of_one_core(site: Site) -> None:
    await site.start_scheduler()
    await site.start_worker("two-cores", concurrency=20, settings={"TASKYARD_CPUS": "2"})
    client = site.client()
    handles = [await client.submit("pause", {"number": n}, resources=CORE) for n in range(20)]
    ended = await client.wait_tasks([each.id for each in handles], 60)
    assert {task.status for task in ended.values()} == {tasks.TASK_STATUS_SUCCESS}
    records = executions(site)
    assert (len(records), most_at_once(records)) == (40, 2)


async def test_resources_are_held_through_crashes_and_given_back_after_them(site: Site) -> None:
    """A scheduler that comes back knows what is held; a worker that comes back without its task holds nothing."""
    scheduler = await site.start_scheduler(settings={"TASKYARD_LEASE_S": "3600"})
    worker = await site.start_worker("gpu", settings={"TASKYARD_GPUS": "1"})
    client = site.client()
    holds = await client.submit("pause", {"number": 1, "seconds": 3600}, resources=GPU, retry=Retry(max_attempts=1))
    await until(lambda: started(site, holds.id))
    scheduler.kill()
    await site.start_scheduler(settings={"TASKYARD_LEASE_S": "3600"})
    await site.wait_healthy("gpu")
    waits = await client.submit("double", {"number": 2}, resources=GPU)
    await until(explains(client, waits.id, "RESOURCES_SHORT"))
    assert "1/1 GPU" in await taskyard(site, "workers")
    assert not started(site, waits.id)

    worker.kill()
    await site.start_worker("gpu", settings={"TASKYARD_GPUS": "1"})
    lost = await holds.wait(60)  # an hour before its lease ends
    assert (lost.status, lost.error.kind) == (tasks.TASK_STATUS_FAILED, "WORKER_LOST")
    assert await waits.result(60) == {"double": 4}
    assert "0/1 GPU" in await taskyard(site, "workers")
