"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from taskyard_client.background import CANCEL_AGAIN_S, CANCELS
from taskyard_client.errors import CLOSED_MEANWHILE, ClientClosed

T = TypeVar("T")

NOTICE_S = 0.5
"""A signal that comes just before a thread blocks is noticed only when it wakes: so it wakes so often, in seconds."""


class LoopThread:
    """Runs coroutines for threads that wait for them. Any thread may call; the loop's own must not.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: set[asyncio.Task[None]] = set()
        self._closing = False
        self._open = threading.RLock()  # a finalizer may close an iterator wherever its thread is
        # A daemon: a program that forgets to close its client still ends.
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Tells whether it still takes work."""
        return not self._closing

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop and returns what it returns; an interrupt of the caller cancels it.

        Raises:
            ClientClosed: `close` came first, or meanwhile.
        """
        done: Future[T] = Future()
        try:
            # All of it within the try: an interrupt may come between any two lines.
            self._hand_over(work, done)
            return _result(done)
        finally:
            done.cancel()  # only does something when the caller was interrupted

    def spawn(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Starts `work` on the loop and returns at once; cancelling the future cancels it."""
        done: Future[T] = Future()
        self._hand_over(work, done)
        return done

    def _hand_over(self, work: Coroutine[Any, Any, T], done: Future[T]) -> None:
        with self._open:  # so that whatever is handed over comes before the end, which fails it
            if not self._closing:
                self._loop.call_soon_threadsafe(self._start, work, done)
                return
        work.close()
        raise ClientClosed("the client is closed; make a new one")

    def _start(self, work: Coroutine[Any, Any, T], done: Future[T]) -> None:
        task = self._loop.create_task(_carry(work, done), name=f"call of {threading.current_thread().name}")

        def interrupted(_: Future[T]) -> None:
            if done.cancelled():
                self._loop.call_soon_threadsafe(task.cancel)

        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        done.add_done_callback(interrupted)

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yields what `items` yields on the loop; closing the iterator closes it."""
        # Who is interrupted is gone before the loop has ended what it waited for: the end waits for its turn.
        turn = asyncio.Lock()
        try:
            while True:
                try:
                    item = self.run(_next(items, turn))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            with suppress(ClientClosed):  # closing the thread has closed it, too
                self.run(_close(items, turn))

    def close(self) -> None:
        """Fails what is under way with ClientClosed, stops the loop and ends the thread. Harmless when repeated."""
        with self._open:
            if not self._closing:
                self._closing = True
                self._loop.call_soon_threadsafe(self._end)
        self._thread.join()
        self._loop.close()

    def _end(self) -> None:
        ending = self._loop.create_task(self._end_calls(), name="end of the thread")
        ending.add_done_callback(lambda _: self._loop.stop())

    async def _end_calls(self) -> None:
        left = set(self._calls)
        for _ in range(CANCELS if left else 0):
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
            if not left:
                break
        await self._loop.shutdown_asyncgens()


def _result(done: Future[T]) -> T:
    while True:
        try:
            return done.result(NOTICE_S)
        except TimeoutError:
            if done.done():  # it is the work's own
                return done.result()


async def _carry(work: Coroutine[Any, Any, T], done: Future[T]) -> None:
    try:
        result = await work
    except asyncio.CancelledError:
        if done.set_running_or_notify_cancel():  # nobody took it back: the thread is being closed
            done.set_exception(ClientClosed(CLOSED_MEANWHILE))
        raise
    except BaseException as error:
        if done.set_running_or_notify_cancel():
            done.set_exception(error)
    else:
        if done.set_running_or_notify_cancel():
            done.set_result(result)


async def _next(items: AsyncGenerator[T, None], turn: asyncio.Lock) -> T:
    async with turn:
        return await anext(items)


async def _close(items: AsyncGenerator[Any, None], turn: asyncio.Lock) -> None:
    async with turn:
        await items.aclose()
