"""Notices what stands still: a loop that has work and makes no progress, and a handler that holds the event loop.

Tells, and gets a loop going again; it does not know what the loops do.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from taskyard_worker.logs import Logger

PERIOD_S = 5.0
LIMIT_S = 45.0
"""How long a loop may have work without progress. Longer than any limit inside the loops."""
HELD_S = 5.0
"""How long the event loop may be held by one piece of code before a warning says which."""


@dataclass(slots=True)
class Watched:
    """A loop: `has_work` tells whether it should do something, `progress` a number that grows as it does."""

    name: str
    has_work: Callable[[], bool]
    progress: Callable[[], int]
    restart: Callable[[str], None]
    seen: int = -1
    since: float = field(default=0.0)

    def stuck(self, now: float, limit_s: float) -> bool:
        """Tell whether it has stood still for too long; if so, begin anew to count."""
        count = self.progress()
        if count != self.seen or not self.has_work():
            self.seen, self.since = count, now
            return False
        if now - self.since < limit_s:
            return False
        self.since = now
        return True


class Watchdog:
    """Looks at each loop every few seconds.

    Args:
        log: The worker's own log.
        limit_s: How long a loop may stand still, in seconds.
        period_s: How often to look, in seconds.
    """

    def __init__(self, log: Logger, limit_s: float = LIMIT_S, period_s: float = PERIOD_S) -> None:
        self._log = log
        self._limit_s = limit_s
        self._period_s = period_s
        self._watched: list[Watched] = []

    def watch(self, watched: Watched) -> None:
        """Begin to watch a loop."""
        self._watched.append(watched)

    async def run(self) -> None:
        """Look until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self._period_s)
            for watched in self._watched:
                if watched.stuck(clock(), self._limit_s):
                    self._log.error("a loop stands still; starting it anew", loop=watched.name)
                    watched.restart(watched.name)


class LoopGuard:
    """A thread that notices when the event loop is held: no heartbeat, cancel or result gets through meanwhile.

    Args:
        log: The worker's own log.
        held_s: How long the loop may be held before it says so, in seconds.
    """

    def __init__(self, log: Logger, held_s: float = HELD_S) -> None:
        self._log = log
        self._held_s = held_s
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._seen = time.monotonic()
        self._told = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop guard", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(self._held_s / 4):
            held_s = time.monotonic() - self._seen
            if held_s >= self._held_s and not self._told:
                self._told = True
                self._log.warning(
                    "the event loop is held by one piece of code; an async handler must await, not block: "
                    "write it with def, or isolated",
                    seconds=round(held_s, 1),
                    stack=self._stack(),
                )
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._alive)

    def _alive(self) -> None:
        self._seen = time.monotonic()
        self._told = False

    def _stack(self) -> list[str]:
        frame = sys._current_frames().get(self._loop_thread)
        return [line.strip() for line in traceback.format_stack(frame)[-3:]] if frame is not None else []
