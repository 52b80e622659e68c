"""An event loop whose time jumps to the next timer when nothing else is to be done; no real waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("deadlock: nothing is left that could ever happen")
        events = super().select(0)
        if not events:
            self.now += max(timeout, 0)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time starts at 1,000 s."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` on a new virtual loop; tasks that it leaves behind fail the test."""
    loop = VirtualLoop()
    try:
        result = loop.run_until_complete(work)
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks left running: {left}"
        loop.run_until_complete(loop.shutdown_asyncgens())
        return result
    finally:
        loop.close()
