"""Multi-row statements of MySQL and MariaDB, written out as text.

PyMySQL is plain Python and shares the interpreter with the event loop, so a value has to cost little: what is
the same in all rows is written once, and the rest is put into a row's text by one `%`. On the server a row
that grows in a page that inserts have filled splits the page: so a new instance has some bytes to spare,
which its first update gives up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
from typing_extensions import override

from taskyard_core.records import Row
from taskyard_scheduler.store.tables import SPARE
from taskyard_scheduler.store.writes import BadRow, Cursor, Step, Writer, parts, unspared

ROWS: Final = 1_024
"""The most rows in one statement."""
SPARE_BYTES: Final = 128
"""Room for the times of an instance and a small output."""

_DUPLICATE: Final = 1062
_TAKEN = re.compile(r" for key '(?:\w+\.)?(\w+)'")
_SPECIAL = re.compile(r"['\\]")


class MysqlWriter(Writer):
    """Writes with INSERT ... SELECT FROM (VALUES ...), also for updates, with ON DUPLICATE KEY UPDATE."""

    prove = "UPDATE cluster SET revision = %s WHERE term = %s AND revision = %s"

    def __init__(self) -> None:
        self._packet = 1 << 20
        self._row_word = ""

    def learn(self, max_allowed_packet: int, version: str) -> None:
        """Takes in what the server is like, as `@@max_allowed_packet` and `version()` say."""
        self._packet = max_allowed_packet
        self._row_word = "" if "mariadb" in version.lower() else "ROW"

    @override
    def delete(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        # MariaDB searches the whole table for a list of pairs, but not for a list of single values.
        groups: dict[Row, list[str]] = defaultdict(list)
        for row in rows:
            groups[row[:-1]].append(literal(row[-1]))
        for table in (step.table, *step.also):
            for first, last in groups.items():
                match = "".join(f"{c} = {literal(v)} AND " for c, v in zip(step.key, first, strict=False))
                for start in range(0, len(last), ROWS):
                    values = ", ".join(last[start : start + ROWS])
                    where = f"{match}{step.key[-1]} IN ({values}){unspared(step)}"
                    cursor.execute(f"DELETE FROM {table.name} WHERE {where}".encode())  # noqa: S608 - escaped

    @override
    def insert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        self._write(cursor, step, rows)

    @override
    def upsert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        self._write(cursor, step, rows)

    @override
    def update(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        # The server counts 2 for a row that was changed, as an update's always is, since its revision is
        # another; and 1 for one that was inserted, which goes as this transaction is undone.
        if self._write(cursor, step, rows) != 2 * len(rows):
            raise BadRow("there is no such row")

    @override
    def reason(self, step: Step, raised: Exception) -> str:
        if len(raised.args) != 2:
            return str(raised)
        code, words = raised.args
        taken = _TAKEN.search(words) if code == _DUPLICATE else None
        return f"{_column_of(step, taken[1])} is taken" if taken else str(words)

    def _write(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> int:
        return sum(self._send(cursor, step, part) for part in parts(step, rows, ROWS))

    def _send(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> int:
        text = self._statement(step, rows).encode()
        if len(text) < self._packet:
            cursor.execute(text)
            return cursor.rowcount
        if len(rows) > 1:
            middle = len(rows) // 2
            return self._send(cursor, step, rows[:middle]) + self._send(cursor, step, rows[middle:])
        raise BadRow(f"it takes {len(text)} bytes, and max_allowed_packet is {self._packet}: raise it")

    def _statement(self, step: Step, rows: Sequence[Row]) -> str:
        """Returns the text that writes rows: what all have in common once, the rest as a table of values."""
        once, forms, values = _split(step, rows)
        sources = {column: once.get(column) or f"v_{column}" for column in step.columns} | _additions(step)
        into = f"INSERT INTO {step.table.name} ({', '.join(sources)})"
        selected = ", ".join(sources.values())
        if not forms:
            return f"{into} VALUES ({selected}){_ending(step, once)}"
        form = f"{self._row_word}({', '.join(forms.values())})"
        lines = ", ".join([form % line for line in zip(*values, strict=True)])
        names = ", ".join(f"v_{column}" for column in forms)
        table = f"WITH v ({names}) AS (VALUES {lines})"
        return f"{into} {table} SELECT {selected} FROM v{_ending(step, once)}"  # noqa: S608 - escaped


def _split(step: Step, rows: Sequence[Row]) -> tuple[dict[str, str], dict[str, str], list[Sequence[Any]]]:
    """Returns the literals of columns that are the same in all rows; the forms of the others, and their values."""
    once: dict[str, str] = {}
    forms: dict[str, str] = {}
    values: list[Sequence[Any]] = []
    for name, column in zip(step.columns, zip(*rows, strict=True), strict=True):
        if column.count(column[0]) == len(column):
            once[name] = literal(column[0])
        else:
            forms[name], texts = _form(column)
            values.append(texts)
    return once, forms, values


def _form(column: tuple[Any, ...]) -> tuple[str, Sequence[Any]]:
    """Returns the `%` form of a column, and its values as that takes them."""
    kinds = set(map(type, column))
    if kinds == {str}:
        special = _SPECIAL.search("".join(column))
        return "'%s'", [escape(value) for value in column] if special else column
    if kinds == {int}:
        return "%d", column
    return "%s", [literal(value) for value in column]


def escape(text: str) -> str:
    """Returns a text as it stands between single quotes, under an sql_mode without NO_BACKSLASH_ESCAPES."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def literal(value: object) -> str:
    """Returns a value as SQL writes it.

    Raises:
        BadRow: no column has values of this type.
    """
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{escape(value)}'"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    raise BadRow(f"{type(value).__name__} is no type of a column")


@cache
def _additions(step: Step) -> dict[str, str]:
    """Returns what a statement inserts beyond the columns of its rows, as literals."""
    columns = step.table.c
    if step.verb != "update":
        return {SPARE: f"'{' ' * SPARE_BYTES}'"} if SPARE in columns else {}
    # Never seen: they are for the insert that an update is at first, which meets the row that is there.
    absent = [c for c in columns if c.name not in step.columns and not c.nullable and c.server_default is None]
    return {column.name: "0" if isinstance(column.type, sa.Integer) else "''" for column in absent}


def _ending(step: Step, once: Mapping[str, str]) -> str:
    if step.verb == "insert":
        return ""
    changes = [f"{column} = {once.get(column) or f'VALUES({column})'}" for column in step.rest]
    if step.verb == "update" and SPARE in step.table.c:
        changes.append(f"{SPARE} = ''")
    return f" ON DUPLICATE KEY UPDATE {', '.join(changes)}"


def _column_of(step: Step, index: str) -> str:
    """Returns the column that a unique index is about: the last of it."""
    found = next((known for known in step.table.indexes if known.name == index), None)
    return list(found.columns)[-1].name if found is not None else step.key[-1]
