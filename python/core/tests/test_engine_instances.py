"""How an instance is made of a stored row."""

from __future__ import annotations

from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import INSTANCE_COLUMNS, instance_row


def test_a_row_comes_back_column_by_column() -> None:
    values: list[object] = [f"value of {column}" for column in INSTANCE_COLUMNS]
    values[INSTANCE_COLUMNS.index("policy_json")] = ""
    row = tuple(values)
    assert instance_row(instance_from_row(row)) == row
    restored = instance_from_row((*row, "kept", 7))
    assert (restored.checkpoint, restored.checkpoint_number) == ("kept", 7)
    assert instance_from_row((*row, None, None)).checkpoint is None
