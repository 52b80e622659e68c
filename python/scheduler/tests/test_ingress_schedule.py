"""Start, expiry and tags at the door, the same for tasks and runs; and variables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import policies_pb2
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as workflows
from taskyard_core.engine.events import NewRun, NewTask, Refused, When
from taskyard_core.tags import load_tags
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.runs import read_runs
from taskyard_scheduler.ingress.tasks import read_tasks
from taskyard_scheduler.ingress.variables import read_variable
from taskyard_scheduler.ingress.workflows import read_workflow

AT = Timestamp(seconds=1_800_000_000, nanos=1)
LATER = Timestamp(seconds=1_800_000_001)
FLOW = read_workflow("default", workflows.Workflow(name="w", steps=[workflows.WorkflowStep(id="a", task_type="x")]), {})


def read_task(**given: Any) -> NewTask | Refused:
    item = tasks.TaskSubmission(task_type="x", **given)
    [read] = read_tasks(tasks.SubmitTasksRequest(tasks=[item]), {})
    return read


def read_run(
    variables: dict[str, workflows.Variable] | None = None, flow: Any = FLOW, **given: Any
) -> NewRun | Refused:
    item = workflows.RunSubmission(workflow="w", **given)
    [read] = read_runs(workflows.StartRunsRequest(runs=[item]), lambda name, version: flow, variables or {})
    return read


READERS = pytest.mark.parametrize("read", [read_task, read_run])


@READERS
@pytest.mark.parametrize(
    ("given", "when"),
    [
        ({}, None),
        ({"schedule_time": AT}, When(start_at=1_800_000_000_001)),  # rounded up: nothing begins before its time
        ({"start_delay": Duration(seconds=2, nanos=1)}, When(delay_ms=2_001)),
        ({"start_delay": Duration(seconds=3_650 * 86_400)}, When(delay_ms=3_650 * 86_400_000)),
        ({"expire_time": LATER}, When(expire_at=1_800_000_001_000)),
        ({"schedule_time": AT, "expire_time": LATER}, When(1_800_000_000_001, 0, 1_800_000_001_000)),
    ],
)
def test_what_is_taken(read: Any, given: dict[str, Any], when: When | None) -> None:
    assert read(**given).when == when


@READERS
@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"schedule_time": AT, "start_delay": Duration(seconds=1)}, "start_delay", "give one of the two"),
        ({"schedule_time": LATER, "expire_time": AT}, "expire_time", "would never begin"),
        ({"schedule_time": AT, "expire_time": AT}, "expire_time", "not later than schedule_time"),
        ({"schedule_time": Timestamp(seconds=-1)}, "schedule_time", "1970 to 9999"),
        ({"expire_time": Timestamp(seconds=1 << 60)}, "expire_time", "1970 to 9999"),
        ({"expire_time": Timestamp(nanos=-1)}, "expire_time", "1970 to 9999"),
        ({"start_delay": Duration(seconds=-1)}, "start_delay", "0 to 3,650 days"),
        ({"start_delay": Duration(seconds=3_650 * 86_400, nanos=1)}, "start_delay", "0 to 3,650 days"),
        ({"tags": ["a", "b", "a"]}, "tags[2]", "'a' is given twice"),
        ({"tags": [""]}, "tags[0]", "the tag is empty"),
        ({"tags": ["a\nb"]}, "tags[0]", "U+000A"),
        ({"tags": ["x" * 101]}, "tags[0]", "100 characters"),
        ({"tags": [str(n) for n in range(33)]}, "tags", "33 tags are more than 32"),
    ],
)
def test_each_rule_names_its_field(read: Any, given: dict[str, Any], field: str, said: str) -> None:
    refused = read(**given)
    assert isinstance(refused, Refused)
    [violation] = refused.violations
    assert violation.field.partition(".")[2] == field
    assert said in violation.description


def test_a_delay_that_outlasts_the_total_timeout_is_refused() -> None:
    total = policies_pb2.TimeoutPolicy(total_timeout=Duration(seconds=5))
    assert isinstance(read_task(timeouts=total, start_delay=Duration(seconds=4)), NewTask)
    refused = read_task(timeouts=total, start_delay=Duration(seconds=5))
    assert isinstance(refused, Refused)
    assert "total_timeout of 5 s" in refused.message


@READERS
def test_tags_arrive_in_their_order(read: Any) -> None:
    assert load_tags(read(tags=["nightly", "équipe: a"]).tags) == ["nightly", "équipe: a"]
    assert read().tags is None


# Variables.


def variable(**given: Any) -> workflows.Variable:
    return workflows.Variable(**{"name": "region", "value_json": '"eu"', **given})


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"name": ""}, "variable.name", "a variable's name is empty"),
        ({"name": "a b"}, "variable.name", "a variable's name has only"),
        ({"value_json": ""}, "variable.value_json", "with its quotes"),
        ({"value_json": "eu"}, "variable.value_json", "JSON"),
        ({"value_json": json.dumps("x" * 65_535)}, "variable.value_json", "65,536"),
        ({"description": "\0"}, "variable.description", "NUL"),
    ],
)
def test_a_variable_that_breaks_a_rule_is_refused(given: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_variable(variable(**given))
    [violation] = caught.value.violations
    assert violation.field == field
    assert said in violation.description


def test_what_only_the_scheduler_says_is_left_out() -> None:
    assert read_variable(variable(update_time=AT)) == variable()


def flow(template: str) -> Any:
    step = workflows.WorkflowStep(id="a", task_type="x", params={"p": template})
    return read_workflow("default", workflows.Workflow(name="w", steps=[step]), {})


def test_a_run_takes_the_variables_that_its_workflow_reads_and_no_others() -> None:
    known = {"region": variable(), "rows": variable(name="rows", value_json="[1]"), "other": variable(name="other")}
    read = read_run(known, flow("${vars.region} ${vars.rows[0]}"))
    assert isinstance(read, NewRun)
    assert json.loads(read.variables_json or "") == {"region": "eu", "rows": [1]}
    plain = read_run(known)
    assert isinstance(plain, NewRun)
    assert plain.variables_json is None


def test_a_run_whose_workflow_reads_a_variable_that_is_not_set_is_refused() -> None:
    refused = read_run({"region": variable()}, flow("${vars.regio}"))
    assert isinstance(refused, Refused)
    assert "reads the variable 'regio', which is not set; set it. Did you mean 'region'?" in refused.message


def test_the_output_of_a_run_has_no_attempt() -> None:
    step = workflows.WorkflowStep(id="a", task_type="x")
    with pytest.raises(InvalidInput, match="attempts are counted for each step"):
        read_workflow("default", workflows.Workflow(name="w", steps=[step], output_json='"${run.attempt}"'), {})
