"""SQLite: one file, one process, write-ahead log; rows written many to a statement.

How a multi-row statement is put together is in `sqlite_writer`; this is files, locks, settings and errors.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from typing_extensions import override

from taskyard_scheduler.store.migrate import migrate
from taskyard_scheduler.store.port import StoreError, StoreHeld, StoreUnavailable
from taskyard_scheduler.store.sql import Dialect, SqlStore
from taskyard_scheduler.store.sqlite_writer import SqliteWriter

Synchronous = Literal["FULL", "NORMAL"]

BUSY_TIMEOUT_MS: Final = 5_000
CACHE_KIB: Final = 65_536
STATEMENT_CACHE: Final = 512
CHECKPOINT_PAGES: Final = 4_000
"""How far the log grows, 16 MB, before it is folded into the file: a page changes often in that time, and an idle
scheduler's commit meets a checkpoint seldom."""

_RETRIABLE: Final = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT,
sqlite3.SQLITE_PROTOCOL, })  # fmt: skip
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OF_A_ROW: Final = frozenset({
    sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE,
})  # fmt: skip
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full: make room, writing goes on by itself",
    sqlite3.SQLITE_IOERR: "the disk does not read or write: look at the system's log",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: look at its path and permissions",
    sqlite3.SQLITE_READONLY: "the file may not be written: look at its permissions",
    sqlite3.SQLITE_BUSY: "another program is writing to it: end that program",
    sqlite3.SQLITE_LOCKED: "another program is writing to it: end that program",
}


class SqliteDialect(Dialect):
    """What the store needs to know of SQLite."""

    name = "sqlite"
    begin_statement = "BEGIN IMMEDIATE"
    driver_errors = (sqlite3.Error,)
    keepalive = None

    def __init__(self, path: Path, synchronous: Synchronous = "FULL") -> None:
        """Touches nothing yet.

        Args:
            path: the database file; made, with its folder, when it is missing.
            synchronous: FULL keeps every answered commit through a power cut; NORMAL only through the end of
                the process, and may lose the last commits in a power cut.
        """
        self.path = path
        self.writer = SqliteWriter()
        self._synchronous = synchronous
        self._lock: int | None = None
        self._engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)),
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "cached_statements": STATEMENT_CACHE,
                "check_same_thread": False,
                "timeout": BUSY_TIMEOUT_MS / 1000,
            },
        )

    @override
    def hold(self) -> None:
        if self._lock is not None:
            return
        lock_path = self.path.with_name(self.path.name + ".lock")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{lock_path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise StoreHeld(
                f"{self.path} is held by another process (pid {holder}): stop it, or name another database"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    @override
    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)  # the file stays: to delete it would let two processes lock two files of one name

    @override
    def connect(self, *, writes: bool) -> Connection:
        connection = self._engine.connect()
        for pragma in (
            "journal_mode=WAL", f"synchronous={self._synchronous}", f"cache_size=-{CACHE_KIB}",
            f"wal_autocheckpoint={CHECKPOINT_PAGES}",
            "temp_store=MEMORY",
        ):  # fmt: skip
            connection.exec_driver_sql(f"PRAGMA {pragma}").close()  # its row unread would hold a statement open
        return connection

    @override
    def migrate(self, connection: Connection) -> None:
        # No other process holds the file, and a migration that fails half-way is undone as a whole.
        connection.exec_driver_sql("BEGIN EXCLUSIVE")
        try:
            migrate(connection)
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise

    @override
    def settings(self, connection: Connection) -> dict[str, str]:
        levels = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar()
        return {
            "sqlite_version": sqlite3.sqlite_version,
            "journal_mode": str(connection.exec_driver_sql("PRAGMA journal_mode").scalar()),
            "synchronous": levels.get(synchronous or 0, str(synchronous)),
        }

    @override
    def translate(self, raised: Exception) -> StoreError | None:
        origin = raised.orig if isinstance(raised, DBAPIError) else raised
        code = getattr(origin, "sqlite_errorcode", None)
        if code is None:
            # Raised by the driver before SQLite saw anything, as for a value of a type that it does not know.
            return None
        primary = code & 0xFF
        if primary in _RETRIABLE:
            full = primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and self._has_no_room())
            advice = _ADVICE.get(sqlite3.SQLITE_FULL if full else primary, "")
            return StoreUnavailable(f"{self.path}: {advice or 'try again'} ({origin})", advice, full=full)
        if primary in _DAMAGED:
            return StoreError(f"{self.path} is damaged or no database ({origin}): restore it from a backup")
        return None if primary in _OF_A_ROW else StoreError(f"{self.path}: {origin}")

    def _has_no_room(self) -> bool:
        """Tells whether the disk is full: where SQLite maps a file into memory it does not tell that apart."""
        try:
            return os.statvfs(self.path.parent).f_bavail == 0
        except OSError:
            return False


def sqlite_store(path: Path, synchronous: Synchronous = "FULL") -> SqlStore:
    """Returns a store on a database file, not opened yet."""
    return SqlStore(SqliteDialect(path, synchronous))
