"""SQLite's multi-row statements.

Python's sqlite3 gives up the interpreter lock several times for each row of an executemany, and under load
waits for it each time, up to 5 ms. So many rows go into one statement. What costs then is to bind values and
to compile statements: a column that is the same in all rows is bound once, and few different statements are
used, so that each is compiled once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from typing_extensions import override

from taskyard_core.records import Row
from taskyard_scheduler.store.writes import BadRow, Cursor, Step, Writer, parts, unspared

ROWS: Final = 768
"""The most rows in one statement: times 40 columns, fewer than the 32,766 parameters of a default SQLite."""
SHAPES: Final = 4
"""How many shapes are kept for each list."""
SLACK: Final = 3
"""How many columns may be bound for each row without need, so that a known shape serves."""

Shape = tuple[int, ...]
"""The positions of the columns that are bound for each row: first the key's, then those that differ."""

_TAKEN = re.compile(r"UNIQUE constraint failed: .*\.(\w+)$")


class SqliteWriter(Writer):
    """Writes with INSERT ... SELECT FROM (VALUES ...) and UPDATE ... FROM (VALUES ...)."""

    prove = "UPDATE cluster SET revision = ? WHERE term = ? AND revision = ?"

    def __init__(self) -> None:
        self._keys = {kind: tuple(map(step.columns.index, step.key)) for kind, step in self.steps.items()}
        self._shapes = {kind: [key] for kind, key in self._keys.items()}

    @override
    def delete(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        for table in (step.table, *step.also):
            for shape, count, values in self._parts(step, rows):
                cursor.execute(_delete(step, table.name, shape, count), values)

    @override
    def insert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        if self._write(cursor, _insert, step, rows) != len(rows):
            raise BadRow("its key is NULL")

    @override
    def upsert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        if self._write(cursor, _upsert, step, rows) != len(rows):
            raise BadRow("its key is NULL")

    @override
    def update(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        if self._write(cursor, _update, step, rows) != len(rows):
            raise BadRow("there is no such row")

    @override
    def reason(self, step: Step, raised: Exception) -> str:
        taken = _TAKEN.search(str(raised))
        return f"{taken[1]} is taken" if taken else str(raised)

    def _write(self, cursor: Cursor, text: Callable[[Step, Shape, int], str], step: Step, rows: Sequence[Row]) -> int:
        written = 0
        for shape, room, values in self._parts(step, rows):
            cursor.execute(text(step, shape, room), values)
            written += cursor.rowcount
        return written

    def _parts(self, step: Step, rows: Sequence[Row]) -> Iterator[tuple[Shape, int, list[Any]]]:
        """Cuts rows into statements: the shape, how many rows there is room for, and the values to bind."""
        for part in parts(step, rows, ROWS):
            columns = list(zip(*part, strict=True))
            shape = self._shape(step, columns)
            yield shape, *_bound(columns, shape)

    def _shape(self, step: Step, columns: list[tuple[Any, ...]]) -> Shape:
        """Returns a known shape that binds all that differs and little more, or makes one.

        When there are enough of them, the one that grows least takes the new columns in: so their number is
        bounded and none is ever given up.
        """
        key = self._keys[step.kind]
        if len(columns[0]) == 1:
            return key
        differ = {at for at, column in enumerate(columns) if column.count(column[0]) != len(column)}
        known = self._shapes[step.kind]
        fitting = [shape for shape in known if differ.issubset(shape)]
        best = min(fitting, key=len, default=None)
        if best is not None and len(best) <= len(differ.union(key)) + SLACK:
            return best
        nearest = best or min(known, key=lambda shape: len(differ.difference(shape)))
        base = nearest if len(known) >= SHAPES else key
        shape = base + tuple(sorted(differ.difference(base)))
        if base is nearest:
            known.remove(nearest)
        known.append(shape)
        return shape


def _bound(columns: list[tuple[Any, ...]], shape: Shape) -> tuple[int, list[Any]]:
    """Returns how many rows there is room for, and the values: those bound once, rows, NULLs to fill it."""
    count = len(columns[0])
    room = round_up(count)
    values = [column[0] for at, column in enumerate(columns) if at not in shape]
    values += chain.from_iterable(zip(*[columns[at] for at in shape], strict=True))
    values += [None] * (len(shape) * (room - count))
    return room, values


def round_up(count: int) -> int:
    """Returns the smallest number from `count` on that has at most two significant binary digits.

    So there are two sizes of statement to an octave, and at most a third of a statement is spare.
    """
    spare = max(count.bit_length() - 2, 0)
    return -(-count >> spare) << spare


def _from_values(shape: Shape, room: int) -> str:
    row = f"({', '.join('?' * len(shape))})"
    return f"FROM (VALUES {', '.join([row] * room)}) AS v"


def _source(step: Step, shape: Shape) -> dict[str, str]:
    """Returns for each column the expression that gives its value."""
    bound = {at: f"v.column{number}" for number, at in enumerate(shape, 1)}
    return {column: bound.get(at, "?") for at, column in enumerate(step.columns)}


def _match(step: Step, shape: Shape, table: str) -> str:
    source = _source(step, shape)
    return " AND ".join(f"{table}.{column} = {source[column]}" for column in step.key)


@lru_cache(maxsize=256)
def _insert(step: Step, shape: Shape, room: int) -> str:
    source = _source(step, shape)
    return (
        f"INSERT INTO {step.table.name} ({', '.join(step.columns)}) SELECT {', '.join(source.values())}"
        f" {_from_values(shape, room)} WHERE {source[step.key[-1]]} IS NOT NULL"
    )


@lru_cache(maxsize=256)
def _upsert(step: Step, shape: Shape, room: int) -> str:
    changes = ", ".join(f"{column} = excluded.{column}" for column in step.rest)
    return f"{_insert(step, shape, room)} ON CONFLICT ({', '.join(step.key)}) DO UPDATE SET {changes}"


@lru_cache(maxsize=256)
def _update(step: Step, shape: Shape, room: int) -> str:
    source = _source(step, shape)
    changes = ", ".join(f"{column} = {source[column]}" for column in step.rest)
    table = step.table.name
    return (
        f"UPDATE {table} SET {changes} {_from_values(shape, room)}"  # noqa: S608 - our own names
        f" WHERE {_match(step, shape, table)}"
    )


@lru_cache(maxsize=256)
def _delete(step: Step, table: str, shape: Shape, room: int) -> str:
    return (
        f"DELETE FROM {table} WHERE rowid IN (SELECT found.rowid"  # noqa: S608 - our own names
        f" {_from_values(shape, room)} CROSS JOIN {table} AS found WHERE {_match(step, shape, 'found')})"
        f"{unspared(step)}"
    )
