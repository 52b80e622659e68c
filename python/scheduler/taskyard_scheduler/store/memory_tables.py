"""Tables in memory: rows by key, unique columns, and a commit that is undone when one of its rows is refused.

Knows nothing of terms, and answers no questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from taskyard_core.records import Changes, Row
from taskyard_scheduler.store.port import RefusedRow
from taskyard_scheduler.store.refused import units_of
from taskyard_scheduler.store.tables import METADATA, REFERENCES
from taskyard_scheduler.store.writes import STEPS, Step

Record = dict[str, Any]
Key = tuple[Any, ...]
Tables = dict[str, "MemoryTable"]

_WRITTEN: Final = tuple(dict.fromkeys(step.table.name for step in STEPS))
_REQUIRED: Final = {
    step: tuple(n for n, name in enumerate(step.columns) if not step.table.c[name].nullable) for step in STEPS
}
_UNIQUE: Final = ("request_id", "idempotency_key")


class MemoryTable:
    """One table.

    Attributes:
        rows: each record by its primary key; a record is replaced, never changed.
        taken: for each unique column, the key of the row that has a (tenant, value).
    """

    def __init__(self, unique: Sequence[str]) -> None:
        self.rows: dict[Key, Record] = {}
        self.taken: dict[str, dict[tuple[str, str], Key]] = {column: {} for column in unique}

    def ordered(self) -> list[tuple[Key, Record]]:
        """Returns all in the order of the key; the order of code points is that of the bytes in UTF-8."""
        return sorted(self.rows.items())

    def put(self, key: Key, record: Record | None) -> Record | None:
        """Sets the row of a key, or removes it with None. Returns what was there."""
        before = self.rows.pop(key, None)
        for column, values in self.taken.items():
            if before is not None and before[column] is not None:
                del values[before["tenant"], before[column]]
            if record is not None and record[column] is not None:
                values[record["tenant"], record[column]] = key
        if record is not None:
            self.rows[key] = record
        return before

    def conflict(self, record: Record) -> str | None:
        """Returns the unique column whose value another row has, or None."""
        for column, values in self.taken.items():
            if (record["tenant"], record[column]) in values:
                return column
        return None


def tables() -> Tables:
    """Returns the empty tables of a new database."""
    owners = ("instances", "runs")
    return {name: MemoryTable(_UNIQUE if name in owners else ()) for name in _WRITTEN}


def fits(table: str, column: str) -> bool:
    """Tells whether a table has a column."""
    return column in METADATA.tables[table].c


def row_of(record: Record, columns: Sequence[str]) -> Row:
    """Returns a record's values in the order of columns."""
    return tuple([record[column] for column in columns])


class _Undo:
    """Remembers what rows were before, so that all of it can be put back."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._before: list[tuple[str, Key, Record | None]] = []

    def put(self, table: str, key: Key, record: Record | None) -> None:
        self._before.append((table, key, self._tables[table].put(key, record)))

    def undo(self) -> None:
        for table, key, record in reversed(self._before):
            self._tables[table].put(key, record)


def apply(tables: Tables, changes: Changes) -> list[RefusedRow]:
    """Writes all changes; or writes none and returns the rows that break a rule."""
    written = _Undo(tables)
    refused = [
        RefusedRow(step.kind, step.key_of(row), reason)
        for step, row in units_of(changes)
        if (reason := _write(tables, written, step, row)) is not None
    ]
    if refused:
        written.undo()
    return refused


def _write(tables: Tables, written: _Undo, step: Step, row: Row) -> str | None:
    name = step.table.name
    new: Record = dict(zip(step.columns, row, strict=True))
    key = tuple([new[column] for column in step.key])
    if step.verb == "delete":
        if step.spares is not None and _spared(tables, step, new):
            return None
        if step.table is REFERENCES:
            _let_go(tables, written, key)
            return None
        for table in (name, *(table.name for table in step.also)):
            _delete(tables, written, table, key)
        return None
    before = tables[name].rows.get(key)
    wrong = _unfit(step, row)
    if wrong is None and step.verb == "update" and before is None:
        wrong = "there is no such row"
    if wrong is None and step.verb == "insert":
        taken = step.key[-1] if before is not None else tables[name].conflict(new)
        wrong = f"{taken} is taken" if taken else None
    if wrong is None:
        written.put(name, key, new if before is None else before | new)
    return wrong


def _spared(tables: Tables, step: Step, record: Record) -> bool:
    other, columns = step.spares or (REFERENCES, ())
    return any(all(row[theirs] == record[own] for theirs, own in columns) for row in tables[other.name].rows.values())


def _let_go(tables: Tables, written: _Undo, holder: Key) -> None:
    """Takes out all that a holder refers to: it is not what the table's key begins with."""
    name = REFERENCES.name
    for found in [key for key in tables[name].rows if (key[0], *key[2:]) == holder]:
        written.put(name, found, None)


def _delete(tables: Tables, written: _Undo, table: str, key: Key) -> None:
    for found in [other for other in tables[table].rows if other[: len(key)] == key]:
        written.put(table, found, None)


def _unfit(step: Step, row: Row) -> str | None:
    """Returns why no database takes these values, or None."""
    for number in _REQUIRED[step]:
        if row[number] is None:
            return f"{step.columns[number]} is NULL"
    for column, value in zip(step.columns, row, strict=True):
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            return f"{column} is beyond 64 bits"
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                return f"{column} has no UTF-8 form: {error}"
    return None
