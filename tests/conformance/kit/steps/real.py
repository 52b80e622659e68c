"""Steps of scenarios that a real scheduler process plays: it is started and killed, and tasks go in by its API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from e2e.site import Site

from conformance.kit.stage import Stage
from conformance.kit.steps.expecting import MISSING, expect, expect_same
from conformance.kit.unmet import Unmet
from conformance.kit.verb import Anything, Object, verb
from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard_client import AsyncClient, Retry, TaskHandle, TaskyardError

LONG_S = 45.0
ASK_S = 0.1
"""How often the scheduler is asked for what it has no watch for."""


def site(stage: Stage) -> Site:
    """Returns the real scheduler's site."""
    if stage.site is None:
        raise Unmet("this scenario has no real scheduler")
    return stage.site


def client(stage: Stage) -> AsyncClient:
    """Returns the scenario's client, which outlives restarts of the scheduler; closed with the site."""
    if stage.client is None:
        stage.client = site(stage).client(timeout=LONG_S)
    return stage.client


def handle_of(stage: Stage, task: str) -> TaskHandle:
    """Returns the task that a step submitted under this name."""
    if task not in stage.handles:
        raise Unmet(f"the scenario has submitted no task `{task}`")
    return stage.handles[task]


async def patiently(stage: Stage, check: Callable[[], Awaitable[Any]], sentence: str) -> Any:
    """Returns the first true value of a check that asks the scheduler. Raises Unmet with the sentence."""
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        over = stage.worker.over  # before the check: what was said last has come by then
        if found := await check():
            return found
        if over is not None:
            stage.not_over(sentence)
        await asyncio.sleep(ASK_S)
    raise Unmet(f"{sentence} (waited {LONG_S:g} s)")


@verb("real")
async def healthy(stage: Stage) -> None:
    """The scheduler must see the worker as one that takes tasks."""
    wanted = f'worker_id == "{stage.worker_id}" && state == "HEALTHY"'

    async def seen() -> bool:
        try:
            return bool([each async for each in client(stage).workers(filter=wanted)])
        except TaskyardError:
            return False

    await patiently(stage, seen, "the scheduler does not see the worker as HEALTHY")


@verb("real")
async def scheduler_killed(stage: Stage) -> None:
    """Kills the scheduler with SIGKILL."""
    site(stage).processes[-1].kill()


@verb("real")
async def scheduler_started(stage: Stage) -> None:
    """Starts the scheduler again on the same data."""
    await site(stage).start_scheduler(f"scheduler-{len(site(stage).processes)}")


@verb("real")
async def submit(
    stage: Stage, task: str, type: str, input: Object | None = None, attempts: int = 1, exclusive: bool = False,
    key: str = "",
) -> None:  # fmt: skip
    """Submits a task."""
    retry = Retry(max_attempts=attempts, first_delay=0.1)
    handle = await client(stage).submit(
        type, stage.fill(input or {}), retry=retry, exclusive=exclusive, idempotency_key=key
    )
    stage.handles[task] = handle


@verb("real")
async def stop(stage: Stage, task: str) -> None:
    """Cancels a task."""
    await client(stage).cancel_task(handle_of(stage, task).id)


@verb("real")
async def running(stage: Stage, task: str) -> None:
    """The scheduler must know that the task's handler was entered."""
    await patiently(stage, lambda: in_status(stage, task, "RUNNING"), f"{task} does not run by the scheduler")


@verb("real")
async def ended(
    stage: Stage, task: str, status: str = "SUCCESS", output: Anything = MISSING, attempts: int = 0
) -> None:
    """The task must end so, with this output, after so many attempts."""

    async def over() -> Any:
        try:
            found = await client(stage).get_task(handle_of(stage, task).id)
        except TaskyardError:
            return None
        name = TaskStatus.Name(found.task.status).removeprefix("TASK_STATUS_")
        return found if name in ("SUCCESS", "FAILED", "TIMEOUT", "CANCELLED", "SKIPPED") else None

    found = await patiently(stage, over, f"{task} did not end")
    name = TaskStatus.Name(found.task.status).removeprefix("TASK_STATUS_")
    stage.told.append(f"{task}: {name} after {len(found.attempts)} attempts")
    expect(name == status, f"{task} ended {name}, but must end {status}")
    if output is not MISSING:
        expect_same(f"the output of {task}", stage.fill(output), await handle_of(stage, task).result(LONG_S))
    if attempts:
        expect(len(found.attempts) == attempts, f"{task} took {len(found.attempts)} attempts, but must {attempts}")


async def in_status(stage: Stage, task: str, status: str) -> bool:
    """Tells whether the task has this status now."""
    try:
        found = await client(stage).get_task(handle_of(stage, task).id)
    except TaskyardError:
        return False
    return TaskStatus.Name(found.task.status) == f"TASK_STATUS_{status}"


@verb("real")
async def log_kept(stage: Stage, task: str, lines: int, text: str) -> None:
    """The scheduler must have kept these lines, line N being `TEXT N`, each once and in order."""
    wanted = [f"{text} {number}" for number in range(lines)]

    async def all_there() -> bool:
        kept = [line async for line in client(stage).logs(handle_of(stage, task).id)]
        return [line.content.text for line in kept] == wanted

    await patiently(stage, all_there, f"the log of {task} is not `{text} 0` to `{text} {lines - 1}`, each once")
