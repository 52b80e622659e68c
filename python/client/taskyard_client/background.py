"""Owns the tasks that run beside the callers: each has a name, and closing ends them all and waits."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Coroutine
from typing import Any

CANCEL_AGAIN_S = 0.5
"""How long a cancelled task may take to end before it is cancelled again, in seconds."""
CANCELS = 5
"""How often, before it is left."""


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
        """Cancels what still runs until it ends; returns in bounded time, with a warning when something does not.

        More than once, since a cancellation may get lost in what a call awaits just then.
        """
        left = set(self._tasks)
        for _ in range(CANCELS):
            if not left:
                return
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
        if left:
            names = ", ".join(sorted(task.get_name() for task in left))
            warnings.warn(f"the client is closed, and goes on with {names}", ResourceWarning, stacklevel=2)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
