"""Reads what a child process prints: as lines for the attempt's log, and its end for the result. Not the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

READ_BYTES = 64 * 1024
LINE_BYTES = 64 * 1024
TAIL_BYTES = 8 * 1024


class OutputReader:
    """Turns the bytes of one pipe into lines. A line without end is given out in parts of 64 KiB.

    Args:
        lines: Told lines, without their ends, as many as came at once.
    """

    def __init__(self, lines: Callable[[Sequence[str]], None]) -> None:
        self._lines = lines
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
        whole, end, rest = data.rpartition(b"\n")
        if end:
            self._lines(split_lines(self._rest + whole))
            self._rest = rest
        else:
            self._rest += data
        while len(self._rest) >= LINE_BYTES:
            self._lines(split_lines(self._rest[:LINE_BYTES]))
            self._rest = self._rest[LINE_BYTES:]

    def finish(self) -> None:
        """Give out a last line without end."""
        if self._rest:
            self._lines(split_lines(self._rest))
            self._rest = b""


def split_lines(data: bytes) -> list[str]:
    """Return the lines, without a carriage return before their end."""
    text = data.decode(errors="replace")
    if "\r" in text:
        return [line.removesuffix("\r") for line in text.split("\n")]
    return text.split("\n")
