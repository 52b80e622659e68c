"""The filter language of lists: what it takes, what it refuses by name, and what its conditions mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.v1 import artifacts_pb2, fleet_pb2, pauses_pb2, tasks_pb2, workflows_pb2
from taskyard_core import records
from taskyard_scheduler import filters
from taskyard_scheduler.filters import FieldSpec, FilterError, matches, parse_filter
from taskyard_scheduler.store.port import Condition
from taskyard_scheduler.store.tables import INSTANCES, RUNS


def parse(text: str) -> list[Condition]:
    return parse_filter(text, filters.TASK_FIELDS)


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", []),
        (" \n ", []),
        ('task_type == "shell"', [Condition("task_type", "==", "shell")]),
        ("task_type!='a\\'b\\n\\u00e9'", [Condition("task_type", "!=", "a'b\né")]),
        ("status == FAILED", [Condition("state", "==", 3)]),
        ('status in ["FAILED", TIMEOUT]', [Condition("state", "in", (3, 4))]),
        ('"FAILED" == status', [Condition("state", "==", 3)]),
        ("3 < priority", [Condition("priority", ">", 3)]),
        ("priority >= -1", [Condition("priority", ">=", -1)]),
        ("priority <= 0x0A", [Condition("priority", "<=", 10)]),
        ('error.kind == "WORKER_LOST"', [Condition("error_kind", "==", "WORKER_LOST")]),
        ('create_time > timestamp("2025-01-31T12:00:00Z")', [Condition("created_at", ">", 1_738_324_800_000)]),
        ("end_time < timestamp('2025-01-31T13:00:00.5+01:00')", [Condition("ended_at", "<", 1_738_324_800_500)]),
        (
            '(status == FAILED && (priority < 3)) && task_type in ["a"]',
            [Condition("state", "==", 3), Condition("priority", "<", 3), Condition("task_type", "in", ("a",))],
        ),
    ],
)
def test_what_is_taken(text: str, conditions: list[Condition]) -> None:
    assert parse(text) == conditions


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("status == FAILED || priority == 1", 18, "'||' (or) is not offered"),
        ("!(status == FAILED)", 1, "'!' (not) is not offered"),
        ("size(task_type) > 1", 1, "functions such as size()"),
        ('task_type.startsWith("a")', 1, "functions such as startsWith()"),
        ("has(error.kind)", 1, "functions such as has()"),
        ('duration("1h") == create_time', 1, "functions such as duration()"),
        ("priority + 1 == 2", 10, "arithmetic ('+')"),
        ("priority -1 == 2", 10, "arithmetic ('-')"),
        ("priority * 2 == 2", 10, "arithmetic ('*')"),
        ("priority == 1 ? true : false", 15, "'? :'"),
        ('task_type == {"a": 1}', 14, "a map or message"),
        ("params[0] == 1", 7, "an index"),
        ("priority = 1", 10, "write '=='"),
        ("priority == 1 & status == FAILED", 15, "write '&&'"),
        ("priority == 1 priority == 2", 15, "'&&' or the end"),
        ("priority", 9, "here a comparison is expected"),
        ("priority ==", 12, "a field or a value"),
        ("(priority == 1", 15, "'&&' or ')'"),
        ("priority == 1)", 14, "'&&' or the end"),
        ("priority == 1 &&", 17, "a field or a value"),
        ("priority == 1.5", 13, "whole number"),
        ('priority == "1"', 13, "a whole number, not with '1'"),
        ("task_type == 1", 14, "a text in quotes"),
        ("task_type == shell", 14, "a text in quotes"),
        ("task_type == true", 14, "a text in quotes"),
        ("priority == 99999999999999999999999", 13, "64 bits"),
        ("status == FAILD", 11, "Did you mean 'FAILED'?"),
        ("status == INTERRUPTED", 11, "is not one of"),
        ("status < FAILED", 8, "has no order"),
        ('create_time > "2025-01-31T12:00:00Z"', 15, "timestamp("),
        ('create_time > timestamp("yesterday")', 25, "is no time"),
        ('create_time > timestamp("2025-01-31T12:00:00")', 25, "with a zone"),
        ("create_time > timestamp(1)", 25, "a text is expected"),
        ("status in FAILED", 11, "a list is expected"),
        ("status in []", 13, "empty"),
        ("status in [FAILED", 18, "',' or ']'"),
        ('"a" in task_type', 8, "'task_type' holds no tags"),
        ('"a" in tag', 8, "Did you mean 'tags'?"),
        ("5 in tags", 1, "a tag is a text in quotes"),
        ("tags == 'a'", 6, "\"nightly\" in tags"),
        ("tags in ['a']", 1, "\"nightly\" in tags"),
        ("tsk_type == 'a'", 1, "Did you mean 'task_type'?"),
        ("1 == 2", 1, "needs a field"),
        ("task_type == 'a", 14, "close its quote"),
        ("task_type == '\\q'", 15, "no escape"),
        ("task_type == '\\ud800'", 15, "no character"),
        ("task_type == '\\u0000'", 14, "NUL"),
        ("task_type == $", 14, "belongs to no filter"),
        (" && ".join(["priority == 1"] * 51), 851, "more than 50 comparisons"),
        ("(" * 60, 52, "nested too deep"),
        ("x" * 5_000, 4_097, "longer than 4096"),
    ],
)  # fmt: skip
def test_what_is_refused_says_where_and_what_to_write(text: str, place: int, said: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)
    assert said in refused.value.sentence
    assert refused.value.position + 1 == place
    [violation] = refused.value.violations
    assert violation.field == "filter"


@given(st.text(max_size=60))
def test_any_text_is_taken_or_refused(text: str) -> None:
    place = 0
    try:
        parse(text)
    except FilterError as error:
        place = error.position
    assert 0 <= place <= len(text)


_PIECES = ["status", "priority", "task_type", "==", "!=", "<", "in", "[", "]", "(", ")", "&&", "||", "!", "1", '"a"',
           "FAILED", "true", 'timestamp("2025-01-31T12:00:00Z")', "create_time", ",", ".", "-"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=12))
@settings(max_examples=300)
def test_any_words_of_the_language_are_taken_or_refused(pieces: list[str]) -> None:
    try:
        conditions = parse(" ".join(pieces))
    except FilterError:
        return
    assert len(conditions) <= 50
    columns = {spec.column for spec in filters.TASK_FIELDS.values()}
    assert all(condition.field in columns for condition in conditions)


# Round trips: what is written from conditions is read as those conditions, and means what Python says.

FIELDS = {
    "text": FieldSpec("c_text"),
    "number": FieldSpec("c_number", "integer"),
    "flag": FieldSpec("c_flag", "bool"),
    "time": FieldSpec("c_time", "time"),
    "kind": FieldSpec("c_kind", "enum", {"ONE": 1, "TWO": 2}),
}
_values: dict[str, st.SearchStrategy[str | int]] = {
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    "number": st.integers(-(2**63), 2**63 - 1),
    "flag": st.integers(0, 1),
    "time": st.integers(0, 2**42),
    "kind": st.integers(1, 2),
}


def written(name: str, value: str | int) -> str:
    if name == "text":
        return json.dumps(value, ensure_ascii=False).replace("\\b", "\\u0008").replace("\\f", "\\u000c")
    if name == "time":
        return f'timestamp("{datetime.fromtimestamp(int(value) / 1000, UTC).isoformat(timespec="milliseconds")}")'
    return {"flag": ("false", "true"), "kind": ("", "ONE", "TWO")}[name][int(value)] if name != "number" else str(value)


UNORDERED: list[filters.Op] = ["==", "!=", "in"]
ORDERED: list[filters.Op] = [*UNORDERED, "<", "<=", ">", ">="]


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, Condition]:
    name = draw(st.sampled_from(sorted(FIELDS)))
    spec = FIELDS[name]
    ordered = spec.kind not in ("bool", "enum")
    op = draw(st.sampled_from(ORDERED if ordered else UNORDERED))
    if op == "in":
        values = draw(st.lists(_values[name], min_size=1, max_size=4))
        return f"{name} in [{', '.join(written(name, v) for v in values)}]", Condition(spec.column, "in", tuple(values))
    value = draw(_values[name])
    return f"{name} {op} {written(name, value)}", Condition(spec.column, op, value)


@given(st.lists(conditions(), max_size=5), st.booleans())
def test_what_is_written_from_conditions_is_read_as_them(wanted: list[tuple[str, Condition]], wrap: bool) -> None:
    text = " && ".join(f"({each})" if wrap else each for each, _ in wanted)
    assert parse_filter(text, FIELDS) == [condition for _, condition in wanted]


@given(st.lists(conditions(), max_size=3), st.data())
def test_conditions_mean_what_python_says(wanted: list[tuple[str, Condition]], data: st.DataObject) -> None:
    row = {FIELDS[name].column: data.draw(_values[name]) for name in FIELDS}
    checks: dict[str, Callable[[Any, Any], bool]] = {
        "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "in": lambda a, b: a in b,
    }  # fmt: skip
    expected = all(checks[c.op](row[c.field], c.value) for _, c in wanted)
    assert matches([condition for _, condition in wanted], row) == expected


def test_nothing_meets_no_condition() -> None:
    assert not matches([Condition("a", "!=", 1)], {"a": None})
    assert matches([], {})


def test_every_field_to_count_by_is_a_column_that_is_never_null_and_is_in_the_contract() -> None:
    contract = Path(__file__).parents[3] / "proto" / "taskyard" / "v1"
    for groups, table, request, file in (
        (filters.TASK_GROUPS, INSTANCES, "CountTasksRequest", "tasks"),
        (filters.RUN_GROUPS, RUNS, "CountRunsRequest", "workflows"),
    ):
        assert {name: table.c[spec.column].nullable for name, spec in groups.items()} == dict.fromkeys(groups, False)
        comment = (
            (contract / f"{file}.proto").read_text().partition(f"message {request} ")[2].partition("string group_by")[0]
        )
        assert set(re.findall("`([a-z_.]+)`", comment)) == set(groups)


def test_every_field_is_one_of_the_message_and_a_column_of_its_table() -> None:
    tables: dict[type[Message], tuple[filters.Fields, Sequence[str] | None]] = {
        tasks_pb2.TaskInstance: (filters.TASK_FIELDS, records.INSTANCE_COLUMNS),
        workflows_pb2.Run: (filters.RUN_FIELDS, records.RUN_COLUMNS),
        workflows_pb2.Workflow: (
            filters.WORKFLOW_FIELDS, (*records.WORKFLOW_COLUMNS, *records.WORKFLOW_HEAD_COLUMNS),
        ),
        artifacts_pb2.Artifact: (filters.ARTIFACT_FIELDS, records.ARTIFACT_COLUMNS),
        pauses_pb2.Pause: (filters.PAUSE_FIELDS, records.PAUSE_COLUMNS),
        tasks_pb2.TaskDefinition: (filters.DEFINITION_FIELDS, None),
        fleet_pb2.Worker: (filters.WORKER_FIELDS, None),
        fleet_pb2.Queue: (filters.QUEUE_FIELDS, None),
    }  # fmt: skip
    for message, (fields, columns) in tables.items():
        for name, spec in fields.items():
            assert name.partition(".")[0] in message.DESCRIPTOR.fields_by_name, name
            assert columns is None or spec.column in columns, name
