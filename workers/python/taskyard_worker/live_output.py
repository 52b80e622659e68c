"""What a handler gives out as it comes: gathered, so that its pieces are few, and soon sent, so that they are quick.

Not the log that the pieces become lines of (`logbook`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

GATHER_S = 0.1
"""Pieces leave at most so often; the first at once."""
MAX_GATHERED = 16 * 1024
"""Characters that leave without waiting."""


class LiveOutput:
    """The stream `output` of one attempt. May be written to from any thread.

    Args:
        loop: The worker's event loop.
        send: Told pieces of the text in their order, from the loop's or the writer's thread.
    """

    __slots__ = ("_armed", "_gathered", "_lock", "_loop", "_send", "_sent_at", "_size")

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[str], None]) -> None:
        self._loop = loop
        self._send = send
        self._lock = threading.Lock()  # held while a piece is sent: their order is that of the writing
        self._gathered: list[str] = []
        self._size = 0
        self._sent_at = -GATHER_S
        self._armed = False

    def write(self, text: str) -> None:
        """Give out text; it is on its way within a tenth of a second. Never waits."""
        with self._lock:
            self._gathered.append(text)
            self._size += len(text)
            due = self._sent_at + GATHER_S
            if self._size >= MAX_GATHERED or self._loop.time() >= due:
                self._flush()
            elif not self._armed:
                self._armed = True
                self._loop.call_soon_threadsafe(self._loop.call_at, due, self._due)

    def flush(self) -> None:
        """Send what has gathered."""
        with self._lock:
            self._flush()

    def _due(self) -> None:
        with self._lock:
            self._armed = False
            self._flush()

    def _flush(self) -> None:
        if self._gathered:
            text = "".join(self._gathered)
            self._gathered.clear()
            self._size = 0
            self._sent_at = self._loop.time()
            self._send(text)
