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
from types import FrameType
from typing import Protocol

from taskyard_worker import calling, runner
from taskyard_worker.logs import Logger

PERIOD_S = 5.0
LIMIT_S = 45.0
"""How long a loop may have work without progress. Longer than any limit inside the loops."""
NOTICE_S = 1.0
"""How long the event loop may be held before the worker's stand-in speaks: well below the start timeout of a task."""
HELD_S = 5.0
"""How long the event loop may be held by one piece of code before a warning says which."""
STACK_SHOWN = 5
_CALLERS = frozenset(module.__file__ for module in (runner, calling))
"""Files of those who call handlers: what they call is the handler."""


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


class HoldListener(Protocol):
    """Who is told that the event loop is held."""

    def held(self, now: float) -> None:
        """The loop is held, at this monotonic time. In the guard's thread, again and again while that lasts."""
        ...

    def free(self) -> None:
        """The loop goes on. On the loop, after each hold, and again when `held` returned later than that."""
        ...


class LoopGuard:
    """A thread that notices when the event loop is held: no heartbeat, cancel or result gets through meanwhile.

    Args:
        log: The worker's own log.
        listener: Told of every hold; None: nobody is.
        notice_s: How long the loop may be held before the listener is told, in seconds.
        warn_s: How long it may be held before the log says by what, in seconds.
    """

    def __init__(
        self,
        log: Logger,
        listener: HoldListener | None = None,
        *,
        notice_s: float = NOTICE_S,
        warn_s: float = HELD_S,
    ) -> None:
        self._log = log
        self._listener = listener
        self._notice_s = notice_s
        self._warn_s = warn_s
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._asked_at: float | None = None  # since when the loop has not answered; None: it has
        self._noticed = False
        self._warned = False
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
        while not self._stop.wait(min(self._notice_s, self._warn_s) / 4):
            now, asked_at = time.monotonic(), self._asked_at
            if asked_at is None:
                self._ask(now)
                continue
            held_s = now - asked_at
            if held_s >= self._notice_s:
                self._tell(now)
            if held_s >= self._warn_s and not self._warned:
                self._warned = True
                self._warn(held_s)

    def _ask(self, now: float) -> None:
        if not self._loop.is_closed():
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._alive)

    def _tell(self, now: float) -> None:
        self._noticed = True
        if self._listener is None:
            return
        try:
            self._listener.held(now)
        except Exception as error:  # this thread must go on, and the loop must not hear of it
            self._log.error("the guard of the event loop failed", error=repr(error))
        if not self._noticed and not self._loop.is_closed():  # the loop went on meanwhile
            self._loop.call_soon_threadsafe(self._listener.free)

    def _warn(self, held_s: float) -> None:
        stack = held_by(sys._current_frames().get(self._loop_thread))
        self._log.warning(
            f"the event loop is held by {stack.holder}: an async handler must await, not block; "
            "write it with def, or isolated",
            seconds=round(held_s, 1),
            stack=stack.lines,
        )

    def _alive(self) -> None:
        self._asked_at, self._warned = None, False
        if self._noticed:
            self._noticed = False
            if self._listener is not None:
                self._listener.free()


@dataclass(frozen=True, slots=True)
class Stack:
    """What a thread does: `holder` names the handler's place in its file, `lines` the calls, the innermost first."""

    holder: str
    lines: list[str]


def held_by(frame: FrameType | None) -> Stack:
    """Return what holds the thread of this frame: the handler, where it is known, else the innermost call."""
    calls = traceback.extract_stack(frame) if frame is not None else []
    if not calls:
        return Stack("something unknown", [])
    last = max((at for at, call in enumerate(calls) if call.filename in _CALLERS), default=len(calls))
    holder = calls[last + 1] if last + 1 < len(calls) else calls[-1]
    return Stack(_place(holder), [f"{_place(call)}: {call.line}" for call in reversed(calls[-STACK_SHOWN:])])


def _place(call: traceback.FrameSummary) -> str:
    return f"{call.name} ({call.filename}:{call.lineno})"
