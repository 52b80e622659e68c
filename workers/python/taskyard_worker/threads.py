"""Where `def` handlers run: as many threads as the worker's concurrency, so that none waits for another.

Threads cannot be stopped from outside: an order to stop is a flag that the handler looks at. They are
daemons, so one that never ends does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue

from taskyard_worker.outcome import Outcome

Call = Callable[[], Outcome]
Waiting = asyncio.Future[Outcome]


class ThreadPool:
    """A pool of threads, started as they are needed. Made and used on the event loop.

    Args:
        size: How many calls may run at once.
    """

    def __init__(self, size: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._size = size
        self._calls: SimpleQueue[tuple[Call, Waiting] | None] = SimpleQueue()
        self._done: deque[tuple[Waiting, Outcome | BaseException]] = deque()
        self._threads = 0
        self._busy = 0

    def run(self, call: Call) -> Awaitable[Outcome]:
        """Run the call in a thread, with context variables of its own. Cancelling the wait does not end the thread."""
        waiting: Waiting = self._loop.create_future()
        self._busy += 1
        if self._busy > self._threads and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._serve, name=f"task {self._threads}", daemon=True).start()
        variables = contextvars.copy_context()
        self._calls.put((lambda: variables.run(call), waiting))
        return waiting

    def close(self) -> None:
        """End the threads that are idle; one that runs a call ends after it."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _serve(self) -> None:
        while (item := self._calls.get()) is not None:
            call, waiting = item
            try:
                outcome: Outcome | BaseException = call()
            except BaseException as error:
                outcome = error
            self._done.append((waiting, outcome))
            if len(self._done) == 1 and not self._tell():
                return

    def _tell(self) -> bool:
        """Wake the loop for everything that is done; return False when it is closed."""
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            return False
        return True

    def _deliver(self) -> None:
        while self._done:
            waiting, outcome = self._done.popleft()
            self._busy -= 1
            if waiting.done():
                continue
            if isinstance(outcome, BaseException):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)
