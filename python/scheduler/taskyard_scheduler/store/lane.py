"""A thread with one database connection: the event loop asks, the thread answers, the loop never blocks.

Knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from taskyard_scheduler.store.port import StoreError

C = TypeVar("C")
T = TypeVar("T")

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


@dataclass(frozen=True)
class Keepalive(Generic[C]):
    """How a connection that has nothing to do is kept, for servers that end one which says nothing."""

    every_s: float
    """Seconds without a call after which it is pinged."""
    ping: Callable[[C], object]
    """Runs on the lane's thread. Whatever it raises, the connection is given up and the next call makes another."""


class Lane(Generic[C]):
    """Runs one call after the other on a thread of its own, each with the lane's connection.

    A connection is made when the first call needs one, and again after one was given up.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], C],
        disconnect: Callable[[C], None],
        translate: Callable[[Exception], tuple[Exception, bool]],
        keepalive: Keepalive[C] | None = None,
    ) -> None:
        """Starts the thread, which waits.

        Args:
            name: of the thread.
            connect: makes a connection; runs on the thread.
            disconnect: ends it; runs on the thread and must not raise.
            translate: gives, for what a call raised, what its caller gets, and whether the connection is
                still good.
            keepalive: how the connection is kept while no call comes; None: nothing ends it.
        """
        self._connect = connect
        self._disconnect = disconnect
        self._translate = translate
        self._keepalive = keepalive
        self._connection: C | None = None
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Callable[[C], T]) -> asyncio.Future[T]:
        """Has the thread run `work` after all that was asked before, and begin at once when there is nothing before.

        Returns:
            What `work` returns, or raises what it raised, translated. To cancel it does not stop the work.

        Raises:
            StoreError: the lane is closed.
        """
        if self._closed:
            raise StoreError("the store is closed")
        return self._ask(lambda: self._attempt(work))

    async def run(self, work: Callable[[C], T]) -> T:
        """Returns what `work` returns; see `start`."""
        return await self.start(work)

    async def close(self) -> None:
        """Ends the connection and the thread, after the calls before. May be called twice."""
        if self._closed:
            return
        self._closed = True
        await self._ask(self._drop)
        self._jobs.put(None)
        self._thread.join()  # at once: the thread has nothing left to do

    def _ask(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, work))
        return future

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            loop, future, work = job
            result, error = None, None
            try:
                result = work()
            except Exception as raised:  # it goes to the caller, whatever it is
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
                loop.call_soon_threadsafe(_settle, future, result, error)
            del job, future, work, result, error  # no row is kept while the thread waits

    def _next(self) -> _Job | None:
        """Waits for the next call, and keeps the connection meanwhile."""
        while (keepalive := self._keepalive) is not None and self._connection is not None:
            with suppress(Empty):
                return self._jobs.get(timeout=keepalive.every_s)
            self._ping(keepalive.ping)
        return self._jobs.get()

    def _ping(self, ping: Callable[[C], object]) -> None:
        try:
            if self._connection is not None:
                ping(self._connection)
        except Exception:  # whatever it was: nobody asked for anything, and the next call makes a connection and tells
            self._drop()

    def _attempt(self, work: Callable[[C], T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)
        except Exception as raised:
            error, good = self._translate(raised)
            if not good:
                self._drop()
            if error is raised:
                raise
            raise error from raised

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._disconnect(connection)


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():  # its caller was cancelled
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
