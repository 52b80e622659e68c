"""The log store on files, for the event loop: everything that touches the disk happens in one thread.

Appends that come while a batch is written wait and form the next one; nobody waits when the thread is idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs.admission import LogLimits
from taskyard_scheduler.logs.archive import SEGMENT_LIMIT_BYTES, Append, Archive
from taskyard_scheduler.logs.port import Appended, LogPage, LogStoreUnavailable
from taskyard_scheduler.logs.wakeups import Subscription, Wakeups

WAITING_LIMIT_BYTES = 64 * 1024 * 1024
"""Bytes of lines that may wait to be written; beyond that, appends are refused."""
BATCH_LIMIT_BYTES = 8 * 1024 * 1024
"""A batch is closed on passing this, so that readers get their turn."""
DELETE_BATCH = 200
"""Instances deleted in one turn, so that appends and readers get theirs."""

T = TypeVar("T")


@dataclass(slots=True)
class _Waiting:
    wish: Append
    size: int
    answer: asyncio.Future[Appended]


class FileLogStore:
    """A LogStore in a folder of its own: segment files shared by many attempts, with an index beside them.

    Args:
        folder: Made when it is missing; one process at a time.
        log: Told of repairs and damage.
        limits: How much is kept.
        segment_bytes: When a segment is sealed and the next one begins.
    """

    def __init__(
        self,
        folder: Path,
        log: FilteringBoundLogger,
        *,
        limits: LogLimits | None = None,
        segment_bytes: int = SEGMENT_LIMIT_BYTES,
    ) -> None:
        self._folder = folder
        self._log = log
        self._limits = limits or LogLimits()
        self._segment_bytes = segment_bytes
        self._archive: Archive | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._wakeups = Wakeups()

    async def start(self) -> None:
        """See LogStore."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="taskyard-logs")
        try:
            self._archive = await self._run(self._open)
        except BaseException:
            self._thread.shutdown(wait=False)
            self._thread = None
            raise

    async def stop(self) -> None:
        """See LogStore. What waits is still written."""
        if self._thread is None:
            return
        while self._writer is not None:
            await asyncio.wait({self._writer})
        archive, self._archive = self._archive, None
        if archive is not None:
            await self._run(archive.close)
        self._thread.shutdown()
        self._thread = None
        self._wakeups.wake_all()

    async def append(
        self, tenant: str, task_id: str, attempt: int, first_line: int, lines: Sequence[LogLine]
    ) -> Appended:
        """See LogStore."""
        self._opened()
        size = sum(line.ByteSize() for line in lines)
        if self._waiting and self._waiting_bytes + size > WAITING_LIMIT_BYTES:
            raise LogStoreUnavailable(
                "the log store is behind: too many lines wait to be written; send them again a little later"
            )
        wish = Append(tenant, task_id, attempt, first_line, lines)
        answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(wish, size, answer))
        self._waiting_bytes += size
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="logs.writer")
        return await answer

    async def read(self, tenant: str, task_id: str, attempt: int, after_line: int, limit: int) -> LogPage:
        """See LogStore."""
        return await self._run(partial(self._opened().read, tenant, task_id, attempt, after_line, limit))

    def changes(self, tenant: str, task_id: str) -> Subscription:
        """See LogStore."""
        return self._wakeups.subscription(tenant, task_id)

    def wake(self, tenant: str, task_id: str) -> None:
        """See LogStore."""
        self._wakeups.wake(tenant, task_id)

    async def delete(self, tenant: str, task_ids: Sequence[str]) -> None:
        """See LogStore."""
        for start in range(0, len(task_ids), DELETE_BATCH):
            part = task_ids[start : start + DELETE_BATCH]
            await self._run(partial(self._opened().delete, tenant, part))

    def _open(self) -> Archive:
        return Archive(self._folder, self._log, self._limits, self._segment_bytes)

    def _opened(self) -> Archive:
        if self._archive is None:
            raise LogStoreUnavailable("the log store is not running; try again, or at the scheduler that leads")
        return self._archive

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _write(self) -> None:
        """Writes batches until nothing waits."""
        try:
            while self._waiting:
                await self._write_batch(self._take())
        finally:
            self._writer = None

    def _take(self) -> list[_Waiting]:
        size = count = 0
        for waiting in self._waiting:
            count += 1
            size += waiting.size
            if size >= BATCH_LIMIT_BYTES:
                break
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= size
        return batch

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        wishes = [waiting.wish for waiting in batch]
        try:
            answers = await self._run(partial(self._opened().append, wishes))
        except Exception as error:
            for waiting in batch:
                _refuse(waiting, error)
            return
        for waiting, answer in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
            self._wakeups.wake(waiting.wish.tenant, waiting.wish.task_id)


def _refuse(waiting: _Waiting, error: Exception) -> None:
    if waiting.answer.done():  # its caller has gone
        return
    # One exception object for each caller: a shared one gathers all their tracebacks.
    waiting.answer.set_exception(LogStoreUnavailable(str(error)) if isinstance(error, LogStoreUnavailable) else error)
