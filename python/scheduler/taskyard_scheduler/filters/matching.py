"""Conditions asked of things in memory, where no SQL answers: definitions, workers, queues."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from taskyard_scheduler.store.port import Condition

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, among: value in among,
    "has": lambda value, part: part in value,
}


def matches(conditions: Sequence[Condition], values: Mapping[str, str | int | None]) -> bool:
    """Tells whether a thing in memory meets every condition, as SQL would: None meets none.

    Args:
        conditions: From `parse_filter`.
        values: The thing's values by column.
    """
    for condition in conditions:
        value = values[condition.field]
        if value is None or not _OPERATORS[condition.op](value, condition.value):
            return False
    return True
