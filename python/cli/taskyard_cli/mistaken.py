"""Says of an id that is a run's where a task's was meant, or the other way round, what it is and where to go on.

The scheduler is asked only after it has said that it does not know the id as what was meant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from taskyard_client import AsyncClient, NotFound, TaskyardError


@asynccontextmanager
async def meant_as_task(client: AsyncClient, some_id: str, instead: str = "") -> AsyncIterator[None]:
    """Watches over calls about a task.

    Args:
        client: Asks what the id is of.
        some_id: The id that was given.
        instead: What to write for a run, before its id; empty where runs have nothing like it.

    Raises:
        NotFound: There is no task of that id; where it is a run's, the message says so and how to find its tasks.
    """
    try:
        yield
    except NotFound as error:
        if error.reason == "TASK_NOT_FOUND" and await _is_run(client, some_id):
            say = f"{some_id} is a run and no task: `taskyard runs show {some_id}` has its tasks' ids"
            if instead:
                say += f", and `{instead} {some_id}` does it with the run"
            raise NotFound(say, reason=error.reason, facts=error.facts) from None
        raise


@asynccontextmanager
async def meant_as_run(client: AsyncClient, some_id: str) -> AsyncIterator[None]:
    """Watches over calls about a run.

    Raises:
        NotFound: There is no run of that id; where it is a task's, the message says so, and which run it is a step of.
    """
    try:
        yield
    except NotFound as error:
        if error.reason == "RUN_NOT_FOUND" and (way := await _way_to_task(client, some_id)):
            raise NotFound(f"{some_id} is a task and no run: {way}", reason=error.reason, facts=error.facts) from None
        raise


async def _is_run(client: AsyncClient, some_id: str) -> bool:
    with suppress(TaskyardError):  # then the first answer stands
        return bool((await client.get_run(some_id)).run.run_id)
    return False


async def _way_to_task(client: AsyncClient, some_id: str) -> str:
    with suppress(TaskyardError):  # as above
        task = (await client.get_task(some_id)).task
        step = f", and `taskyard runs show {task.run_id}` the run that it is a step of" if task.run_id else ""
        return f"`taskyard task show {some_id}` shows it{step}"
    return ""
