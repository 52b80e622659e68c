"""The scheduler's end of a worker's stream: frames wait here until the transport takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from taskyard.v1 import workers_pb2 as pb


class WorkerStream:
    """Frames on their way to one worker, and the reason why the stream ends.

    The leader puts frames in; the transport takes them all at once. What the credits allow bounds it.
    """

    __slots__ = ("_closed", "_event", "_frames", "worker_id")

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self._frames: list[pb.AssignTaskResponse] = []
        self._closed: str | None = None
        self._event = asyncio.Event()

    def send(self, frames: Sequence[pb.AssignTaskResponse]) -> None:
        """Adds frames. After `close` they are dropped: the worker will be told anew on its next stream."""
        if self._closed is None and frames:
            self._frames += frames
            self._event.set()

    def close(self, reason: str) -> None:
        """Ends the stream once the frames before have been taken. The first reason counts."""
        if self._closed is None:
            self._closed = reason
            self._event.set()

    @property
    def closed(self) -> str | None:
        """Why the stream ended; None while it is open."""
        return self._closed

    async def take(self) -> list[pb.AssignTaskResponse]:
        """Returns all frames that wait, at least one; none once the stream is closed."""
        await self._event.wait()
        frames = self._frames
        self._frames = []
        if self._closed is None:
            self._event.clear()
        return frames
