"""SQLite's multi-row statements.

Python's sqlite3 gives up the interpreter lock for each row of an executemany, and under load waits for it
each time: up to 5 ms a row. So many rows go into one statement, and few different statements are used, so
that each is compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from typing_extensions import override

from taskyard_core.records import Row
from taskyard_scheduler.store.writes import MissingRows, Step, Writer

PARAMETERS: Final = 32_766
"""SQLite's own default of SQLITE_MAX_VARIABLE_NUMBER; distributions raise it, none lowers it."""

ROWS: Final = 1_024
"""The most rows in one statement. More gains nothing, and a compiled statement takes a kilobyte a row."""

_TAKEN = re.compile(r"UNIQUE constraint failed: .*\.(\w+)$")


class SqliteWriter(Writer):
    """Writes rows with INSERT ... VALUES, and UPDATE ... FROM (VALUES ...)."""

    prove = "UPDATE cluster SET revision = ? WHERE term = ? AND revision = ?"

    @override
    def delete(self, connection: Connection, step: Step, rows: Sequence[Row]) -> None:
        for count, part in _chunks(rows, len(step.columns)):
            for table in (step.table, *step.also):
                connection.exec_driver_sql(_delete(step, table.name, count), part)

    @override
    def insert(self, connection: Connection, step: Step, rows: Sequence[Row]) -> None:
        for count, part in _chunks(rows, len(step.columns)):
            connection.exec_driver_sql(_insert(step, count), part)

    @override
    def upsert(self, connection: Connection, step: Step, rows: Sequence[Row]) -> None:
        for count, part in _chunks(rows, len(step.columns)):
            connection.exec_driver_sql(_upsert(step, count), part)

    @override
    def update(self, connection: Connection, step: Step, rows: Sequence[Row]) -> None:
        for count, part in _chunks(rows, len(step.columns)):
            if connection.exec_driver_sql(_update(step, count), part).rowcount != count:
                raise MissingRows

    @override
    def reason(self, raised: Exception) -> str:
        if isinstance(raised, MissingRows):
            return "there is no such row"
        words = str(raised.orig if isinstance(raised, sa.exc.DBAPIError) else raised)
        taken = _TAKEN.search(words)
        return f"{taken[1]} is taken" if taken else words


def _chunks(rows: Sequence[Row], width: int) -> Iterator[tuple[int, Row]]:
    """Cuts rows into as many as a statement takes, and gives their number and all their values in a row."""
    start, left, most = 0, len(rows), min(ROWS, PARAMETERS // width)
    while left:
        count = round_down(min(left, most))
        yield count, tuple(chain.from_iterable(rows[start : start + count]))
        start += count
        left -= count


def round_down(count: int) -> int:
    """Returns the largest number up to `count` that has at most three significant binary digits.

    So there are four sizes of statement to an octave, and any number of rows takes few statements.
    """
    spare = max(count.bit_length() - 3, 0)
    return count >> spare << spare


def _values(width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"VALUES {', '.join([row] * count)}"


@lru_cache(maxsize=1024)
def _insert(step: Step, count: int) -> str:
    return f"INSERT INTO {step.table.name} ({', '.join(step.columns)}) {_values(len(step.columns), count)}"


@lru_cache(maxsize=256)
def _upsert(step: Step, count: int) -> str:
    changes = ", ".join(f"{column} = excluded.{column}" for column in step.rest)
    return f"{_insert(step, count)} ON CONFLICT ({', '.join(step.key)}) DO UPDATE SET {changes}"


@lru_cache(maxsize=512)
def _update(step: Step, count: int) -> str:
    table = step.table.name
    source = {column: f"v.column{number}" for number, column in enumerate(step.columns, 1)}
    changes = ", ".join(f"{column} = {source[column]}" for column in step.rest)
    match = " AND ".join(f"{table}.{column} = {source[column]}" for column in step.key)
    return f"UPDATE {table} SET {changes} FROM ({_values(len(step.columns), count)}) AS v WHERE {match}"  # noqa: S608 - our own names


@lru_cache(maxsize=256)
def _delete(step: Step, table: str, count: int) -> str:
    return f"DELETE FROM {table} WHERE ({', '.join(step.key)}) IN ({_values(len(step.key), count)})"  # noqa: S608 - our own names
