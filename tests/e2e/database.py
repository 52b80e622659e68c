"""Looks into the scheduler's database by SQL of its own, so that the check does not trust the code it checks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import pymysql


class Database(Protocol):
    """A connection that only reads, unless a test breaks something on purpose."""

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Returns the rows of a query by column."""
        ...

    def run(self, sql: str) -> None:
        """Carries out a statement."""

    def close(self) -> None:
        """Ends the connection."""


class SqliteDatabase:
    """The file of an embedded scheduler."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, timeout=10, isolation_level=None)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        cursor = self._connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def run(self, sql: str) -> None:
        self._connection.execute(sql)

    def close(self) -> None:
        self._connection.close()


class MariaDatabase:
    """A database of a MariaDB server."""

    def __init__(self, host: str, port: int, user: str, name: str) -> None:
        self._connection = pymysql.connect(host=host, port=port, user=user, database=name, autocommit=True)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            names = [column[0] for column in cursor.description]
            found: Sequence[Sequence[Any]] = cursor.fetchall()
            return [dict(zip(names, row, strict=True)) for row in found]

    def run(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)

    def close(self) -> None:
        self._connection.close()


def open_database(url: str) -> Database:
    """Opens the database of a scheduler's setting."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return SqliteDatabase(url.removeprefix("sqlite:///"))
    return MariaDatabase(parts.hostname or "", parts.port or 3306, parts.username or "", parts.path.strip("/"))
