"""The work that clients bring, through the Python client as any user has it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from taskyard_client import AsyncClient, Outcome, TaskHandle, new_task

BATCH = 500
BATCHES_IN_FLIGHT = 4
POLL_S = 0.01


async def submit_batches(client: AsyncClient, tasks: int) -> None:
    """Submits no-op tasks in batches of BATCH, BATCHES_IN_FLIGHT of them at once; returns when all are accepted."""
    sizes = iter([BATCH] * (tasks // BATCH) + ([tasks % BATCH] if tasks % BATCH else []))

    async def lane() -> None:
        for size in sizes:
            for outcome in await client.submit_many([new_task("noop") for _ in range(size)]):
                accepted(outcome)

    async with asyncio.TaskGroup() as group:
        for number in range(BATCHES_IN_FLIGHT):
            group.create_task(lane(), name=f"submit batches {number}")


def accepted(outcome: Outcome[TaskHandle]) -> None:
    """Raises what a refused item was refused with."""
    if outcome.error is not None:
        raise outcome.error


async def call_repeatedly(callers: int, calls: int, call: Callable[[], Awaitable[object]]) -> None:
    """Has so many callers make so many calls in all, each the next one when its last was answered."""
    numbers = itertools.count()

    async def caller() -> None:
        while next(numbers) < calls:
            await call()

    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(caller(), name=f"caller {number}")


async def tasks_ended(client: AsyncClient) -> int:
    """Returns how many tasks have ended durably."""
    return sum((await client.cluster_status()).tasks_ended.values())


async def runs_ended(client: AsyncClient) -> int:
    """Returns how many runs have ended durably."""
    return sum((await client.cluster_status()).runs_ended.values())


async def until(count: Callable[[], Awaitable[int]], wanted: int, check: Callable[[], None]) -> None:
    """Returns when the count is reached.

    Args:
        count: Asks for it.
        wanted: How many.
        check: Called between; raises when waiting has become pointless.
    """
    while await count() < wanted:
        check()
        await asyncio.sleep(POLL_S)
