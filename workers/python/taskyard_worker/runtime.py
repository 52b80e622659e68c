"""One worker on a running event loop: puts the parts together, runs them, and stops in good order.

Its surroundings (link, storage, threads, processes, time, randomness) are given to it; `worker` makes the
real ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

from taskyard_worker.keys import KeyMemory
from taskyard_worker.link import Link
from taskyard_worker.logbook import LogBook
from taskyard_worker.logs import Logger
from taskyard_worker.loops import Loops
from taskyard_worker.metrics import WorkerMetrics
from taskyard_worker.registry import TaskRegistry
from taskyard_worker.results import KeptResults, Spool
from taskyard_worker.session import Identity, Load, Session
from taskyard_worker.stopping import DEFAULT_GRACE_S, KILL_MARGIN_S
from taskyard_worker.unsent import MemoryLogs, UnsentLogs
from taskyard_worker.watchdog import Watchdog, Watched
from taskyard_worker.work import Places, Work

ACKNOWLEDGE_S = 10.0
"""How long a draining worker waits for its last results to be acknowledged; they stay in the spool otherwise."""
FLUSH_LOGS_S = 5.0
TASKS_SHOWN = 5
"""Most tasks that a worker names which waits for them."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What outlives the worker's process."""

    spool: Spool
    keys: KeyMemory
    logs: UnsentLogs = field(default_factory=MemoryLogs)


class Runtime:
    """One worker on the running event loop.

    Args:
        link: The way to the scheduler.
        identity: Who registers.
        registry: The handlers.
        storage: What outlives the process.
        places: Where handlers run that are not on the event loop.
        random: Source of jitter.
        wall: Unix time in milliseconds.
        log: The worker's own log.
        drain_grace_s: How long running attempts may go on once the worker drains, in seconds.
        reach_grace_s: How long a worker that drains and runs nothing waits for a scheduler out of reach, in seconds.
        metrics: Counts; made here when None.
        load: Returns the host's load average of one minute and the worker's resident memory in MiB.
    """

    def __init__(
        self,
        *,
        link: Link,
        identity: Identity,
        registry: TaskRegistry,
        storage: Storage,
        places: Places,
        random: Random,
        wall: Callable[[], int],
        log: Logger,
        drain_grace_s: float = DEFAULT_GRACE_S,
        reach_grace_s: float = ACKNOWLEDGE_S,
        metrics: WorkerMetrics | None = None,
        load: Callable[[], Load] = lambda: (0.0, 0),
    ) -> None:
        loop = asyncio.get_running_loop()
        self.metrics = metrics or WorkerMetrics()
        self._log = log
        self._drain_grace_s = drain_grace_s
        self._reach_grace_s = reach_grace_s
        self._draining = asyncio.Event()
        self._broken: asyncio.Future[None] = loop.create_future()
        wake = asyncio.Event()
        self.logbook = LogBook(wall, self._wake_logs, self.metrics.count_dropped)
        self._unsent = storage.logs
        self._restore_logs()
        results = KeptResults(storage.spool)
        restored = results.restore()
        if restored:
            log.info("results of an earlier life will be reported", count=restored)
        self.work = Work(
            worker_id=identity.worker_id,
            slots=identity.max_concurrency,
            registry=registry,
            results=results,
            keys=storage.keys,
            logbook=self.logbook,
            metrics=self.metrics,
            places=places,
            wake=wake.set,
            beat_now=self._beat_now,
            broken=self._break,
        )
        self.session = Session(
            link=link,
            identity=identity,
            work=self.work,
            logbook=self.logbook,
            random=random,
            wall=wall,
            log=log,
            drain=self.drain,
            wake=wake,
            load=load,
        )
        self._loop = loop
        self._loops = Loops()
        self._add_loops()
        self._offer_figures()

    def drain(self) -> None:
        """Stop in good order: take nothing new, let what runs end within the grace, report, deregister."""
        if not self._draining.is_set():
            tasks = [attempt.task_id for attempt in self.work.running][:TASKS_SHOWN]
            named = {"tasks": tasks} if tasks else {}
            self._log.info("draining", active=self.work.active, grace_s=self._drain_grace_s, **named)
            self._draining.set()

    async def run(self) -> None:
        """Work until drained.

        Raises:
            NotAccepted: The scheduler does not want this worker.
            SessionSuperseded: A newer session of this worker id exists.
            Unauthenticated: The scheduler refuses the worker's token.
        """
        try:
            await self._loops.run()
        finally:
            await self.session.reopen()
            await self.work.close()
            self._keep_logs()

    def not_ready(self) -> str:
        """Return why this worker takes no tasks; empty when it does."""
        if self._draining.is_set():
            return "draining"
        return "" if self.session.connected else "no stream to a scheduler"

    def _add_loops(self) -> None:
        session, watchdog = self.session, Watchdog(self._log)
        self._loops.add("stream", session.converse)
        self._loops.add("frames", session.send_frames)
        self._loops.add("heartbeats", session.keep_alive)
        self._loops.add("logs", session.send_logs)
        self._loops.add("drain", self._drained)
        self._loops.add("failure", self._failure)
        self._loops.add("watchdog", watchdog.run)
        for name, has_work, progress in (
            ("stream", lambda: not session.connected, lambda: session.tries),
            ("frames", lambda: session.sending_overdue, lambda: session.frames_sent),
            ("heartbeats", lambda: session.connected, lambda: session.beats),
            ("logs", lambda: session.connected and not self.logbook.empty, lambda: session.log_calls),
        ):
            watchdog.watch(Watched(name, has_work, progress, self._loops.restart))

    def _offer_figures(self) -> None:
        gauge = self.metrics.gauge
        gauge("taskyard_worker_active_attempts", "Attempts that run now", lambda: self.work.active)
        gauge(
            "taskyard_worker_unacknowledged_results",
            "Results that the scheduler has not acknowledged",
            lambda: self.work.unacknowledged,
        )
        gauge("taskyard_worker_connected", "1 while a stream is open", lambda: int(self.session.connected))
        gauge("taskyard_worker_streams_opened", "Streams opened since the start", lambda: self.session.streams)

    async def _drained(self) -> None:
        await self._draining.wait()
        work = self.work
        work.drain()
        if not await within(self._drain_grace_s, work.idle.wait()):
            self._log.warning("interrupting what still runs", tasks=[attempt.task_id for attempt in work.running])
            work.interrupt()
            if not await within(DEFAULT_GRACE_S + KILL_MARGIN_S, work.idle.wait()):
                self._log.warning("left running", tasks=[attempt.task_id for attempt in work.running])
        if not await self._within_reach(ACKNOWLEDGE_S, work.all_acknowledged.wait):
            self._log.warning("results stay in the spool for the next start", count=work.unacknowledged)
        await self._within_reach(FLUSH_LOGS_S, self.session.logs_sent)  # what is not sent is kept by `run`
        await self.session.deregister()
        self._log.info("drained")

    def _restore_logs(self) -> None:
        chunks = self._unsent.replay()
        if chunks:
            count = sum(len(chunk.lines) for chunk in chunks)
            self._log.info("log lines of an earlier life will be sent", count=count)
            self.logbook.restore(chunks, self._forget_logs)

    def _forget_logs(self) -> None:
        try:
            self._unsent.clear()
        except OSError as error:  # sent again at the next start, which the scheduler notices
            self._log.warning("the log lines of an earlier life were sent, but stay on disk", error=str(error))

    def _keep_logs(self) -> None:
        """Keep the lines that were not sent for the next start, or say how many of which tasks are lost."""
        chunks = self.logbook.unsent()
        if not chunks:
            return
        count = sum(len(chunk.lines) for chunk in chunks)
        tasks = [chunk.task_id for chunk in chunks][:TASKS_SHOWN]
        try:
            self._unsent.keep(chunks)
        except OSError as error:
            self._log.error(
                "the last log lines could neither be sent nor kept and are lost: make room on the disk",
                count=count,
                tasks=tasks,
                error=str(error),
            )
            return
        self._log.warning("log lines stay on disk for the next start", count=count, tasks=tasks)

    async def _within_reach(self, seconds: float, what: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        """Wait until the scheduler has taken something, at most so long; not for one that stays out of reach."""

        async def told() -> bool:
            return await within(seconds, what())

        taken = asyncio.create_task(told(), name="what is left to tell")
        away = asyncio.create_task(self.session.out_of_reach(self._reach_grace_s), name="out of reach")
        try:
            await asyncio.wait((taken, away), return_when=asyncio.FIRST_COMPLETED)
            return taken.done() and taken.result()
        finally:
            taken.cancel()
            away.cancel()

    async def _failure(self) -> None:
        await self._broken

    def _break(self, error: BaseException) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)

    def _beat_now(self) -> None:
        self.session.beat_now()

    def _wake_logs(self) -> None:
        self._loop.call_soon_threadsafe(self.session.wake_logs)


async def within(seconds: float, what: Coroutine[Any, Any, object]) -> bool:
    """Wait for something at most so long; return whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await what
    except TimeoutError:
        return False
    return True
