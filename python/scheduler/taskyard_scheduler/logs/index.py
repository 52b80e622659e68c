"""Where each record stands in the segments, and how far each attempt's log is: a small SQLite file.

It is the log store's own and not a table of the state store: a chatty task must not lengthen the commits of
scheduling state, or swell its database; and unlike that one this file can be made anew, from the segments.
SQLite because the index must survive a kill at any moment, be looked up by key, and not live in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taskyard_scheduler.logs.admission import AttemptLog

VERSION = 1
SCHEMA = """
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, task TEXT NOT NULL, attempt INTEGER NOT NULL,
    next_line INTEGER NOT NULL, size INTEGER NOT NULL, closed INTEGER NOT NULL, UNIQUE (tenant, task, attempt)
);
CREATE TABLE chunks (
    attempt INTEGER NOT NULL, first_line INTEGER NOT NULL, count INTEGER NOT NULL,
    segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY (attempt, first_line)
) WITHOUT ROWID;
CREATE INDEX chunks_by_segment ON chunks (segment);
CREATE TABLE segments (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, live INTEGER NOT NULL);
"""


class NewerIndex(Exception):
    """The index was written by a later version of Taskyard; use that one, or another data directory."""


@dataclass(slots=True)
class Entry:
    """An attempt in the index.

    Attributes:
        number: Its key there.
        log: How far its log is.
    """

    number: int
    log: AttemptLog


@dataclass(frozen=True, slots=True)
class Chunk:
    """Where a record stands.

    Attributes:
        attempt: The attempt's key in the index.
        first_line: Number of its first line.
        count: How many lines it has.
        segment: Number of the segment.
        offset: Where in the segment it begins.
        length: Its bytes.
    """

    attempt: int
    first_line: int
    count: int
    segment: int
    offset: int
    length: int


class Index:
    """The index file. One thread only, the one that made it.

    Args:
        path: The file; made when it is missing.

    Raises:
        NewerIndex: A later version wrote it.
        sqlite3.DatabaseError: It is damaged, or cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._prepare(path)
        except BaseException:
            self._db.close()
            raise

    def _prepare(self, path: Path) -> None:
        # One process has the folder, so no shared memory is needed; NORMAL survives any kill of the process.
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL"):
            self._db.execute(f"PRAGMA {pragma}")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise NewerIndex(f"{path} has version {version}, and this Taskyard knows {VERSION} and earlier")
        if version == 0:
            with self.transaction():
                for statement in SCHEMA.split(";\n"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")
        path.chmod(0o600)
        self._next_number = self._value("SELECT COALESCE(MAX(id), 0) + 1 FROM attempts")

    def close(self) -> None:
        """Lets go of the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits what is done within, all or nothing."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # SQLite has rolled back by itself after some errors, a full disk among them.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def find(self, tenant: str, task: str, attempt: int) -> Entry | None:
        """Returns an attempt's entry, None when it has no lines."""
        row = self._db.execute(
            "SELECT id, next_line, size, closed FROM attempts WHERE tenant = ? AND task = ? AND attempt = ?",
            (tenant, task, attempt),
        ).fetchone()
        return row and Entry(row[0], AttemptLog(row[1], row[2], bool(row[3])))

    def new_number(self) -> int:
        """Returns a key for an attempt that is not in the index yet."""
        self._next_number += 1
        return self._next_number - 1

    def add_attempts(self, rows: Iterable[tuple[str, str, int, Entry]]) -> None:
        """Adds attempts (tenant, task, attempt, entry), or takes over how far their logs are."""
        self._db.executemany(
            "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " next_line = excluded.next_line, size = excluded.size, closed = excluded.closed",
            [(e.number, *key, e.log.next_line, e.log.size, e.log.closed) for *key, e in rows],
        )

    def add_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Adds records of lines that have none yet."""
        self._db.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?)",
            [(c.attempt, c.first_line, c.count, c.segment, c.offset, c.length) for c in chunks],
        )

    def adopt_chunk(self, chunk: Chunk) -> bool:
        """Adds a record found on disk; returns False when its lines have one: then it is a copy."""
        row = (chunk.attempt, chunk.first_line, chunk.count, chunk.segment, chunk.offset, chunk.length)
        added = self._db.execute("INSERT OR IGNORE INTO chunks VALUES (?, ?, ?, ?, ?, ?)", row)
        return added.rowcount > 0

    def chunks_from(self, attempt: int, line: int) -> Iterator[Chunk]:
        """Yields the records of an attempt from the one that holds `line`, in order."""
        rows = self._db.execute(
            "SELECT attempt, first_line, count, segment, offset, length FROM chunks WHERE attempt = ?1 AND"
            " first_line >= COALESCE("
            "(SELECT MAX(first_line) FROM chunks WHERE attempt = ?1 AND first_line <= ?2), 0)"
            " ORDER BY first_line",
            (attempt, line),
        )
        return (Chunk(*row) for row in rows)

    def chunks_in(self, segment: int) -> list[Chunk]:
        """Returns the records of a segment in the order in which they stand."""
        rows = self._db.execute(
            "SELECT attempt, first_line, count, segment, offset, length FROM chunks WHERE segment = ? ORDER BY offset",
            (segment,),
        )
        return [Chunk(*row) for row in rows]

    def move(self, moved: Iterable[tuple[Chunk, int, int]]) -> None:
        """Says of records that they stand elsewhere now: (record, segment, offset)."""
        self._db.executemany(
            "UPDATE chunks SET segment = ?, offset = ? WHERE attempt = ? AND first_line = ?",
            [(segment, offset, c.attempt, c.first_line) for c, segment, offset in moved],
        )

    def delete(self, tenant: str, task: str) -> None:
        """Removes an instance's attempts and records, and counts its bytes as dead."""
        key = (tenant, task)
        mine = "attempt IN (SELECT id FROM attempts WHERE tenant = ? AND task = ?)"
        self._db.executemany(
            "UPDATE segments SET live = live - ? WHERE id = ?",
            self._db.execute(
                f"SELECT SUM(length), segment FROM chunks WHERE {mine} GROUP BY segment",  # noqa: S608  # our own text
                key,
            ).fetchall(),
        )
        self._db.execute(f"DELETE FROM chunks WHERE {mine}", key)  # noqa: S608  # our own text
        self._db.execute("DELETE FROM attempts WHERE tenant = ? AND task = ?", key)

    def segments(self) -> dict[int, tuple[int, int]]:
        """Returns size and live bytes of each segment, oldest first."""
        rows = self._db.execute("SELECT id, size, live FROM segments ORDER BY id")
        return {number: (size, live) for number, size, live in rows}

    def grow(self, segment: int, size: int, live_bytes: int) -> None:
        """Says that a segment is indexed up to `size` and that `live_bytes` more of it are live."""
        self._db.execute(
            "INSERT INTO segments VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " size = excluded.size, live = live + excluded.live",
            (segment, size, live_bytes),
        )

    def forget_segment(self, segment: int) -> None:
        """Removes a segment that has no live record."""
        self._db.execute("DELETE FROM segments WHERE id = ?", (segment,))

    def drop_beyond(self, segment: int, size: int) -> int:
        """Removes the records that a segment's file no longer holds whole; returns how many."""
        beyond = (segment, size)
        hit = self._db.execute(
            "SELECT DISTINCT attempt FROM chunks WHERE segment = ? AND offset + length > ?", beyond
        ).fetchall()
        gone = self._db.execute("DELETE FROM chunks WHERE segment = ? AND offset + length > ?", beyond)
        # Open again: where the mark of a full log is gone, the next line brings it back.
        self._db.executemany(
            "UPDATE attempts SET closed = 0, next_line = COALESCE((SELECT first_line + count FROM chunks"
            " WHERE attempt = ?1 ORDER BY first_line DESC LIMIT 1), 0) WHERE id = ?1",
            hit,
        )
        self._db.executemany("DELETE FROM attempts WHERE id = ? AND next_line = 0", hit)
        return gone.rowcount

    def end_of(self, segment: int) -> int:
        """Returns where a segment's last indexed record ends."""
        return self._value("SELECT COALESCE(MAX(offset + length), 0) FROM chunks WHERE segment = ?", segment)

    def recount_segment(self, segment: int, size: int) -> None:
        """Sets a segment's size, and its live bytes from its records."""
        live = self._value("SELECT COALESCE(SUM(length), 0) FROM chunks WHERE segment = ?", segment)
        self._db.execute("INSERT OR REPLACE INTO segments VALUES (?, ?, ?)", (segment, size, live))

    def _value(self, query: str, *arguments: int) -> int:
        return int(self._db.execute(query, arguments).fetchone()[0])
