"""Any message that the wire can carry is taken or refused by the typed errors; what is taken can be stored and read."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import pytest
from door_messages import check_violations, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.v1 import tasks_pb2, workers_pb2, workflows_pb2
from taskyard_core.engine.events import NewRun, NewTask, Refused
from taskyard_core.fleet import Registration
from taskyard_core.policy_codec import load_policy
from taskyard_core.violations import InvalidInput
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress.definitions import read_definition
from taskyard_scheduler.ingress.results import read_frame
from taskyard_scheduler.ingress.runs import read_runs
from taskyard_scheduler.ingress.tasks import read_tasks
from taskyard_scheduler.ingress.workers import read_heartbeat, read_registration
from taskyard_scheduler.ingress.workflows import compile_stored, content_hash, merge_definitions, read_workflow

DEFINITION = read_definition(
    tasks_pb2.TaskDefinition(name="noop", task_type="py", params={"a": "${x}"}, input_json='{"k": [1]}')
)
DEFINITIONS = {"noop": DEFINITION}
FLOW = read_workflow(
    "default",
    workflows_pb2.Workflow(
        name="x",
        steps=[workflows_pb2.WorkflowStep(id="a", task_type="t")],
        inputs=[workflows_pb2.WorkflowInput(name="a", default_json="1")],
    ),
    {},
)


def make_graph(workflow: workflows_pb2.Workflow) -> workflows_pb2.Workflow:
    """Gives a workflow a name, and its steps ids and needs that make a graph."""
    workflow.name = "flow"
    if not workflow.steps:
        workflow.steps.add()
    del workflow.inputs[1:]
    for each in workflow.inputs:
        each.name = "a"
    for place, step in enumerate(workflow.steps):
        needs = len(step.needs)
        step.id = f"s{place}"
        step.task_type = step.task_type or "noop"
        del step.needs[:]
        step.needs.extend(f"s{n}" for n in range(min(needs, place)))
    return workflow


def name_worker(request: workers_pb2.RegisterRequest) -> workers_pb2.RegisterRequest:
    """Gives a worker what each must have."""
    request.worker_id, request.max_concurrency = "w", 1
    request.capabilities.append("noop")
    return request


def check_storable(values: Iterable[str | int | bytes | None]) -> None:
    """Checks that a database gives the values back as they went in, and that no text holds NUL."""
    row = list(values)
    with sqlite3.connect(":memory:") as database:
        columns = ",".join(f"c{n}" for n in range(len(row)))
        database.execute(f"CREATE TABLE t ({columns})")
        database.execute(f"INSERT INTO t VALUES ({','.join('?' * len(row))})", row)  # noqa: S608
        assert list(database.execute("SELECT * FROM t").fetchone()) == row
    database.close()
    assert not any("\0" in value for value in row if isinstance(value, str))


@given(messages(tasks_pb2.TaskSubmission))
@settings(max_examples=300)
def test_a_submission(item: tasks_pb2.TaskSubmission) -> None:
    [read] = read_tasks(tasks_pb2.SubmitTasksRequest(tasks=[item]), DEFINITIONS)
    if isinstance(read, Refused):
        if read.reason == "INVALID_INPUT":
            check_violations(list(read.violations))
        else:
            assert read.reason == "DEFINITION_NOT_FOUND"
        return
    assert load_policy(read.policy_json) == read.policy
    assert isinstance(json.loads(read.params_json or "{}"), dict)
    assert isinstance(json.loads(read.input_json or "{}"), dict)
    check_storable(
        [read.task_type, read.task_name, read.policy_json, read.params_json, read.input_json, read.request_id,
         read.request_hash, read.idempotency_key, read.traceparent, read.priority]
    )  # fmt: skip


@given(messages(tasks_pb2.TaskDefinition))
def test_a_definition(definition: tasks_pb2.TaskDefinition) -> None:
    try:
        read = read_definition(definition)
    except InvalidInput as error:
        check_violations(error.violations)
        return
    assert read_definition(read) == read
    item = tasks_pb2.TaskSubmission(task_name=read.name)
    [new] = read_tasks(tasks_pb2.SubmitTasksRequest(tasks=[item]), {read.name: read})
    assert isinstance(new, NewTask), "what a definition passes with, its tasks pass with"
    flow = workflows_pb2.Workflow(name="w", steps=[workflows_pb2.WorkflowStep(id="s", task_name=read.name)])
    [step] = read_workflow("default", flow, {read.name: read}).steps
    assert step.policy == new.policy
    assert json.loads(step.constant_params or "{}") == json.loads(new.params_json or "{}")
    assert json.loads(step.constant_input or "{}") == json.loads(new.input_json or "{}")


@given(st.one_of(messages(workflows_pb2.Workflow), messages(workflows_pb2.Workflow).map(make_graph)))
@settings(max_examples=200)
def test_a_workflow(workflow: workflows_pb2.Workflow) -> None:
    try:
        plan = read_workflow("default", workflow, DEFINITIONS)
    except InvalidInput as error:
        check_violations(error.violations)
        strays = [violation for violation in error.violations if not violation.field.startswith("workflow.")]
        if strays:
            pytest.fail(f"paths that lead nowhere: {strays}")
        return
    merged = merge_definitions(workflow, DEFINITIONS)
    again = compile_stored("default", workflows_pb2.Workflow.FromString(merged.SerializeToString()))
    assert again.graph.ids == plan.graph.ids
    assert content_hash(merge_definitions(workflow, DEFINITIONS)) == content_hash(merged)


@given(messages(workflows_pb2.RunSubmission))
def test_a_start(item: workflows_pb2.RunSubmission) -> None:
    def find(name: str, version: int) -> WorkflowVersion | None:
        return None if "\0" in name or name == "*" else FLOW  # no workflow of such a name can be applied

    [read] = read_runs(workflows_pb2.StartRunsRequest(runs=[item]), find, {})
    if isinstance(read, NewRun):
        assert set(json.loads(read.inputs_json)) == {"a"}
        check_storable([read.workflow, read.inputs_json, read.request_id, read.request_hash, read.idempotency_key])
    elif read.reason == "INVALID_INPUT":
        check_violations(list(read.violations))


@given(st.one_of(messages(workers_pb2.RegisterRequest), messages(workers_pb2.RegisterRequest).map(name_worker)))
def test_a_registration(request: workers_pb2.RegisterRequest) -> None:
    try:
        read = read_registration(request)
    except InvalidInput as error:
        check_violations(error.violations)
        return
    assert Registration.load(read.dump()) == read
    check_storable([request.worker_id, read.dump()])


@given(messages(workers_pb2.HeartbeatRequest))
def test_a_heartbeat(request: workers_pb2.HeartbeatRequest) -> None:
    assert read_heartbeat(request).cpu_usage >= 0


@given(messages(workers_pb2.AssignTaskRequest))
@settings(max_examples=200)
def test_no_frame_of_a_worker_is_lost(frame: workers_pb2.AssignTaskRequest) -> None:
    read = read_frame("w", 1, frame, None)
    assert [result.task_id for result in read.results] == [told.task_id for told in frame.results]
    assert len(read.progress) == len(frame.progress)
    for result in read.results:
        assert result.status in (2, 3, 4, 8, 11, 12, 13)
        assert not result.output_json or result.status == 2
        json.loads(result.output_json or "null")
        json.loads(result.metadata_json or "{}")
        check_storable([result.output_json, result.error_message, result.metadata_json, result.duration_ms])


def test_the_messages_tried_are_often_taken() -> None:
    """A test in which everything is refused at the first rule would show nothing."""
    taken: Counter[str] = Counter()

    @given(
        st.one_of(messages(workflows_pb2.Workflow), messages(workflows_pb2.Workflow).map(make_graph)),
        messages(tasks_pb2.TaskSubmission),
        messages(workers_pb2.RegisterRequest).map(name_worker),
    )
    @settings(max_examples=100, database=None, derandomize=True)
    def count(
        workflow: workflows_pb2.Workflow, item: tasks_pb2.TaskSubmission, request: workers_pb2.RegisterRequest
    ) -> None:
        with suppress(InvalidInput):
            taken["workflow"] += bool(read_workflow("default", workflow, DEFINITIONS))
        [read] = read_tasks(tasks_pb2.SubmitTasksRequest(tasks=[item]), DEFINITIONS)
        taken["task"] += isinstance(read, NewTask)
        with suppress(InvalidInput):
            taken["worker"] += bool(read_registration(request))

    count()
    assert min(taken[kind] for kind in ("workflow", "task", "worker")) >= 5, taken


def test_the_check_itself_finds_what_cannot_be_stored() -> None:
    with pytest.raises(AssertionError):
        check_storable(["a\0b"])
    with pytest.raises(UnicodeEncodeError):
        check_storable(["\ud800"])
