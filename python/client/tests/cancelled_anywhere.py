"""Cancels a piece of work at each moment that it has, one run for each: between any two turns of its event loop.

A cancellation must leave as one wherever it comes, also where what is awaited has ended in the same turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple, Unpack

Subject = TypeVar("Subject")
Ts = TypeVarTuple("Ts")


class _CountingLoop(asyncio.SelectorEventLoop):
    """Cancels `victim` when the callback number `at` is scheduled, counted from when it is there.

    What the victim schedules itself is no moment in which another could cancel it: then the other comes next.
    """

    def __init__(self, at: int) -> None:
        super().__init__()
        self.victim: asyncio.Task[Any] | None = None
        self.asked = False
        self._left = at

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._left -= self.victim is not None
        now = self.victim is not None and not self._left
        own = now and asyncio.current_task(self) is self.victim
        if own:
            super().call_soon(self._cancel)
        handle = super().call_soon(callback, *args, context=context)
        if now and not own:
            self._cancel()
        return handle

    def _cancel(self) -> None:
        assert self.victim is not None
        self.asked = self.victim.cancel()


async def _cancelled(
    loop: _CountingLoop,
    opened: Callable[[], AbstractAsyncContextManager[Subject]],
    work: Callable[[Subject], Awaitable[object]],
) -> tuple[bool, bool, object]:
    async with opened() as subject:

        async def victim() -> object:
            return await work(subject)

        loop.victim = asyncio.create_task(victim(), name="victim")
        done, _ = await asyncio.wait([loop.victim], timeout=10)
        return loop.asked, bool(done) and loop.victim.cancelled(), loop.victim


def lost_cancellations(
    opened: Callable[[], AbstractAsyncContextManager[Subject]], work: Callable[[Subject], Awaitable[object]]
) -> list[str]:
    """Returns what became of the work instead, for each moment in which a cancellation was lost.

    Args:
        opened: Makes what the work needs, anew for each run.
        work: What is cancelled. It must come to an end by itself, good or bad.
    """
    lost: list[str] = []
    for at in range(1, 1_000):
        loop = _CountingLoop(at)
        with asyncio.Runner(loop_factory=lambda loop=loop: loop) as runner:  # type: ignore[misc]
            asked, cancelled, task = runner.run(_cancelled(loop, opened, work))
        if not asked:
            assert at > 2, "the work was never seen"
            return lost
        if not cancelled:
            lost.append(f"at {at}: {task}")
    raise AssertionError("the work does not end")
