"""Waits for the ends of tasks: everybody who waits shares a few WatchTasks streams.

Idle, a task is watched at once. Tasks that come while streams are being opened share the next one; where
there are many streams, the smallest goes into a new one. A cut stream goes on from the revision it reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from itertools import islice
from typing import Protocol

from taskyard.v1.tasks_pb2 import TaskInstance, TaskStatus, WatchTasksRequest, WatchTasksResponse
from taskyard_client.background import Background
from taskyard_client.calls import Caller
from taskyard_client.errors import ClientClosed, Gone, InvalidInput, NotFound, Violation, own_copy
from taskyard_client.methods import WATCH_TASKS

MAX_IDS = 10_000
"""Most tasks that one stream watches, by the contract."""

MAX_STREAMS = 16
"""Above so many streams, the smallest is joined with the next one, unless that would pass MAX_IDS."""

MAX_OPENING = 2
"""Most streams that have not brought anything yet; new tasks wait for one of them and then go together."""

_EMPTY = "it is empty; give the id of a task"

ENDED = frozenset(
    {
        TaskStatus.TASK_STATUS_SUCCESS,
        TaskStatus.TASK_STATUS_FAILED,
        TaskStatus.TASK_STATUS_TIMEOUT,
        TaskStatus.TASK_STATUS_CANCELLED,
        TaskStatus.TASK_STATUS_SKIPPED,
    }
)
"""In what an instance can end."""


class Waiter(Protocol):
    """Someone who waits for tasks."""

    def ended(self, task_id: str, task: TaskInstance) -> None:
        """One of them has ended."""

    def failed(self, task_id: str, error: Exception) -> None:
        """One of them cannot be watched any longer."""


class _Stream:
    """One stream. Ids are kept in a dict for its order: a set's differs from process to process."""

    __slots__ = ("asked", "ids", "opened", "revision", "task")

    def __init__(self, ids: dict[str, None]) -> None:
        self.ids = ids
        self.asked: frozenset[str] = frozenset()
        self.revision = 0
        self.opened = False
        self.task: asyncio.Task[None] | None = None


class TaskWatcher:
    """Watches tasks for those who wait for them.

    Args:
        caller: Opens the streams.
        background: Owns the tasks that read them.
    """

    def __init__(self, caller: Caller, background: Background) -> None:
        self._caller = caller
        self._background = background
        self._waiters: dict[str, tuple[Waiter, ...]] = {}
        self._pending: dict[str, object] = {}
        self._stream_of: dict[str, _Stream] = {}
        self._streams: dict[_Stream, None] = {}
        self._planned = False
        self._closed = False

    def watch(self, ids: Iterable[str], waiter: Waiter) -> None:
        """Tells `waiter` once of each of `ids`, from a later turn of the loop.

        Raises:
            ClientClosed: `close` came first.
            InvalidInput: An id is empty.
        """
        if self._closed:
            raise ClientClosed("the client is closed; make a new one")
        new = dict.fromkeys(ids, (waiter,))
        if "" in new:  # the scheduler would refuse the whole stream, and with it the others who share it
            raise InvalidInput(_EMPTY, [Violation("task_id", _EMPTY)])
        for task_id in new.keys() & self._waiters.keys():
            self._waiters[task_id] += (waiter,)
            del new[task_id]
        self._waiters.update(new)
        self._pending.update(new)
        self._plan()

    def forget(self, ids: Iterable[str], waiter: Waiter) -> None:
        """Takes back `watch` for those of `ids` that have not ended."""
        for task_id in ids:
            waiters = self._waiters.get(task_id, ())
            if waiter not in waiters:
                continue
            left = tuple(each for each in waiters if each is not waiter)
            if left:
                self._waiters[task_id] = left
            else:
                self._drop(task_id)

    def close(self) -> None:
        """Fails everyone who waits. The streams are their owner's to end."""
        self._closed = True
        for task_id in list(self._waiters):
            self._fail(task_id, ClientClosed("the client was closed while this was waited for"))

    def _drop(self, task_id: str) -> None:
        del self._waiters[task_id]
        self._pending.pop(task_id, None)
        stream = self._stream_of.pop(task_id, None)
        if stream is not None:
            stream.ids.pop(task_id, None)
            if not stream.ids:
                self._end(stream)

    def _fail(self, task_id: str, error: Exception) -> None:
        waiters = self._waiters.pop(task_id, ())
        self._pending.pop(task_id, None)
        self._stream_of.pop(task_id, None)
        for waiter in waiters:
            waiter.failed(task_id, own_copy(error))

    def _plan(self) -> None:
        # At the end of this turn of the loop, so that tasks submitted together are watched together.
        if self._pending and not self._planned and self._opening() < MAX_OPENING:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._open_pending)

    def _opening(self) -> int:
        return sum(not stream.opened for stream in self._streams)

    def _open_pending(self) -> None:
        self._planned = False
        while self._pending and self._opening() < MAX_OPENING and not self._closed:
            ids = dict.fromkeys(islice(self._pending, MAX_IDS))
            for task_id in ids:
                del self._pending[task_id]
            self._start(ids | self._smallest(MAX_IDS - len(ids)))

    def _smallest(self, room: int) -> dict[str, None]:
        if len(self._streams) < MAX_STREAMS:
            return {}
        stream = min(self._streams, key=lambda each: len(each.ids))
        return self._end(stream) if len(stream.ids) <= room else {}

    def _end(self, stream: _Stream) -> dict[str, None]:
        ids, stream.ids = stream.ids, {}
        self._streams.pop(stream, None)
        if stream.task is not None:
            stream.task.cancel()
        return ids

    def _start(self, ids: dict[str, None]) -> None:
        stream = _Stream(ids)
        self._stream_of.update(dict.fromkeys(ids, stream))
        self._streams[stream] = None
        stream.task = self._background.start(self._follow(stream), f"watch of {len(ids)} tasks")

    async def _follow(self, stream: _Stream) -> None:
        try:
            await self._read(stream)
        except NotFound as error:
            self._split(stream, error)
        except Gone:
            ids, stream.ids = stream.ids, {}
            self._start(ids)  # anew, from the present state
        except Exception as error:  # whatever it is, it belongs to those who wait and not to this task
            for task_id in list(stream.ids):
                self._fail(task_id, error)
        finally:
            self._streams.pop(stream, None)
            if not self._closed:
                self._plan()

    async def _read(self, stream: _Stream) -> None:
        def request() -> WatchTasksRequest:
            stream.asked = frozenset(stream.ids)
            return WatchTasksRequest(task_ids=stream.ids, after_revision=stream.revision)

        changes = self._caller.stream(WATCH_TASKS, request, lambda: not stream.ids)
        async with aclosing(changes):
            async for change in changes:
                self._take(stream, change)
                if not stream.ids:
                    return
                if not stream.opened:
                    stream.opened = True
                    self._plan()

    def _take(self, stream: _Stream, change: WatchTasksResponse) -> None:
        ids = stream.ids
        for task in change.tasks:
            if task.status in ENDED and (task_id := task.task_id) in ids:
                del ids[task_id]
                self._stream_of.pop(task_id, None)
                for waiter in self._waiters.pop(task_id, ()):
                    waiter.ended(task_id, task)
        stream.revision = change.revision

    def _split(self, stream: _Stream, error: NotFound) -> None:
        """One id is not known, and the others of the stream are not to suffer for it."""
        ids, stream.ids = list(stream.ids), {}
        unknown = error.facts.get("task_id", "")
        if unknown in stream.asked:
            self._fail(unknown, error)
            parts = [[task_id for task_id in ids if task_id != unknown]]
        elif len(ids) == 1:
            self._fail(ids[0], error)
            parts = []
        else:
            parts = [ids[: len(ids) // 2], ids[len(ids) // 2 :]]
        for part in parts:
            if part:
                self._start(dict.fromkeys(part))


class OneTask:
    """Waits for one task."""

    def __init__(self) -> None:
        self.future: asyncio.Future[TaskInstance] = asyncio.get_running_loop().create_future()

    def ended(self, task_id: str, task: TaskInstance) -> None:
        """See Waiter.ended."""
        if not self.future.done():
            self.future.set_result(task)

    def failed(self, task_id: str, error: Exception) -> None:
        """See Waiter.failed."""
        if not self.future.done():
            self.future.set_exception(error)


class ManyTasks:
    """Waits for many tasks at the cost of few: one future for all of them.

    Args:
        ids: The tasks, each once.

    Attributes:
        ends: Those that have ended, by id.
        missing: How many have not.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self.ends: dict[str, TaskInstance] = {}
        self.missing = len(set(ids))
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ended(self, task_id: str, task: TaskInstance) -> None:
        """See Waiter.ended."""
        self.ends[task_id] = task
        self.missing -= 1
        if not self.missing and not self.future.done():
            self.future.set_result(None)

    def failed(self, task_id: str, error: Exception) -> None:
        """See Waiter.failed."""
        if not self.future.done():
            self.future.set_exception(error)
