"""Where handlers written with `def` run: a pool as large as the worker's concurrency, so that none waits for another.

Threads cannot be stopped from outside: an order to stop is a flag that the handler looks at.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from taskyard_worker.outcome import Outcome


class ThreadPool:
    """A pool of threads.

    Args:
        size: How many handlers may run at once.
    """

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="task")

    def run(self, call: Callable[[], Outcome]) -> Awaitable[Outcome]:
        """Run the call in a thread, with context variables of its own."""
        return asyncio.get_running_loop().run_in_executor(self._pool, contextvars.copy_context().run, call)

    def close(self) -> None:
        """Take no more calls; do not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
