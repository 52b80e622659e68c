"""Log lines in segment files with their index: the whole store, synchronously, for one thread.

Who waits for it and who is woken is filestore.py's business.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from taskyard.v1.tasks_pb2 import LogLine, StoredLogLine
from taskyard_scheduler.logs.admission import AttemptLog, LogLimits, admit, cost
from taskyard_scheduler.logs.index import Chunk, Entry, Index, NewerIndex
from taskyard_scheduler.logs.port import READ_LIMIT_BYTES, Appended, LogPage, LogStoreUnavailable
from taskyard_scheduler.logs.record import Record, decode, pack, unpack
from taskyard_scheduler.logs.recovery import recover
from taskyard_scheduler.logs.segments import Segments

SEGMENT_LIMIT_BYTES = 64 * 1024 * 1024
"""A segment is sealed on passing this."""
CACHE_LIMIT = 10_000
"""Attempts whose position is remembered."""
COMPACT_BELOW_PERCENT = 30
"""A sealed segment with fewer live bytes than this is written anew."""

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Append:
    """A wish to keep lines; see LogStore.append."""

    tenant: str
    task_id: str
    attempt: int
    first_line: int
    lines: Sequence[LogLine]


class Archive:
    """Segments and index of one folder, locked for this process.

    Args:
        folder: Made when it is missing.
        log: Told of repairs.
        limits: How much of an attempt is kept.
        segment_bytes: When a segment is sealed.

    Raises:
        LogStoreUnavailable: Another process has the folder, or it cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        log: FilteringBoundLogger,
        limits: LogLimits,
        segment_bytes: int = SEGMENT_LIMIT_BYTES,
    ) -> None:
        self._folder = folder
        self._log = log
        self._limits = limits
        self._segment_bytes = segment_bytes
        self._positions: OrderedDict[Key, Entry] = OrderedDict()
        with _failures(f"open the log store in {folder}"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with ExitStack() as opened:
                opened.callback(os.close, _lock(folder))
                self._segments = Segments(folder / "segments")
                opened.callback(self._segments.close)
                self._index = _open_index(folder, log)
                opened.callback(self._index.close)
                recover(self._segments, self._index, log)
                self._segments.open_for_append(max(self._segments.numbers(), default=1))
                self._reclaim()
                self._files = opened.pop_all()

    def close(self) -> None:
        """Lets go of every file, and of the folder."""
        with _failures("close the log store"):
            self._files.close()

    def append(self, batch: Sequence[Append]) -> list[Appended]:
        """Keeps what is new in each wish, all in one write and one transaction; answers in the same order.

        Raises:
            LogStoreUnavailable: Nothing of the batch was kept.
        """
        with _failures("keep log lines"):
            return self._append(batch)

    def read(self, tenant: str, task_id: str, attempt: int, after_line: int, limit: int) -> LogPage:
        """See LogStore.read.

        Raises:
            LogStoreUnavailable: The files cannot be read.
        """
        with _failures("read log lines"):
            entry = self._find((tenant, task_id, attempt))
            if entry is None:
                return LogPage([], more=False)
            return self._read(entry, attempt, max(0, after_line + 1), limit)

    def delete(self, tenant: str, task_ids: Sequence[str]) -> None:
        """See LogStore.delete.

        Raises:
            LogStoreUnavailable: Some may be left.
        """
        with _failures("delete logs"):
            with self._index.transaction():
                for task_id in task_ids:
                    self._index.delete(tenant, task_id)
            gone = {(tenant, task_id) for task_id in task_ids}
            for key in [key for key in self._positions if key[:2] in gone]:
                del self._positions[key]
            self._reclaim()

    def _append(self, batch: Sequence[Append]) -> list[Appended]:
        if self._segments.active_size >= self._segment_bytes:
            self._segments.open_for_append(self._segments.active + 1)
        changed: dict[Key, Entry] = {}
        records: list[tuple[int, Record]] = []
        answers = []
        for wish in batch:
            key = (wish.tenant, wish.task_id, wish.attempt)
            entry = changed.get(key) or self._find(key)
            lines, log = admit(entry.log if entry else AttemptLog(), wish.first_line, wish.lines, self._limits)
            answers.append(Appended(log.next_line, log.closed))
            if lines:
                number = entry.number if entry else self._index.new_number()
                first = log.next_line - len(lines)
                records += [(number, record) for record in pack(*key, first, lines, closed=log.closed)]
                changed[key] = Entry(number, log)
        if records:
            self._write(records, changed)
        return answers

    def _write(self, records: list[tuple[int, Record]], changed: dict[Key, Entry]) -> None:
        encoded = [record.encode() for _, record in records]
        data = b"".join(encoded)
        start = offset = self._segments.append(data)
        segment = self._segments.active
        chunks = []
        for (number, record), piece in zip(records, encoded, strict=True):
            chunks.append(Chunk(number, record.first_line, record.count, segment, offset, len(piece)))
            offset += len(piece)
        try:
            with self._index.transaction():
                self._index.add_attempts((*key, entry) for key, entry in changed.items())
                self._index.add_chunks(chunks)
                self._index.grow(segment, offset, len(data))
        except BaseException:
            self._segments.take_back(start)
            raise
        for key, entry in changed.items():
            self._remember(key, entry)

    def _read(self, entry: Entry, attempt: int, first: int, limit: int) -> LogPage:
        page: list[StoredLogLine] = []
        size = 0
        for chunk in self._index.chunks_from(entry.number, first):
            for number, line in self._lines(chunk):
                if number < first:
                    continue
                size += cost(line)
                if len(page) >= limit or (page and size > READ_LIMIT_BYTES):
                    return LogPage(page, more=True)
                page.append(StoredLogLine(attempt=attempt, line=number, content=line))
        return LogPage(page, more=False)

    def _lines(self, chunk: Chunk) -> Iterator[tuple[int, LogLine]]:
        found = decode(self._segments.read(chunk.segment, chunk.offset, chunk.length))
        if found is not None:
            yield from enumerate(unpack(found[0].payload), chunk.first_line)
            return
        self._log.error("log lines damaged on disk", segment=chunk.segment, offset=chunk.offset)
        last = chunk.first_line + chunk.count - 1
        text = f"[lines {chunk.first_line} to {last} were damaged on the scheduler's disk and are lost]"
        yield last, LogLine(stream="log", level="ERROR", text=text)

    def _find(self, key: Key) -> Entry | None:
        entry = self._positions.get(key)
        if entry is None:
            entry = self._index.find(*key)
            if entry is not None:
                self._remember(key, entry)
        else:
            self._positions.move_to_end(key)
        return entry

    def _remember(self, key: Key, entry: Entry) -> None:
        self._positions[key] = entry
        self._positions.move_to_end(key)
        if len(self._positions) > CACHE_LIMIT:
            self._positions.popitem(last=False)

    def _reclaim(self) -> None:
        """Removes sealed segments without live records, and writes anew those with few."""
        for number, (size, live) in self._index.segments().items():
            if number == self._segments.active:
                continue
            if 0 < live < size * COMPACT_BELOW_PERCENT // 100:
                self._move_out(number)
                live = 0
            if live <= 0:
                # In this order: a file that the index has forgotten would be indexed anew at the next start.
                self._segments.remove(number)
                with self._index.transaction():
                    self._index.forget_segment(number)

    def _move_out(self, number: int) -> None:
        """Copies a segment's live records to the active one."""
        pieces: list[bytes] = []
        moved: list[tuple[Chunk, int, int]] = []
        offset = self._segments.active_size
        for chunk in self._index.chunks_in(number):
            pieces.append(self._segments.read(chunk.segment, chunk.offset, chunk.length))
            moved.append((chunk, self._segments.active, offset))
            offset += chunk.length
        data = b"".join(pieces)
        start = self._segments.append(data)
        try:
            with self._index.transaction():
                self._index.move(moved)
                self._index.grow(self._segments.active, offset, len(data))
        except BaseException:
            self._segments.take_back(start)
            raise


def _lock(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise LogStoreUnavailable(
            f"the log store in {folder} is in use by another process; stop that one, or give this one another"
            " data directory"
        ) from None
    return lock


def _open_index(folder: Path, log: FilteringBoundLogger) -> Index:
    """Opens the index; one that is damaged is put aside, and recovery makes it anew."""
    path = folder / "index.db"
    try:
        return Index(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        log.error("the index of the log store is damaged, making it anew", path=str(path), error=str(error))
        path.rename(path.with_suffix(".damaged"))
        for rest in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        return Index(path)


@contextmanager
def _failures(what: str) -> Iterator[None]:
    """Says failures of disk and index as LogStoreUnavailable."""
    try:
        yield
    except NewerIndex as error:
        raise LogStoreUnavailable(f"cannot {what}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise LogStoreUnavailable(f"cannot {what}: {reason}; see to the disk and its free space") from error
    except sqlite3.OperationalError as error:
        raise LogStoreUnavailable(f"cannot {what}: {error}; see to the disk and its free space") from error
    except sqlite3.DatabaseError as error:
        raise LogStoreUnavailable(
            f"cannot {what}: {error}; stop the scheduler and delete the log store's index.db: it is made anew"
        ) from error
