"""Finds the rows that a database does not take, by bisection. Knows no SQL: trying a part is its caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from taskyard_core.records import Changes, Row
from taskyard_scheduler.store.port import RefusedRow
from taskyard_scheduler.store.writes import STEPS, Step, rows_of

Unit = tuple[Step, Row]


def units_of(changes: Changes) -> list[Unit]:
    """Returns every row with its step, in the order in which a commit writes them."""
    return [(step, row) for step in STEPS for row in rows_of(changes, step)]


def find_refused(
    units: Sequence[Unit],
    attempt: Callable[[Changes], Exception | None],
    explain: Callable[[Step, Exception], str],
) -> list[RefusedRow]:
    """Returns the rows that cannot be written, with the reason.

    Asks about log2(n) times for each refused row.

    Args:
        units: the rows in the order in which they are written.
        attempt: writes a part on top of the parts that succeeded before, and returns None; or undoes that
            part and returns what was wrong. So of two rows that exclude each other the second is refused.
        explain: says in words why a row was refused.
    """
    if not units:
        return []
    raised = attempt(_changes_of(units))
    if raised is None:
        return []
    if len(units) == 1:
        [(step, row)] = units
        return [RefusedRow(step.kind, step.key_of(row), explain(step, raised))]
    middle = len(units) // 2
    first = find_refused(units[:middle], attempt, explain)
    return first + find_refused(units[middle:], attempt, explain)


def _changes_of(units: Sequence[Unit]) -> Changes:
    part = Changes()
    for step, row in units:
        getattr(part, step.kind).append(row[0] if step.kind == "worker_deletes" else row)
    return part
