"""Which lines of those that a worker sends are kept: new ones, cut where too long, until the attempt is full.

Pure; the same for every log store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taskyard.v1.tasks_pb2 import LogLine

LINE_LIMIT_BYTES = 64 * 1024
ATTEMPT_LIMIT_BYTES = 10 * 1024 * 1024
LABEL_LIMIT = 16
"""Characters of `stream` and `level`, which are words of ours, but come from outside."""
LINE_OVERHEAD_BYTES = 4
"""Counted for each line, so that empty lines fill a log too."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much is kept.

    Attributes:
        line_bytes: Of one line's text, UTF-8, its mark included.
        attempt_bytes: Of all lines of one attempt, but for the last line, which says that it is full.
    """

    line_bytes: int = LINE_LIMIT_BYTES
    attempt_bytes: int = ATTEMPT_LIMIT_BYTES


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """How far the log of one attempt is.

    Attributes:
        next_line: Number of the line that is expected next.
        size: Bytes kept.
        closed: True: full.
    """

    next_line: int = 0
    size: int = 0
    closed: bool = False


def admit(
    log: AttemptLog, first_line: int, lines: Sequence[LogLine], limits: LogLimits
) -> tuple[list[LogLine], AttemptLog]:
    """Returns the lines to keep, the first being number `log.next_line`, and the log with them in it."""
    known = log.next_line - first_line
    if log.closed or known < 0 or known >= len(lines):
        return [], log
    kept: list[LogLine] = []
    size = log.size
    for line in lines[known:]:
        fitting = cut_line(line, limits.line_bytes)
        size += cost(fitting)
        if size > limits.attempt_bytes:
            kept.append(_full(line, limits))
            return kept, AttemptLog(log.next_line + len(kept), size, closed=True)
        kept.append(fitting)
    return kept, AttemptLog(log.next_line + len(kept), size)


def cost(line: LogLine) -> int:
    """Returns how many bytes of an attempt's limit a line takes."""
    return line.ByteSize() + LINE_OVERHEAD_BYTES


def cut_line(line: LogLine, limit_bytes: int) -> LogLine:
    """Returns the line itself when it fits, else a copy that does, with a mark at the end of the text."""
    text, stream, level = line.text, line.stream, line.level
    # A character has at most 4 bytes: most lines need no encoding to be known to fit.
    fits = len(text) * 4 <= limit_bytes or len(text.encode()) <= limit_bytes
    if fits and len(stream) <= LABEL_LIMIT and len(level) <= LABEL_LIMIT:
        return line
    copy = LogLine(stream=stream[:LABEL_LIMIT], level=level[:LABEL_LIMIT], text=text, partial=line.partial)
    if line.HasField("time"):
        copy.time.CopyFrom(line.time)
    if not fits:
        encoded = text.encode()
        mark = f"... [cut: the line has {len(encoded):,} bytes]"
        copy.text = encoded[: max(0, limit_bytes - len(mark))].decode(errors="ignore") + mark
    return copy


def _full(line: LogLine, limits: LogLimits) -> LogLine:
    text = (
        f"[log truncated: this attempt has written more than {limits.attempt_bytes:,} bytes;"
        " nothing from this line on is kept]"
    )
    mark = LogLine(stream="log", level="WARNING", text=text)
    if line.HasField("time"):
        mark.time.CopyFrom(line.time)
    return mark
