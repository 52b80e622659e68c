"""Holds the worker's loops: named tasks of one owner, each of which may be started anew.

Knows nothing of what they do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

Body = Callable[[], Coroutine[Any, Any, None]]

CANCEL_AGAIN_S = 0.5
"""How long a cancelled loop may take to end before it is cancelled again."""
CANCELS = 5
"""How often, before it is left."""


class Loops:
    """Runs loops side by side until the first of them ends, then cancels the others.

    Args:
        again_s: How long a cancelled loop may take to end before it is cancelled again, in seconds.
    """

    def __init__(self, again_s: float = CANCEL_AGAIN_S) -> None:
        self._again_s = again_s
        self._bodies: dict[str, Body] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._old: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    def add(self, name: str, body: Body) -> None:
        """Name a loop, before `run`."""
        self._bodies[name] = body

    def restart(self, name: str) -> None:
        """Cancel a loop and start it anew."""
        old = self._tasks[name]
        self._old = [task for task in self._old if not task.done()]
        self._old.append(old)
        old.cancel()
        self._start(name)
        self._changed.set()

    async def run(self) -> None:
        """Run all of them; raise what the first to end raises."""
        for name in self._bodies:
            self._start(name)
        try:
            while not (ended := await self._wait()):
                self._changed.clear()
        finally:
            await end((*self._old, *self._tasks.values()), self._again_s, CANCELS)
        for task in ended:
            task.result()

    def _start(self, name: str) -> None:
        self._tasks[name] = asyncio.create_task(self._bodies[name](), name=name)

    async def _wait(self) -> list[asyncio.Task[None]]:
        changed = asyncio.create_task(self._changed.wait(), name="loops changed")
        try:
            await asyncio.wait((*self._tasks.values(), changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        return [task for task in self._tasks.values() if task.done()]


async def end(tasks: Iterable[asyncio.Task[Any]], again_s: float, times: int) -> set[asyncio.Task[Any]]:
    """Cancel tasks until they end: a cancellation may get lost in what they await. Return those that go on.

    Args:
        tasks: The tasks, none of them the caller's.
        again_s: How long they may take before they are cancelled again, in seconds.
        times: How often they are cancelled.
    """
    left = {task for task in tasks if not task.done()}
    for _ in range(times):
        if not left:
            break
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_s)
    return left
