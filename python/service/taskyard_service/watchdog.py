"""Notices what stands still: a loop that has work and makes no progress, and an event loop that is late.

It only tells; what to do about it is the process' business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

LIMIT_S = 30.0
"""How long a loop may have work without progress before it is reported, in seconds."""
PERIOD_S = 1.0
"""How often the watchdog looks, in seconds."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A loop that stands still, or moves again.

    Attributes:
        name: The loop.
        seconds: For how long it has had work and made no progress.
        over: True when it moves again.
    """

    name: str
    seconds: float
    over: bool


class Progress:
    """What a watched loop tells the watchdog. Marking costs one addition."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def mark(self) -> None:
        """Says that a piece of work was done."""
        self._count += 1

    @property
    def count(self) -> int:
        """How many pieces of work were done."""
        return self._count


@dataclass(slots=True)
class _Watched:
    name: str
    has_work: Callable[[], bool]
    progress: Progress
    seen: int
    since_s: float
    stalled: bool = False


class Watchdog:
    """A Loop that reports each watched loop which has work and makes no progress.

    Args:
        report: Told when a loop stands still for too long, and once more when it moves again.
        limit_s: How long it may stand still, in seconds.
        period_s: How often to look, in seconds.
        observe_lag: Told, each period, how late the event loop ran the timer, in seconds.
        clock: Returns monotonic seconds; the event loop's time when None.
    """

    name = "watchdog"

    def __init__(
        self,
        report: Callable[[Stall], None],
        *,
        limit_s: float = LIMIT_S,
        period_s: float = PERIOD_S,
        observe_lag: Callable[[float], None] = lambda _seconds: None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._report = report
        self._limit_s = limit_s
        self._period_s = period_s
        self._observe_lag = observe_lag
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._watched: list[_Watched] = []
        self._stop = asyncio.Event()

    def watch(self, name: str, has_work: Callable[[], bool]) -> Progress:
        """Begins to watch a loop; `has_work` says whether anything waits for it. Needs a running loop."""
        progress = Progress()
        self._watched.append(_Watched(name, has_work, progress, 0, self._clock()))
        return progress

    def stalled(self) -> list[str]:
        """Returns the names of the loops that stand still, for readiness."""
        return [watched.name for watched in self._watched if watched.stalled]

    def check(self) -> None:
        """Looks at every watched loop once."""
        now_s = self._clock()
        for watched in self._watched:
            self._check_one(watched, now_s)

    async def start(self) -> None:
        """Prepares nothing."""

    async def run(self) -> None:
        """Looks once a period until stopped."""
        while not self._stop.is_set():
            due_s = self._clock() + self._period_s
            try:
                async with asyncio.timeout(self._period_s):
                    await self._stop.wait()
            except TimeoutError:
                self._observe_lag(max(0.0, self._clock() - due_s))
                self.check()

    async def stop(self) -> None:
        """Asks `run` to return."""
        self._stop.set()

    def _check_one(self, watched: _Watched, now_s: float) -> None:
        still_s = now_s - watched.since_s
        if watched.progress.count != watched.seen or not watched.has_work():
            watched.seen = watched.progress.count
            watched.since_s = now_s
            if watched.stalled:
                watched.stalled = False
                self._report(Stall(watched.name, still_s, over=True))
        elif still_s >= self._limit_s and not watched.stalled:
            watched.stalled = True
            self._report(Stall(watched.name, still_s, over=False))
