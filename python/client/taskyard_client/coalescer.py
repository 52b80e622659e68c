"""Gathers single items of concurrent callers into calls that take lists; nobody waits for company.

Idle, an item goes at once. What arrives while calls are in flight goes together in the next. Knows nothing of
tasks and runs: what is sent, how large it is and what comes back are given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from taskyard_client.background import Background
from taskyard_client.errors import CLOSED_MEANWHILE, ClientClosed, DeadlineExceeded, ServerError, own_copy

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MAX_ITEMS = 512
"""Most items of one call."""

MAX_BYTES = 4 << 20
"""A call closes when it would pass this size; a larger item travels alone."""

MAX_IN_FLIGHT = 2
"""Most calls under way at once: one being committed, one on its way. More would only make them smaller."""


class _Entry(Generic[Item, Outcome]):
    __slots__ = ("deadline", "future", "item", "size")

    def __init__(self, item: Item, size: int, deadline: float, future: asyncio.Future[Outcome]) -> None:
        self.item = item
        self.size = size
        self.deadline = deadline
        self.future = future


class Coalescer(Generic[Item, Outcome]):
    """Gathers items into calls.

    Args:
        name: For the names of its tasks.
        send: Makes one call with a list and a timeout in seconds; returns an outcome for each, in order.
        size: Tells an item's bytes.
        background: Owns the calls.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[list[Item], float], Awaitable[Sequence[Outcome]]],
        size: Callable[[Item], int],
        background: Background,
    ) -> None:
        self._name = name
        self._send = send
        self._size = size
        self._background = background
        self._waiting: deque[_Entry[Item, Outcome]] = deque()
        self._in_flight = 0
        self._launching = False
        self._closed = False

    async def add(self, item: Item, timeout: float) -> Outcome:
        """Sends one item and returns its outcome.

        Args:
            item: What to send.
            timeout: Seconds, waiting for a call included.

        Raises:
            TaskyardError: The call that carried it failed.
            ClientClosed: `close` came first.
        """
        if self._closed:
            raise ClientClosed("the client is closed; make a new one")
        loop = asyncio.get_running_loop()
        entry: _Entry[Item, Outcome] = _Entry(item, self._size(item), loop.time() + timeout, loop.create_future())
        self._waiting.append(entry)
        self._plan(loop)
        return await entry.future

    def close(self) -> None:
        """Fails what waits. Calls under way are their owner's to end."""
        self._closed = True
        while self._waiting:
            _fail(self._waiting.popleft(), ClientClosed("the client was closed before this was sent"))

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        # At the end of this turn of the loop, so that callers woken together go together.
        if self._waiting and not self._launching and self._in_flight < MAX_IN_FLIGHT:
            self._launching = True
            loop.call_soon(self._launch)

    def _launch(self) -> None:
        self._launching = False
        while self._in_flight < MAX_IN_FLIGHT and (batch := self._take()):
            self._in_flight += 1
            self._background.start(self._fly(batch), f"{self._name} of {len(batch)}")

    def _take(self) -> list[_Entry[Item, Outcome]]:
        batch: list[_Entry[Item, Outcome]] = []
        size = 0
        while self._waiting and len(batch) < MAX_ITEMS:
            entry = self._waiting[0]
            if batch and size + entry.size > MAX_BYTES:
                break
            self._waiting.popleft()
            if not entry.future.done():  # done: its caller was cancelled, nobody wants it sent
                batch.append(entry)
                size += entry.size
        return batch

    async def _fly(self, batch: list[_Entry[Item, Outcome]]) -> None:
        loop = asyncio.get_running_loop()
        try:
            # The one that has waited longest says how long; who has time left then goes into the next call.
            timeout = max(min(entry.deadline for entry in batch) - loop.time(), 0.001)
            outcomes = await self._send([entry.item for entry in batch], timeout)
            _deliver(batch, outcomes, self._name)
        except DeadlineExceeded as error:
            self._again(batch, loop.time(), error)
        except asyncio.CancelledError:
            for entry in batch:
                _fail(entry, ClientClosed(CLOSED_MEANWHILE))
            raise
        except Exception as error:  # whatever it is, it belongs to the callers and not to this task
            for entry in batch:
                _fail(entry, own_copy(error))
        finally:
            self._in_flight -= 1
            self._plan(loop)

    def _again(self, batch: list[_Entry[Item, Outcome]], now: float, error: DeadlineExceeded) -> None:
        for entry in reversed(batch):
            if self._closed or entry.deadline <= now + 0.001:
                _fail(entry, own_copy(error))
            else:
                self._waiting.appendleft(entry)


def _deliver(batch: Sequence[_Entry[Item, Outcome]], outcomes: Sequence[Outcome], name: str) -> None:
    if len(outcomes) != len(batch):
        raise ServerError(f"{name}: {len(batch)} items were sent and {len(outcomes)} outcomes came back")
    for entry, outcome in zip(batch, outcomes, strict=True):
        if not entry.future.done():
            entry.future.set_result(outcome)


def _fail(entry: _Entry[Item, Outcome], error: BaseException) -> None:
    if not entry.future.done():
        entry.future.set_exception(error)
