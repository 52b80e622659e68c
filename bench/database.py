"""The database under a benchmark's scheduler: SQLite in the data directory, or a private MariaDB."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol

import psutil
import pymysql
from servers import MariaDB

from bench.child import cpu_s
from taskyard_scheduler.store.open import open_store

COUNT_TASKS = "SELECT state, COUNT(*) FROM instances GROUP BY state"
COUNT_RUNS = "SELECT state, COUNT(*) FROM runs GROUP BY state"


class Database(Protocol):
    """Where the scheduler keeps its state."""

    def environ(self) -> dict[str, str]:
        """Returns the variables that tell the scheduler of it; none where the default is meant."""
        ...

    def start(self) -> None:
        """Starts its server, if it has one."""

    def stop(self) -> None:
        """Stops its server. Harmless when it does not run."""

    def cpu_s(self) -> float:
        """Returns its server's processor time, in seconds; 0 where it runs inside the scheduler."""
        ...

    def count(self, query: str) -> dict[int, int]:
        """Asks the database itself, with the scheduler stopped: how many rows are in which state."""
        ...

    async def settings(self) -> dict[str, str]:
        """Returns what decides how durable a commit is, as the scheduler's own store reports it."""
        ...


class Sqlite:
    """SQLite, where the scheduler puts it when nothing is said."""

    def __init__(self, folder: Path, synchronous: Literal["", "NORMAL"] = "") -> None:
        """Touches nothing.

        Args:
            folder: The scheduler's data directory.
            synchronous: `NORMAL` for less than the default.
        """
        self._path = folder / "taskyard.db"
        self._synchronous = synchronous

    def environ(self) -> dict[str, str]:
        """See Database."""
        return {"TASKYARD_SYNCHRONOUS": self._synchronous} if self._synchronous else {}

    def start(self) -> None:
        """See Database."""

    def stop(self) -> None:
        """See Database."""

    def cpu_s(self) -> float:
        """See Database."""
        return 0.0

    def count(self, query: str) -> dict[int, int]:
        """See Database."""
        with closing(sqlite3.connect(self._path)) as connection:
            return dict(connection.execute(query).fetchall())

    async def settings(self) -> dict[str, str]:
        """See Database."""
        store = open_store(f"sqlite:///{self._path}", synchronous="NORMAL" if self._synchronous else "FULL")
        await store.open()
        try:
            return {"database": store.name, **await store.settings()}
        finally:
            await store.close()


class PrivateMariaDB:
    """A MariaDB of the benchmark's own, with an empty database."""

    def __init__(self, folder: Path) -> None:
        """Makes its data directory, which takes some seconds."""
        self._server = MariaDB(folder / "mariadb")
        self._url = ""

    def environ(self) -> dict[str, str]:
        """See Database."""
        return {"TASKYARD_DATABASE": self._url}

    def start(self) -> None:
        """See Database."""
        self._server.start()
        self._url = self._server.create_database()

    def stop(self) -> None:
        """See Database."""
        self._server.stop()

    def cpu_s(self) -> float:
        """See Database."""
        process = self._server.process
        return cpu_s(psutil.Process(process.pid)) if process else 0.0

    def count(self, query: str) -> dict[int, int]:
        """See Database."""
        name = self._url.rpartition("/")[2]
        with closing(self._connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return dict(cursor.fetchall())

    def _connect(self, name: str) -> pymysql.Connection:
        connection = self._server.connect()
        connection.select_db(name)
        return connection

    async def settings(self) -> dict[str, str]:
        """See Database."""
        store = open_store(self._url)
        await store.open()
        try:
            return {"database": store.name, **await store.settings()}
        finally:
            await store.close()
