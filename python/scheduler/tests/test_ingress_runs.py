"""Starts of runs at the door: inputs checked and completed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from door_messages import fields_of

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.engine.events import NewRun, Refused
from taskyard_core.violations import InvalidInput
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress.runs import read_runs
from taskyard_scheduler.ingress.workflows import read_workflow


def plan(version: int = 4, **inputs: str) -> WorkflowVersion:
    given = pb.Workflow(name="flow", version=version, steps=[pb.WorkflowStep(id="a", task_type="x")])
    for name, default in inputs.items():
        given.inputs.add(name=name, default_json=default)
    return read_workflow("default", given, {})


FLOW = plan(text="", size="3", deep='{"k": [1]}')


def find(name: str, version: int) -> WorkflowVersion | None:
    return FLOW if name == "flow" and version in (0, 4) else None


def read_one(**given: Any) -> NewRun | Refused:
    [read] = read_runs(pb.StartRunsRequest(runs=[pb.RunSubmission(**{"workflow": "flow", **given})]), find, {})
    return read


def accepted(**given: Any) -> NewRun:
    read = read_one(**given)
    assert isinstance(read, NewRun), read
    return read


def test_defaults_are_filled_in_and_the_version_is_settled() -> None:
    new = accepted(inputs_json='{"text": "héllo"}')
    assert (new.workflow, new.version, new.priority) == ("flow", 4, 0)
    assert json.loads(new.inputs_json) == {"text": "héllo", "size": 3, "deep": {"k": [1]}}
    assert new.request_id is None
    assert new.request_hash is None


def test_given_inputs_win_and_complete_ones_are_kept_as_written() -> None:
    text = '{ "text": null, "size": 0, "deep": [] }'
    assert accepted(inputs_json=text).inputs_json == text


def test_a_workflow_without_inputs_starts_with_none() -> None:
    [new] = read_runs(pb.StartRunsRequest(runs=[pb.RunSubmission(workflow="x")]), lambda name, version: plan(), {})
    assert isinstance(new, NewRun)
    assert new.inputs_json == "{}"


def test_identity_and_priority_arrive() -> None:
    new = accepted(inputs_json='{"text": 1}', request_id="r", idempotency_key="k", priority=10, version=4)
    assert (new.request_id, new.idempotency_key, new.priority) == ("r", "k", 10)
    other = accepted(inputs_json='{"text": 1}', request_id="s", idempotency_key="k", priority=10, version=4)
    assert new.request_hash == other.request_hash
    assert new.request_hash != accepted(inputs_json='{"text": 2}', request_id="r").request_hash


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"inputs_json": ""}, "inputs_json.text", "missing"),
        ({"inputs_json": '{"text": 1, "sise": 2}'}, "inputs_json.sise", "Did you mean 'size'?"),
        ({"inputs_json": "[]"}, "inputs_json", "no object"),
        ({"inputs_json": '{"text": "\\ud800"}'}, "inputs_json", "surrogate"),
        ({"inputs_json": json.dumps({"text": "x" * 4_200_000})}, "inputs_json", "4,194,304"),
        ({"inputs_json": '{"text": 1}', "priority": 0}, "priority", "1 to 10"),
        ({"inputs_json": '{"text": 1}', "request_id": "x" * 129}, "request_id", "128"),
        ({"inputs_json": '{"text": 1}', "idempotency_key": "a\0"}, "idempotency_key", "U+0000"),
        ({"workflow": ""}, "workflow", "no workflow is named"),
    ],
)
def test_each_rule_names_its_field(given: dict[str, Any], field: str, said: str) -> None:
    read = read_one(**given)
    assert fields_of(read) == [f"runs[0].{field}"]
    assert isinstance(read, Refused)
    assert said in read.violations[0].description


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workflow": "none"}, "there is no workflow 'none'"),
        ({"version": 9}, "has no version 9; 0 means its newest, which is 4"),
        ({"version": -1}, "has no version -1"),
    ],
)
def test_an_unknown_workflow_or_version_is_told_apart(given: dict[str, Any], said: str) -> None:
    read = read_one(**given)
    assert isinstance(read, Refused)
    assert read.reason == "DEFINITION_NOT_FOUND"
    assert said in read.message


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_call_without_items_or_with_too_many_is_refused_whole(count: int) -> None:
    with pytest.raises(InvalidInput):
        read_runs(pb.StartRunsRequest(runs=[pb.RunSubmission(workflow="flow")] * count), find, {})


def test_what_a_call_makes_of_large_defaults_is_bounded() -> None:
    large = plan(text=json.dumps("x" * 4_000_000))
    read = read_runs(pb.StartRunsRequest(runs=[pb.RunSubmission(workflow="w")] * 20), lambda name, version: large, {})
    assert isinstance(read[0], NewRun)
    assert fields_of(read[-1]) == ["runs[19].inputs_json"]


def typed_plan(**types: str) -> WorkflowVersion:
    given = pb.Workflow(name="flow", version=4, steps=[pb.WorkflowStep(id="a", task_type="x")])
    for name, type_ in types.items():
        default = "null" if name == "free" else ""
        given.inputs.add(name=name, type=pb.InputType.Value(f"INPUT_TYPE_{type_}"), default_json=default)
    return read_workflow("default", given, {})


def start_typed(type_: str, value: object, name: str = "n") -> NewRun | Refused:
    flow = typed_plan(**{name: type_})
    item = pb.RunSubmission(workflow="flow", inputs_json=json.dumps({name: value}))
    [read] = read_runs(pb.StartRunsRequest(runs=[item]), lambda name, version: flow, {})
    return read


FIVE = (
    "the text 'five' is not a whole number, and the workflow's input 'n' has the type integer; "
    "give a whole number in JSON, for example 3 (`taskyard run -i n=3`)"
)
VALUE_IN_ARTIFACT = "artifact://018f3b5e-7c1a-7abc-9def-0123456789ab#/n"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("STRING", ""), ("INTEGER", 5), ("INTEGER", -(10**30)), ("NUMBER", 5), ("NUMBER", 0.5), ("BOOLEAN", False),
        ("ARRAY", []), ("OBJECT", {}), ("UNSPECIFIED", None), ("INTEGER", VALUE_IN_ARTIFACT),
    ],
)  # fmt: skip
def test_an_input_takes_what_it_is_for(type_: str, value: object) -> None:
    read = start_typed(type_, value)
    assert isinstance(read, NewRun), read
    assert json.loads(read.inputs_json) == {"n": value}


@pytest.mark.parametrize(
    ("type_", "value", "said"),
    [
        ("INTEGER", "five", FIVE),
        ("INTEGER", 2.5, "2.5"), ("INTEGER", True, "true"), ("INTEGER", None, "null"), ("NUMBER", "5", "the text '5'"),
        ("BOOLEAN", 1, "for example true (`taskyard run -i n=true`)"), ("ARRAY", {}, "(`taskyard run -i 'n=[\"a\", "),
        ("OBJECT", [], "is not an object"), ("STRING", 5, "for example \"5\" (`taskyard run -i 'n=\"5\"'`)"),
        ("STRING", [1], "for example \"text\""), ("STRING", "x" * 9, None),
        ("INTEGER", "x" * 9_000, "xxx"), ("INTEGER", VALUE_IN_ARTIFACT.partition("#")[0], "is not a whole number"),
    ],
)  # fmt: skip
def test_an_input_of_another_type_says_how_it_is_written(type_: str, value: object, said: str | None) -> None:
    read = start_typed(type_, value)
    if said is None:
        assert isinstance(read, NewRun)
        return
    assert fields_of(read) == ["runs[0].inputs_json.n"]
    assert isinstance(read, Refused)
    assert said in read.violations[0].description
    assert len(read.violations[0].description) < 400


def test_null_is_taken_where_it_is_the_default() -> None:
    assert isinstance(start_typed("INTEGER", None, "free"), NewRun)
