"""What a commit writes, in which order and where: one step for each list of `Changes`.

Each database's writer carries the steps out in the shape that is fastest there. No SQL here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Literal, Protocol

import sqlalchemy as sa

from taskyard_core import records
from taskyard_core.records import Changes, Row
from taskyard_scheduler.store import tables


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One list of `Changes`: which table its rows are written to, and how.

    Attributes:
        kind: Name of the list.
        verb: What is done with its rows.
        table: Where.
        columns: Columns of a row, in order.
        key: The columns that say which row it is.
        also: For a delete: further tables whose rows of the same key go too.
        spares: For a delete: rows stay that this table has a row for: pairs of its column and their own.
    """

    kind: str
    verb: Literal["delete", "insert", "upsert", "update"]
    table: sa.Table
    columns: tuple[str, ...]
    key: tuple[str, ...]
    also: tuple[sa.Table, ...] = ()
    spares: tuple[sa.Table, tuple[tuple[str, str], ...]] | None = None

    @property
    def rest(self) -> tuple[str, ...]:
        """The columns beside the key."""
        return tuple(column for column in self.columns if column not in self.key)

    def key_of(self, row: Row) -> tuple[str, ...]:
        """The key of one row, as text."""
        return tuple(str(row[self.columns.index(column)]) for column in self.key)


_ID: Final = ("tenant", "id")
_NAME: Final = ("tenant", "name")
_PAUSE: Final = ("tenant", "scope", "name")
_HOLDER: Final = ("tenant", "holder_kind", "holder")
_REFERENCE: Final = ("tenant", "artifact", "holder_kind", "holder")

STEPS: Final = (
    Step("instance_deletes", "delete", tables.INSTANCES, _ID, _ID, (tables.ATTEMPTS, tables.CHECKPOINTS)),
    Step("worker_deletes", "delete", tables.WORKERS, ("id",), ("id",)),
    Step("task_definition_deletes", "delete", tables.TASK_DEFINITIONS, _NAME, _NAME),
    Step("variable_deletes", "delete", tables.VARIABLES, _NAME, _NAME),
    Step("pause_deletes", "delete", tables.PAUSES, _PAUSE, _PAUSE),
    Step("reference_deletes", "delete", tables.REFERENCES, _HOLDER, _HOLDER),
    Step("instance_inserts", "insert", tables.INSTANCES, records.INSTANCE_COLUMNS, _ID),
    Step("attempt_inserts", "insert", tables.ATTEMPTS, records.ATTEMPT_COLUMNS, (*_ID, "attempt")),
    Step("run_inserts", "insert", tables.RUNS, records.RUN_COLUMNS, _ID),
    Step("request_inserts", "insert", tables.REQUESTS, records.REQUEST_COLUMNS, ("tenant", "request_id")),
    Step("workflow_inserts", "insert", tables.WORKFLOWS, records.WORKFLOW_COLUMNS, (*_NAME, "version")),
    Step("artifact_inserts", "insert", tables.ARTIFACTS, records.ARTIFACT_COLUMNS, _ID),
    Step("checkpoint_upserts", "upsert", tables.CHECKPOINTS, records.CHECKPOINT_COLUMNS, _ID),
    Step("worker_upserts", "upsert", tables.WORKERS, records.WORKER_COLUMNS, ("id",)),
    Step("task_definition_upserts", "upsert", tables.TASK_DEFINITIONS, records.TASK_DEFINITION_COLUMNS, _NAME),
    Step("variable_upserts", "upsert", tables.VARIABLES, records.VARIABLE_COLUMNS, _NAME),
    Step("pause_upserts", "upsert", tables.PAUSES, records.PAUSE_COLUMNS, _PAUSE),
    Step("workflow_head_upserts", "upsert", tables.WORKFLOW_HEADS, records.WORKFLOW_HEAD_COLUMNS, _NAME),
    Step("reference_upserts", "upsert", tables.REFERENCES, records.REFERENCE_COLUMNS, _REFERENCE),
    Step("instance_updates", "update", tables.INSTANCES, records.INSTANCE_UPDATE, _ID),
    Step("instance_rewrites", "update", tables.INSTANCES, records.INSTANCE_COLUMNS, _ID),
    Step("run_updates", "update", tables.RUNS, records.RUN_UPDATE, _ID),
    Step(
        "artifact_deletes", "delete", tables.ARTIFACTS, _ID, _ID,
        spares=(tables.REFERENCES, (("tenant", "tenant"), ("artifact", "id"))),
    ),
    Step(
        "reference_ends", "delete", tables.REFERENCES, _HOLDER, _HOLDER,
        spares=(tables.ARTIFACTS, (("tenant", "tenant"), ("id", "holder"))),
    ),
)  # fmt: skip
"""In the order in which they are written: deletes, inserts, updates; last artifacts that nothing refers to, and the
references of those that are gone."""


CHARACTERS: Final = 1 << 20
"""About how much text of large columns one statement of several rows has."""


class BadRow(Exception):
    """Some row of a statement cannot be written, as nobody but the writer sees; the text says why."""


class Cursor(Protocol):
    """What writing takes of a DB-API cursor. SQLAlchemy above it would cost 20 microseconds a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement wrote."""
        ...

    def execute(self, text: str | bytes, values: Any = ..., /) -> Any:
        """Runs one statement."""


class Writer(ABC):
    """Writes changes in bulk, within a transaction that its caller holds."""

    steps: ClassVar = {step.kind: step for step in STEPS}

    prove: str
    """SQL that moves the revision of the cluster's row, given (new revision, term, old revision)."""

    def write(self, cursor: Cursor, changes: Changes) -> None:
        """Writes all lists.

        Raises:
            BadRow: an update names a row that does not exist.
        """
        for step in STEPS:
            if getattr(changes, step.kind):
                getattr(self, step.verb)(cursor, step, rows_of(changes, step))

    @abstractmethod
    def delete(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        """Deletes the rows with these keys, also in `step.also`, but for `step.spares`; a missing one is no error."""

    @abstractmethod
    def insert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        """Inserts rows that must be new."""

    @abstractmethod
    def upsert(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        """Inserts rows, or replaces those of the same key."""

    @abstractmethod
    def update(self, cursor: Cursor, step: Step, rows: Sequence[Row]) -> None:
        """Sets `step.rest` of the rows with these keys.

        Raises:
            BadRow: some do not exist.
        """

    @abstractmethod
    def reason(self, step: Step, raised: Exception) -> str:
        """Says in words why a row was refused."""


def rows_of(changes: Changes, step: Step) -> Sequence[Row]:
    """Returns one list of the changes; keys that are a single text as tuples too."""
    rows: list[Row] = getattr(changes, step.kind)
    return [(row,) for row in rows] if step.kind == "worker_deletes" else rows


@cache
def unspared(step: Step) -> str:
    """Returns the condition that spares rows, as SQL after others; empty for a step that spares none."""
    if step.spares is None:
        return ""
    other, columns = step.spares
    match = " AND ".join(f"{other.name}.{theirs} = {step.table.name}.{own}" for theirs, own in columns)
    return f" AND NOT EXISTS (SELECT 1 FROM {other.name} WHERE {match})"  # noqa: S608 - our own names


def parts(step: Step, rows: Sequence[Row], most: int) -> Iterator[Sequence[Row]]:
    """Cuts rows into what one statement takes: `most` rows, fewer where they are large, a very large one alone.

    Statements are kept by the driver with what was bound last, and packets have limits.
    """
    heavy = _heavy(step)
    start = size = 0
    for at, row in enumerate(rows):
        weight = sum([len(row[column]) for column in heavy if isinstance(row[column], (str, bytes))])
        if at - start == most or (size + weight > CHARACTERS and at > start):
            yield rows[start:at]
            start, size = at, 0
        size += weight
    yield rows[start:]


@cache
def _heavy(step: Step) -> tuple[int, ...]:
    """Returns the positions of the columns that may be large."""
    kinds = [step.table.c[column].type for column in step.columns]
    return tuple(at for at, kind in enumerate(kinds) if isinstance(kind, sa.Text | sa.LargeBinary))
