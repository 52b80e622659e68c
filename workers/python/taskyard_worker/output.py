"""Reads what a child process prints: as lines for the attempt's log, and its end for the result. Not the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

READ_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024
TAIL_BYTES = 8 * 1024


class OutputReader:
    """Turns the bytes of one pipe into lines. A line without end is given out in parts of 64 KiB.

    Args:
        line: Told each line, without its end.
    """

    def __init__(self, line: Callable[[str], None]) -> None:
        self._line = line
        self._rest = b""
        self._tail = b""

    @property
    def tail(self) -> str:
        """The last 8 KiB."""
        return self._tail.decode(errors="replace")

    async def read(self, pipe: asyncio.StreamReader) -> None:
        """Read until the pipe ends."""
        while data := await pipe.read(READ_BYTES):
            self.feed(data)
        self.finish()

    def feed(self, data: bytes) -> None:
        """Take in what was read."""
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._give(line)
        while len(self._rest) >= LINE_BYTES:
            self._give(self._rest[:LINE_BYTES])
            self._rest = self._rest[LINE_BYTES:]

    def finish(self) -> None:
        """Give out a last line without end."""
        if self._rest:
            self._give(self._rest)
            self._rest = b""

    def _give(self, line: bytes) -> None:
        self._line(line.removesuffix(b"\r").decode(errors="replace"))
