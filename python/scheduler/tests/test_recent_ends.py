"""The last ends in memory are what SQL has, and no more than fits."""

from __future__ import annotations

import pytest
from store_rows import instance, instance_update

from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import INSTANCE_COLUMNS, INSTANCE_UPDATE, Instance, Phase, Row, TaskState
from taskyard_scheduler import ends
from taskyard_scheduler.ends import KEPT, TEXT_LIMIT, RecentEnds

ID = INSTANCE_COLUMNS.index("id")
PHASES = {"ended": Phase.ENDED, "run again": Phase.READY}


def end_of(made: Row, **given: object) -> tuple[Instance, Row]:
    """What a commit says of an instance that has ended."""
    return instance_from_row((*made, None, 0)), instance_update(made[ID], **given)


def test_an_end_is_the_row_that_sql_has_whatever_memory_says_now() -> None:
    recent = RecentEnds()
    made = instance(request_id="r", params_json='{"a": 1}')
    live, update = end_of(made, output_json='{"n": 2}', revision=7)
    recent.take([(live, update)], [])
    live.state = TaskState.QUEUED
    live.output_json = "later"
    found = recent.row(made[ID])
    assert found is not None
    assert dict(zip(INSTANCE_COLUMNS, found, strict=True)) == dict(zip(INSTANCE_COLUMNS, made, strict=True)) | dict(
        zip(INSTANCE_UPDATE, update, strict=True)
    )


def test_an_instance_that_is_made_and_ends_in_one_commit_is_known() -> None:
    recent = RecentEnds()
    made = instance(state=TaskState.CANCELLED, phase=Phase.ENDED)
    recent.take([(instance_from_row((*made, None, 0)), made)], [])
    assert recent.row(made[ID]) == made


@pytest.mark.parametrize("how", ["run again", "deleted"])
def test_what_is_no_end_any_more_is_not_known(how: str) -> None:
    recent = RecentEnds()
    made = instance()
    live, update = end_of(made)
    recent.take([(live, update)], [])
    if how == "deleted":
        recent.take([], [("default", made[ID])])
    else:
        recent.take([(live, instance_update(made[ID], state=TaskState.QUEUED, phase=Phase.READY))], [])
    assert recent.row(made[ID]) is None


def test_the_oldest_ends_go_and_one_that_ended_again_is_young() -> None:
    recent = RecentEnds()
    rows = [instance() for _ in range(KEPT + 10)]
    recent.take([end_of(row) for row in rows[:KEPT]], [])
    recent.take([end_of(rows[0])], [])
    recent.take([end_of(row) for row in rows[KEPT:]], [])
    known = [recent.row(row[ID]) is not None for row in rows]
    assert known == [True, *[False] * 10, *[True] * (KEPT - 1)]


@pytest.mark.parametrize("column", ["input_json", "params_json", "output_json"])
def test_large_texts_are_left_to_sql(column: str) -> None:
    recent = RecentEnds()
    text = "x" * (TEXT_LIMIT + 1)
    made = instance() if column == "output_json" else instance(**{column: text})
    given = {column: text} if column == "output_json" else {}
    recent.take([end_of(made, **given)], [])
    assert recent.row(made[ID]) is None


def test_an_instance_with_a_checkpoint_is_left_to_sql() -> None:
    recent = RecentEnds()
    made = instance()
    recent.take([(instance_from_row((*made, "{}", 1)), instance_update(made[ID]))], [])
    assert recent.row(made[ID]) is None


def test_the_positions_are_those_of_both_kinds_of_row() -> None:
    for columns in (INSTANCE_COLUMNS, INSTANCE_UPDATE):
        assert columns[ends._PHASE] == "phase"
        assert columns[ends._OUTPUT] == "output_json"
