"""A deterministic event loop with virtual time, shared by simulated processes that can be killed and paused.

It waits for nothing real: sockets, threads and signals are refused. Within a process callbacks run in the order in
which they were asked for, as in asyncio; between processes the seed decides.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

BUSY_LIMIT = 200_000
"""Turns without any time passing after which the system is taken to spin."""
STACK_DEPTH = 6


class Stuck(Exception):
    """Nothing is left that could ever happen, or things happen for ever without time passing."""


class Process:
    """What lives and dies together: its callbacks run only while it is alive and not paused."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.queued = False  # among the loop's runnable ones
        self.ready: deque[_Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)

    def __repr__(self) -> str:
        return f"<Process {self.name}>"


_PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("simulated_process")


class _Task(asyncio.Task[T]):
    """A task whose hash, and so its place in a set, is the same in every run of a seed."""

    def __init__(self, serial: int, coroutine: Coroutine[Any, Any, T], **settings: Any) -> None:
        self._serial = serial
        super().__init__(coroutine, **settings)

    def __hash__(self) -> int:
        return self._serial


class _Handle(asyncio.Handle):
    """A handle that asks nobody whether it is being debugged: there are tens of thousands in each history."""

    __slots__ = ("when_s",)

    def __init__(self, callback: Any, args: Any, context: contextvars.Context, when_s: float = 0.0) -> None:
        self._context = context
        self._callback = callback
        self._args = args
        self._cancelled = False
        self.when_s = when_s

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does, so that nothing is kept

    def when(self) -> float:
        """Returns the time of a timer."""
        return self.when_s


_Base: Any = asyncio.AbstractEventLoop
"""Of no type for the checkers, which would miss the thirty-six methods that are to raise NotImplementedError."""


class VirtualLoop(_Base):  # type: ignore[misc]
    """Time starts at 1,000 s and jumps to the next timer when nothing else is to be done.

    Args:
        rng: Decides which process goes on when several can.
    """

    def __init__(self, rng: random.Random) -> None:
        self.now = 1_000.0
        self.until = self.now  # time at which the work must have ended; who waits for something due later moves it
        self.turns = 0
        self.errors: list[str] = []  # what nobody caught
        self.world = Process("world")
        self._random = rng.random
        self._runnable: list[Process] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._numbers = count()
        self._serials = count(1)
        self._closed = False
        self._processes = [self.world]

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_later: Any,
    ) -> asyncio.Task[Any]:
        task: _Task[Any] = _Task(next(self._serials), coro, loop=self, name=name, context=context)
        process = (context or contextvars.copy_context()).get(_PROCESS, self.world)
        process.tasks.append(task)
        if len(process.tasks) > 64 and len(process.tasks) & (len(process.tasks) - 1) == 0:
            process.tasks = [each for each in process.tasks if not each.done()]
        return task

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = _Handle(callback, args, context)
        process = context.get(_PROCESS, self.world)
        if process.alive:
            process.ready.append(handle)
            if not process.queued and not process.paused:
                process.queued = True
                self._runnable.append(process)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        timer = _Handle(callback, args, context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{_PROCESS.get(self.world).name}: {context.get('message')}: {error!r}{where_raised(error)}")

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        raise AssertionError("threads are behind a port; the simulation has none")

    # Processes.

    def spawn(self, name: str) -> Process:
        """Returns a new process."""
        process = Process(name)
        self._processes.append(process)
        return process

    def start(self, process: Process, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Runs a coroutine as a task of a process."""
        return self.create_task(work, name=name, context=process.context.copy())

    def kill(self, process: Process) -> None:
        """Ends a process as kill -9 does: nothing of it ever runs again, not even what cleans up."""
        process.alive = False
        process.ready.clear()

    def pause(self, process: Process) -> None:
        """Stops a process as SIGSTOP does; time goes on without it."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """Lets a paused process go on."""
        process.paused = False
        if process.ready and not process.queued:
            process.queued = True
            self._runnable.append(process)

    # Running.

    def run(self, work: Coroutine[Any, Any, T], until: float) -> T:
        """Runs `work` in the world's name to its end.

        Args:
            work: What to run.
            until: Time at which it must have ended.

        Raises:
            Stuck: It cannot end, or has not by then.
        """
        old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finalize)
        events._set_running_loop(self)
        self.until = until
        try:
            main = self.start(self.world, work, "main")
            while not main.done():
                self._turn()
            return main.result()
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*old_hooks)

    def dispose(self) -> None:
        """Closes every coroutine that is left, so that nothing of this loop runs later."""
        self._closed = True
        for process in self._processes:
            process.alive = False
            for task in process.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # its death is meant
                    _close(task.get_coro())
        self._timers.clear()

    def dump(self) -> str:
        """Returns what every task of every living process waits for."""
        lines = []
        for process in self._processes:
            if process.alive:
                lines += [f"{process.name}: {_story(task)}" for task in process.tasks if not task.done()]
        return "\n".join(lines)

    def _turn(self) -> None:
        """Lets one process do what it is ready to do; when none is, moves time on."""
        runnable = self._runnable
        if not runnable:
            self._advance()
            return
        self.turns += 1
        if self.turns > BUSY_LIMIT:
            raise Stuck(f"time stands still at {self.now:.3f} s while callbacks go on for ever\n{self.dump()}")
        process = runnable.pop(int(self._random() * len(runnable)) if len(runnable) > 1 else 0)
        process.queued = False
        ready = process.ready
        for _ in range(len(ready)):
            if not process.alive or process.paused:
                return
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    call: Any = handle._callback
                    handle._context.run(call, *handle._args)
                except Exception as error:
                    self.call_exception_handler({"message": f"callback {handle._callback!r}", "exception": error})
        if ready and process.alive and not process.paused and not process.queued:
            process.queued = True
            runnable.append(process)

    def _advance(self) -> None:
        """Moves time to the next timer and makes all that are due then ready."""
        timers, pop = self._timers, heapq.heappop
        while timers and timers[0][2]._cancelled:
            pop(timers)
        if not timers:
            raise Stuck(f"deadlock at {self.now:.3f} s: nothing is left that could happen\n{self.dump()}")
        if timers[0][0] > self.until:
            raise Stuck(f"not done at {self.until:.0f} s")
        self.turns = 0
        now = self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= now:
            handle = pop(timers)[2]
            process = handle._context.get(_PROCESS, self.world)
            if not handle._cancelled and process.alive:
                process.ready.append(handle)
                if not process.queued and not process.paused:
                    process.queued = True
                    self._runnable.append(process)

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed and _PROCESS.get(self.world).alive:
            self.call_soon(self.create_task, generator.aclose())


def _close(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:  # noqa: S110  # a killed program's clean-up fails as it likes: nobody is there to care
        pass


def _story(task: asyncio.Task[Any]) -> str:
    """Returns a task's name and where it waits."""
    frames: list[str] = []
    waiter: Any = task.get_coro()
    while waiter is not None and len(frames) < STACK_DEPTH:
        frame = getattr(waiter, "cr_frame", None) or getattr(waiter, "ag_frame", None)
        if frame is not None:
            frames.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        waiter = getattr(waiter, "cr_await", None) or getattr(waiter, "ag_await", None)
    return f"{task.get_name()} at {' > '.join(frames)}"


def where_raised(error: BaseException | None) -> str:
    """Returns the last places of an error's traceback, for people who look for it."""
    places = []
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f" ({' > '.join(places[-STACK_DEPTH:])})" if places else ""
