"""Runs and their steps as clients see them."""

from __future__ import annotations

import pytest
import store_rows

from taskyard.v1 import tasks_pb2
from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.engine.instances import instance_from_row as make_live
from taskyard_core.records import RunState, TaskState, instance_update_row
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.egress.runs import run_from_row, step_from_instance, steps_of
from taskyard_scheduler.ingress.workflows import read_workflow

NOW = store_rows.NOW


@pytest.fixture(name="plan")
def make_plan() -> WorkflowVersion:
    steps = [
        pb.WorkflowStep(id="a", task_type="ta"),
        pb.WorkflowStep(id="b", task_type="tb", needs=["a"]),
        pb.WorkflowStep(id="c", task_type="tc", needs=["b", "a"]),
    ]
    return read_workflow("default", pb.Workflow(name="flow", steps=steps), {})


def test_every_column_that_clients_see_arrives() -> None:
    row = store_rows.run(
        version=3, state=RunState.FAILED, inputs_json='{"a":1}', output_json="1", error_message="why", ended_at=NOW + 9,
        steps_total=5, steps_ended=4, revision=8,
    )  # fmt: skip
    run = run_from_row(row)
    assert (run.run_id, run.workflow, run.version, run.state) == (row[1], "flow", 3, pb.RUN_STATE_FAILED)
    assert (run.inputs_json, run.output_json, run.error_message) == ('{"a":1}', "1", "why")
    assert (run.steps_total, run.steps_ended, run.revision) == (5, 4, 8)
    assert (run.create_time.ToMilliseconds(), run.end_time.ToMilliseconds()) == (NOW, NOW + 9)
    assert not run_from_row(store_rows.run(ended_at=None)).HasField("end_time")


@pytest.mark.parametrize(
    ("state", "unmade"),
    [
        (RunState.RUNNING, TaskState.PENDING),
        (RunState.CANCELLING, TaskState.CANCELLED),
        (RunState.CANCELLED, TaskState.CANCELLED),
        (RunState.FAILED, TaskState.SKIPPED),
        (RunState.SUCCEEDED, TaskState.SKIPPED),
    ],
)
def test_steps_come_in_the_workflows_order_with_those_that_have_no_instance(
    plan: WorkflowVersion, state: RunState, unmade: TaskState
) -> None:
    rows = [
        store_rows.instance(step_id="b", state=TaskState.FAILED, attempt=2, worker_id="w", error_kind="HANDLER_ERROR",
                            error_message="boom", started_at=NOW + 1, ended_at=NOW + 2),
        store_rows.instance(step_id="a", state=TaskState.SUCCESS),
    ]  # fmt: skip
    a, b, c = steps_of(store_rows.run(state=state), plan, rows)
    assert (a.step_id, a.status, list(a.needs)) == ("a", tasks_pb2.TASK_STATUS_SUCCESS, [])
    assert (b.step_id, b.status, list(b.needs)) == ("b", tasks_pb2.TASK_STATUS_FAILED, ["a"])
    assert (b.task_id, b.worker_id, b.attempt, b.error.kind) == (rows[0][1], "w", 2, "HANDLER_ERROR")
    assert (b.start_time.ToMilliseconds(), b.end_time.ToMilliseconds()) == (NOW + 1, NOW + 2)
    assert (c.step_id, c.task_id, c.task_type, sorted(c.needs)) == ("c", "", "tc", ["a", "b"])
    assert int(c.status) == unmade
    assert not c.HasField("end_time")


@pytest.mark.parametrize(
    ("after", "told"), [(-1, "abc"), (3, "abc"), (4, "bc"), (6, "bc"), (7, "b"), (8, "b"), (9, "")]
)
def test_who_resumes_is_told_what_is_newer(plan: WorkflowVersion, after: int, told: str) -> None:
    rows = [store_rows.instance(step_id="b", revision=9), store_rows.instance(step_id="a", revision=4)]
    run = store_rows.run(revision=7)
    assert "".join(step.step_id for step in steps_of(run, plan, rows, after=after)) == told


def test_a_step_is_what_was_committed_not_what_memory_says_now(plan: WorkflowVersion) -> None:
    instance = make_live(store_rows.instance(step_id="b", task_type="tb", state=TaskState.RUNNING, attempt=1))
    row = instance_update_row(instance)
    instance.state = TaskState.SUCCESS
    step = step_from_instance(instance, row, plan)
    assert (step.step_id, step.task_type, list(step.needs)) == ("b", "tb", ["a"])
    assert (step.status, step.attempt, step.task_id) == (tasks_pb2.TASK_STATUS_RUNNING, 1, instance.id)
    whole = store_rows.instance(step_id="b", id=instance.id, state=TaskState.FAILED)
    assert step_from_instance(instance, whole).status == tasks_pb2.TASK_STATUS_FAILED
