"""Log lines of attempts until the scheduler has them: numbered, bounded, each stored once.

Not the worker's own log (structlog). Writing comes from any thread and never waits; sending is
`LogShipper`'s.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from taskyard.v1.tasks_pb2 import LogLine
from taskyard.v1.workers_pb2 import LogChunk, LogChunkAck
from taskyard_worker.context import clean_text

MAX_LINE_BYTES = 64 * 1024
MAX_ATTEMPT_BYTES = 10 * 1024 * 1024
MAX_PENDING_BYTES = 64 * 1024 * 1024
"""Lines of all attempts together that may wait; beyond it new lines are dropped, and a line says how many."""
MAX_CHUNKS = 1000
MAX_CALL_BYTES = 1024 * 1024
"""Size at which a call to the scheduler is closed; the contract allows 4 MiB."""

PART_CHARACTERS = 16 * 1024
"""Text that is given out as it comes is parted and not cut: so many characters are never more than a line may have."""

Piece = tuple[str, str, str, bool]
"""Stream, level, text, and whether the text goes on."""

_CUT_MARK = " … [line cut at 64 KiB]"
_FULL_MARK = "[log cut: this attempt has written 10 MiB; further lines are not kept]"


class AttemptLog:
    """The pending lines of one attempt. `first`: number of the first of them."""

    __slots__ = (
        "accepted_bytes",
        "closed",
        "dropped",
        "ended",
        "first",
        "lines",
        "sizes",
        "task_id",
        "token",
    )

    def __init__(self, task_id: str, token: str) -> None:
        self.task_id = task_id
        self.token = token
        self.first = 0
        self.lines: deque[LogLine] = deque()
        self.sizes: deque[int] = deque()
        self.accepted_bytes = 0
        self.dropped = 0
        self.closed = False
        self.ended = False


class LogBook:
    """The logs of every attempt that has lines to send.

    Args:
        wall: Unix time in milliseconds, for the lines' times.
        wake: Called, from the writing thread, when lines begin to wait.
        dropped: Called with how many lines were just dropped.
    """

    def __init__(self, wall: Callable[[], int], wake: Callable[[], None], dropped: Callable[[int], None]) -> None:
        self._wall = wall
        self._wake = wake
        self._dropped = dropped
        self._lock = threading.Lock()
        self._logs: dict[str, AttemptLog] = {}
        self._pending_bytes = 0
        self._restored: set[str] = set()
        self._restored_sent: Callable[[], None] = lambda: None

    @property
    def empty(self) -> bool:
        """Whether no line waits."""
        return self._pending_bytes == 0

    def append(self, task_id: str, token: str, stream: str, level: str, lines: Sequence[str]) -> None:
        """Add lines; one that contains line ends becomes several."""
        self._append(
            task_id,
            token,
            (
                (stream, level, line, False)
                for text in lines
                for line in (text.split("\n") if "\n" in text else (text,))
            ),
        )

    def append_text(self, task_id: str, token: str, stream: str, text: str) -> None:
        """Add text as it came: what has no line end is a partial line, which the next text goes on from."""
        *whole, rest = text.split("\n")
        pieces: list[Piece] = []
        for line in whole:
            *parts, last = parts_of(line)
            pieces += [(stream, "", part, True) for part in parts]
            pieces.append((stream, "", last, False))
        pieces += [(stream, "", part, True) for part in parts_of(rest) if part]
        self._append(task_id, token, pieces)

    def _append(self, task_id: str, token: str, pieces: Iterable[Piece]) -> None:
        now = self._wall()
        with self._lock:
            log = self._logs.get(token)
            if log is None:
                log = self._logs[token] = AttemptLog(task_id, token)
            was_empty = self._pending_bytes == 0
            for piece in pieces:
                if log.closed or log.accepted_bytes >= MAX_ATTEMPT_BYTES:
                    break
                self._add(log, piece, now)
        if was_empty:
            self._wake()

    def end(self, token: str) -> None:
        """Let the attempt's log go once its lines are sent: no more will come."""
        with self._lock:
            log = self._logs.get(token)
            if log is not None:
                log.ended = True
                self._let_go(log)

    def restore(self, chunks: Iterable[LogChunk], sent: Callable[[], None]) -> None:
        """Take over the lines that an earlier life could not send; `sent` is called once none of them waits."""
        with self._lock:
            for chunk in chunks:
                log = self._logs[chunk.attempt_token] = AttemptLog(chunk.task_id, chunk.attempt_token)
                log.first, log.ended = chunk.first_line, True
                for line in chunk.lines:
                    self._put(log, line, size_of(line.text))
                self._restored.add(log.token)
            self._restored_sent = sent

    def unsent(self) -> list[LogChunk]:
        """Return every line that waits: what a worker that stops keeps for its next start."""
        with self._lock:
            return [
                LogChunk(task_id=log.task_id, attempt_token=log.token, first_line=log.first, lines=log.lines)
                for log in self._logs.values()
                if log.lines
            ]

    def chunks(self) -> list[LogChunk]:
        """Return the next lines to send, as much as one call takes. They stay until `acknowledge`."""
        chunks: list[LogChunk] = []
        size = 0
        with self._lock:
            for log in self._logs.values():
                if not log.lines:
                    continue
                if size >= MAX_CALL_BYTES or len(chunks) >= MAX_CHUNKS:
                    break
                chunk = LogChunk(task_id=log.task_id, attempt_token=log.token, first_line=log.first)
                for line, line_size in zip(log.lines, log.sizes, strict=True):
                    if size >= MAX_CALL_BYTES:
                        break
                    chunk.lines.append(line)
                    size += line_size
                chunks.append(chunk)
        return chunks

    def acknowledge(self, ack: LogChunkAck) -> None:
        """Let go of the lines that the scheduler has."""
        with self._lock:
            log = self._logs.get(ack.attempt_token)
            if log is None:
                return
            stored = len(log.lines) if ack.closed else ack.next_line - log.first
            for _ in range(min(stored, len(log.lines))):
                log.lines.popleft()
                self._pending_bytes -= log.sizes.popleft()
            # The scheduler's count holds, also when it is below ours: it has lost lines, and we go on from there.
            log.first = ack.next_line
            log.closed = log.closed or ack.closed
            self._let_go(log)
            # The one just served goes to the end, so that a talkative attempt does not silence the others.
            if ack.attempt_token in self._logs:
                self._logs[ack.attempt_token] = self._logs.pop(ack.attempt_token)

    def _add(self, log: AttemptLog, piece: Piece, now: int) -> None:
        stream, level, text, partial = piece
        text = cut_line(clean_text(text))
        size = size_of(text)
        if self._pending_bytes + size > MAX_PENDING_BYTES:
            log.dropped += 1
            self._dropped(1)
            return
        if log.dropped:
            note = f"[{log.dropped} lines dropped: they came faster than the scheduler took them]"
            log.dropped = 0
            self._push(log, ("log", "WARNING", note, False), len(note) + 32, now)
        self._push(log, (stream, level, text, partial), size, now)
        if log.accepted_bytes >= MAX_ATTEMPT_BYTES:
            self._push(log, ("log", "WARNING", _FULL_MARK, False), len(_FULL_MARK) + 32, now)

    def _push(self, log: AttemptLog, piece: Piece, size: int, now: int) -> None:
        stream, level, text, partial = piece
        line = LogLine(stream=stream, text=text, level=level, partial=partial)
        line.time.seconds, rest = divmod(now, 1000)
        line.time.nanos = rest * 1_000_000
        self._put(log, line, size)

    def _put(self, log: AttemptLog, line: LogLine, size: int) -> None:
        log.lines.append(line)
        log.sizes.append(size)
        log.accepted_bytes += size
        self._pending_bytes += size

    def _let_go(self, log: AttemptLog) -> None:
        if log.ended and not log.lines:
            del self._logs[log.token]
            if log.token in self._restored:
                self._restored.remove(log.token)
                if not self._restored:
                    self._restored_sent()


def size_of(text: str) -> int:
    """Return the bytes that a line of this text counts as."""
    return (len(text) if text.isascii() else len(text.encode())) + 32


def parts_of(line: str) -> list[str]:
    """Return the parts of a line that are short enough for lines of their own; at least one."""
    return [line[start : start + PART_CHARACTERS] for start in range(0, len(line), PART_CHARACTERS)] or [line]


def cut_line(text: str) -> str:
    """Cut a line at 64 KiB of UTF-8, with a mark."""
    if len(text) * 4 <= MAX_LINE_BYTES:
        return text
    data = text.encode()
    if len(data) <= MAX_LINE_BYTES:
        return text
    return data[: MAX_LINE_BYTES - len(_CUT_MARK.encode())].decode(errors="ignore") + _CUT_MARK
