"""One start and stop contract for everything that runs in the background, and the group that holds to it.

A process is a Group of Loops. Nothing here knows what a loop does.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from structlog.typing import FilteringBoundLogger

STOP_TIMEOUT_S = 10.0
"""How long a loop may take to end after it was asked to, in seconds."""
CANCEL_TIMEOUT_S = 5.0
"""How long a cancelled loop may take to clean up, in seconds."""


class Loop(Protocol):
    """Something that runs in the background from start to stop.

    Called in this order, each once: `start`, `run`, `stop`. `stop` may come while `run` runs or after it.
    """

    @property
    def name(self) -> str:
        """Names the loop in logs and errors."""
        ...

    async def start(self) -> None:
        """Prepares; raising means that the process does not come up. Cancelled when a stop comes first.

        What raises or is cancelled here has cleaned up after itself: its `stop` is not called.
        """
        ...

    async def run(self) -> None:
        """Works until `stop` was called, then returns. Returning unasked is a failure, as raising is."""
        ...

    async def stop(self) -> None:
        """Asks `run` to end soon. After the group's timeout both are cancelled."""
        ...


class LoopFailed(RuntimeError):
    """A loop failed, and the process with it; the cause is chained.

    Attributes:
        loop: The loop's name.
    """

    def __init__(self, loop: str, what: str) -> None:
        super().__init__(f"{loop} {what}")
        self.loop = loop


class BackgroundTask:
    """A Loop made from a coroutine function that works until it is cancelled."""

    def __init__(self, name: str, body: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self._body = body
        self._task: asyncio.Task[Any] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Prepares nothing."""

    async def run(self) -> None:
        """Runs the body until it is cancelled by `stop`."""
        if self._stopping:
            return
        self._task = asyncio.current_task()
        try:
            await self._body()
        except asyncio.CancelledError:
            if not self._stopping:
                raise

    async def stop(self) -> None:
        """Cancels the body."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()


@dataclass(eq=False, slots=True)
class _Member:
    loop: Loop
    task: asyncio.Task[None] | None = None
    asked: bool = False


class Group:
    """Owns the loops of a process: starts them in order, stops them in reverse, the first failure stops all.

    Args:
        log: Told of each start, stop and failure.
        stop_timeout_s: How long one loop may take to end when asked, in seconds.
        cancel_timeout_s: How long it may then take when cancelled, in seconds.
    """

    def __init__(
        self,
        log: FilteringBoundLogger,
        *,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        cancel_timeout_s: float = CANCEL_TIMEOUT_S,
    ) -> None:
        self._log = log
        self._stop_timeout_s = stop_timeout_s
        self._cancel_timeout_s = cancel_timeout_s
        self._loops: list[Loop] = []
        self._started: list[_Member] = []
        self._stopping = asyncio.Event()
        self._reason = ""
        self._failure: LoopFailed | None = None

    @property
    def stopping(self) -> bool:
        """True from the moment a stop was asked for."""
        return self._stopping.is_set()

    def add(self, loop: Loop) -> None:
        """Adds a loop that `run` starts after those added before."""
        self._loops.append(loop)

    def request_stop(self, reason: str) -> None:
        """Makes `run` stop everything and return; the first reason counts."""
        if not self.stopping:
            self._reason = reason
            self._stopping.set()

    async def run(self) -> str:
        """Starts all, waits for a stop, stops all; returns the reason of the stop.

        When it is cancelled it stops all just the same, and then is cancelled.

        Raises:
            LoopFailed: A loop did not start, failed, ended unasked, or did not stop.
        """
        try:
            await self._start_all()
            await self._stopping.wait()
        except asyncio.CancelledError:
            self.request_stop("cancelled")
            raise
        finally:
            await self._stop_all()
        if self._failure is not None:
            raise self._failure
        return self._reason

    async def _start_all(self) -> None:
        waiter = asyncio.create_task(self._stopping.wait(), name="group.stopping")
        try:
            for loop in self._loops:
                if self.stopping or not await self._start_one(loop, waiter):
                    return
        finally:
            waiter.cancel()

    async def _start_one(self, loop: Loop, stopping: asyncio.Task[Any]) -> bool:
        member = _Member(loop)
        starting = asyncio.create_task(loop.start(), name=f"{loop.name}.start")
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also when this is cancelled: what has started just then must be stopped like the others.
            if not starting.done():
                await self._cancel(member, {starting})
            started = self._begin(member, starting)
        return started

    def _begin(self, member: _Member, starting: asyncio.Task[None]) -> bool:
        """Lets a loop run when its start went well."""
        if not starting.done() or starting.cancelled():
            return False
        if (error := starting.exception()) is not None:
            self._fail(member, "did not start", error)
            return False
        self._started.append(member)
        member.task = asyncio.create_task(member.loop.run(), name=member.loop.name)
        member.task.add_done_callback(lambda task: self._ended(member, task))
        self._log.info("started", loop=member.loop.name)
        return True

    def _ended(self, member: _Member, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(member, "failed", error)
        elif not member.asked:
            self._fail(member, "was cancelled by another" if task.cancelled() else "ended though nobody asked")

    def _fail(self, member: _Member, what: str, cause: BaseException | None = None) -> None:
        name = member.loop.name
        self._log.error(what, loop=name, exc_info=cause)
        if self._failure is None:
            detail = f"{what}: {cause}" if cause is not None else what
            self._failure = LoopFailed(name, detail)
            self._failure.__cause__ = cause
        self.request_stop(f"{name} {what}")

    async def _stop_all(self) -> None:
        try:
            while self._started:
                await self._stop_one(self._started[-1])
                self._started.pop()
        finally:
            # Only when this itself was cancelled: no more asking, everything ends now.
            for member in self._started:
                member.asked = True
            left = {m.task for m in self._started if m.task is not None and not m.task.done()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=self._cancel_timeout_s)

    async def _stop_one(self, member: _Member) -> None:
        member.asked = True
        assert member.task is not None  # noqa: S101  # set before it is listed as started
        asking = asyncio.create_task(member.loop.stop(), name=f"{member.loop.name}.stop")
        tasks: set[asyncio.Task[None]] = {asking, member.task}
        try:
            _, late = await asyncio.wait(tasks, timeout=self._stop_timeout_s)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        if late:
            self._log.warning("did not stop in time, cancelled", loop=member.loop.name)
            await self._cancel(member, late)
        if asking.done() and not asking.cancelled() and (error := asking.exception()) is not None:
            self._fail(member, "did not stop well", error)
        self._log.info("stopped", loop=member.loop.name)

    async def _cancel(self, member: _Member, tasks: set[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        _, stuck = await asyncio.wait(tasks, timeout=self._cancel_timeout_s)
        if stuck:
            self._fail(member, "ignored its cancellation and was left behind")


async def end_tasks(
    tasks: Iterable[asyncio.Task[Any]], log: FilteringBoundLogger, timeout_s: float = CANCEL_TIMEOUT_S
) -> None:
    """Cancels tasks and returns when all have ended, or after the timeout: then those left behind are logged.

    Awaiting the tasks themselves would not do: the caller's own cancellation, which comes out of this at once, could
    not be told apart from theirs. What a task raises when it is cancelled is logged; what had ended before is its
    owner's to look at.

    Args:
        tasks: The tasks, none of them the caller's.
        log: Told of each task that raised or was left behind.
        timeout_s: How long they may take to clean up, in seconds.
    """
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.add_done_callback(lambda ended: _tell_failure(ended, log))
        task.cancel()
    if not left:
        return
    _, stuck = await asyncio.wait(left, timeout=timeout_s)
    for task in stuck:
        log.error("ignored its cancellation and was left behind", task=task.get_name())


def _tell_failure(task: asyncio.Task[Any], log: FilteringBoundLogger) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background task failed", task=task.get_name(), exc_info=error)


@contextmanager
def signals(group: Group, log: FilteringBoundLogger, exit_now: Callable[[int], NoReturn] = os._exit) -> Iterator[None]:
    """Lets SIGTERM and SIGINT stop the group; a second one ends the process at once.

    Args:
        group: What the first signal stops.
        log: Told of each signal.
        exit_now: Ends the process with an exit code.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if group.stopping:
            log.warning("second signal, ending at once", signal=number.name)
            exit_now(128 + number)
        log.info("stopping", signal=number.name)
        group.request_stop(number.name)

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


class TaskHolder:
    """Owns tasks that come and go, such as one for each stream: names them, reports failures, ends them.

    Args:
        name: Names the holder in the tasks' names.
        log: Told of each task that raised.
    """

    def __init__(self, name: str, log: FilteringBoundLogger) -> None:
        self.name = name
        self._log = log
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Starts `work` as a task of this holder.

        Raises:
            RuntimeError: The holder is closed.
        """
        if self._closed:
            work.close()
            raise RuntimeError(f"{self.name} is closed; it starts no more tasks")
        task = asyncio.create_task(work, name=f"{self.name}.{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self, timeout_s: float = CANCEL_TIMEOUT_S) -> None:
        """Cancels every task and waits until all have ended, at most `timeout_s` seconds; starts no more."""
        self._closed = True
        ending = list(self._tasks)
        for task in ending:
            task.remove_done_callback(self._ended)  # from here on it is told once, by who ends it
            task.add_done_callback(self._tasks.discard)
        await end_tasks(ending, self._log, timeout_s)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        _tell_failure(task, self._log)
