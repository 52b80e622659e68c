"""Owns the tasks that run beside the callers: each has a name, and closing ends them all and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Background:
    """Holds running tasks until they end. What they raise is theirs to handle: it must not get here."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}  # a dict for its order

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Starts `work` as a task of this name."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancels what still runs and waits for its end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
