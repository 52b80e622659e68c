"""What both artifact stores are made on: threads for calls that block, and a start that clears what was left."""

from __future__ import annotations

import asyncio
import errno
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.artifacts.port import ArtifactStore, ArtifactStoreUnavailable

THREADS = 16
"""Calls under way at once. Between two of its chunks a transfer holds none."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

T = TypeVar("T")


class DiskThreads:
    """Threads for calls that block; its errors are those of an artifact store.

    Args:
        what: What the calls are made to, for errors.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pool: ThreadPoolExecutor | None = None

    def open(self) -> None:
        """Makes the threads; they start as they are needed."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="taskyard-artifacts")

    def close(self) -> None:
        """Ends them after what they do now; later calls are refused. May be called twice."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    async def run(self, work: Callable[[], T]) -> T:
        """Returns what a call returns, made in a thread.

        Raises:
            ArtifactStoreUnavailable: It raised an OSError, or the store is not open.
        """
        if self._pool is None:
            raise ArtifactStoreUnavailable("the artifact store is not running: try again, or at the leading scheduler")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        except ArtifactStoreUnavailable:
            raise
        except OSError as error:
            raise ArtifactStoreUnavailable(
                f"{self._what} fails: {error.strerror or error}", full=error.errno in _FULL
            ) from error


class ThreadedStore(ArtifactStore):
    """An ArtifactStore whose calls block, and so are made in threads.

    Args:
        what: What the calls are made to, for errors.
        log: Told of what was left and removed.
    """

    def __init__(self, what: str, log: FilteringBoundLogger) -> None:
        self._log = log
        self._threads = DiskThreads(what)

    async def start(self) -> None:
        """See ArtifactStore."""
        self._threads.open()
        try:
            left = await self._run(self._prepare)
        except BaseException:
            self._threads.close()
            raise
        if left:
            self._log.info("removed what lost uploads have left", files=left)

    async def stop(self) -> None:
        """See ArtifactStore."""
        self._threads.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Returns what a call returns, made in a thread."""
        return await self._threads.run(work)

    @abstractmethod
    def _prepare(self) -> int:
        """Makes the place ready and removes what lost uploads have left there; returns how much. In a thread."""
