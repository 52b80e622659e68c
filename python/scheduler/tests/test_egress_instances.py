"""Instances, their attempts and explanations as clients see them."""

from __future__ import annotations

import json

import pytest
import store_rows

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.explain import WaitReason
from taskyard_core.engine.instances import instance_from_row as make_live
from taskyard_core.policy_codec import dump_policy
from taskyard_core.records import INSTANCE_COLUMNS, Policy, TaskState, instance_update_row
from taskyard_scheduler.egress.explain import explain_ended, explain_live
from taskyard_scheduler.egress.instances import attempts_of, brief, instance_from_row, instance_snapshot

NOW = store_rows.NOW
ENDED = {
    "task_name": "greet", "task_type": "py", "run_id": "run", "step_id": "step", "priority": 2,
    "params_json": '{"a": "1", "é": "🙂"}', "input_json": '{"n": 1}', "idempotency_key": "key",
    "state": TaskState.SUCCESS, "phase": 9, "attempt": 2, "retries": 1, "worker_id": "w", "token": "t2",
    "queued_at": NOW + 1, "assigned_at": NOW + 2, "started_at": NOW + 3, "ended_at": NOW + 4_567,
    "output_json": '"out"', "metadata_json": '{"tokens":"3"}', "revision": 77, "duration_ms": 9,
}  # fmt: skip


def ms(task: pb.TaskInstance, field: str) -> int | None:
    return getattr(task, field).ToMilliseconds() if task.HasField(field) else None  # type: ignore[arg-type]


def test_every_column_that_clients_see_arrives() -> None:
    row = store_rows.instance(**ENDED)
    task = instance_from_row(row)
    assert task.task_id == row[INSTANCE_COLUMNS.index("id")]
    assert (task.task_name, task.task_type, task.run_id, task.step_id) == ("greet", "py", "run", "step")
    assert (task.status, task.priority, task.attempt, task.retry_count) == (pb.TASK_STATUS_SUCCESS, 2, 2, 1)
    assert dict(task.params) == {"a": "1", "é": "🙂"}
    assert (task.input_json, task.output_json, dict(task.metadata)) == ('{"n": 1}', '"out"', {"tokens": "3"})
    assert (task.worker_id, task.idempotency_key, task.revision) == ("w", "key", 77)
    times = [ms(task, f"{name}_time") for name in ("create", "queue", "assign", "start", "end")]
    assert times == [NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 4_567]
    assert not task.HasField("error")
    assert not task.HasField("percent")


def test_further_columns_are_passed_over_and_absent_times_stay_absent() -> None:
    task = instance_from_row((*store_rows.instance(), None, 0))
    assert [ms(task, f"{name}_time") for name in ("create", "queue", "assign", "start", "end")] == [
        NOW, NOW, None, None, None,
    ]  # fmt: skip
    assert task.idempotency_key == ""


@pytest.mark.parametrize("policy", [Policy(cpu_millis=500), Policy(memory_mb=2_048), Policy(gpus=1, exclusive=True)])
def test_the_resources_asked_for_are_shown_and_only_those(policy: Policy) -> None:
    task = instance_from_row(store_rows.instance(policy_json=dump_policy(policy)))
    assert task.HasField("resources")
    shown = (task.resources.cpu_millis, task.resources.memory_mb, task.resources.gpus)
    assert shown == (policy.cpu_millis, policy.memory_mb, policy.gpus)


@pytest.mark.parametrize("policy", [Policy(), Policy(run_ms=7, exclusive=True)])
def test_who_asks_for_no_resources_is_shown_with_none(policy: Policy) -> None:
    assert not instance_from_row(store_rows.instance(policy_json=dump_policy(policy))).HasField("resources")


def test_a_live_attempt_says_how_far_it_is() -> None:
    row = store_rows.instance(state=TaskState.RUNNING, phase=2, attempt=1)
    live = make_live(row)
    assert not instance_from_row(row, live).HasField("percent")
    live.percent, live.progress_message = 0.0, "begun"
    task = instance_from_row(row, live)
    assert (task.HasField("percent"), task.percent, task.progress_message) == (True, 0.0, "begun")


def test_a_snapshot_is_what_was_committed_not_what_memory_says_now() -> None:
    instance = make_live(store_rows.instance(**ENDED))
    row = instance_update_row(instance)
    expected = instance_from_row(store_rows.instance(**ENDED, id=instance.id))
    instance.state, instance.output_json, instance.attempt = TaskState.FAILED, "later", 9
    assert instance_snapshot(instance, row) == expected
    assert instance_snapshot(instance, store_rows.instance(**ENDED, id=instance.id)) == expected


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (TaskState.SUCCESS, False), (TaskState.RUNNING, False), (TaskState.ASSIGNED, False),
        (TaskState.CANCELLING, False), (TaskState.FAILED, True), (TaskState.TIMEOUT, True),
        (TaskState.PENDING, True), (TaskState.QUEUED, True), (TaskState.CANCELLED, True), (TaskState.SKIPPED, True),
    ],
)  # fmt: skip
def test_an_error_is_shown_when_the_last_attempt_ended_with_it(state: TaskState, shown: bool) -> None:
    row = store_rows.instance(state=state, error_kind="HANDLER_ERROR", error_message="boom")
    task = instance_from_row(row)
    assert task.HasField("error") == shown
    assert not shown or (task.error.kind, task.error.message) == ("HANDLER_ERROR", "boom")


def test_half_a_surrogate_pair_in_a_rendered_parameter_becomes_a_mark() -> None:
    row = store_rows.instance(params_json=json.dumps({"a": "x\ud800y", "b": "🙂"}))
    assert dict(instance_from_row(row).params) == {"a": "x\ufffdy", "b": "🙂"}


def test_lists_leave_out_what_is_long() -> None:
    short = instance_from_row(store_rows.instance(**ENDED))
    assert brief(pb.TaskInstance.FromString(short.SerializeToString())) == short
    long = json.dumps("x" * 1_000)
    task = brief(
        instance_from_row(store_rows.instance(params_json=json.dumps({"a": long}), input_json=long, output_json=long))
    )
    assert (len(task.params), task.input_json, task.output_json) == (0, "", "")
    assert task.task_type == "greet"


# Attempts.


def earlier(number: int) -> tuple[object, ...]:
    return (
        "default", "i", number, f"t{number}", f"w{number}", 1, TaskState.FAILED, NOW, NOW + number, NOW + 10,
        "HANDLER_ERROR", "boom",
    )  # fmt: skip


def test_attempts_are_the_stored_ones_and_the_present_one() -> None:
    attempts = attempts_of(store_rows.instance(**ENDED), [earlier(1)])
    assert [each.attempt for each in attempts] == [1, 2]
    assert [each.status for each in attempts] == [pb.TASK_STATUS_FAILED, pb.TASK_STATUS_SUCCESS]
    assert [each.worker_id for each in attempts] == ["w1", "w"]
    assert attempts[0].error.kind == "HANDLER_ERROR"
    assert not attempts[1].HasField("error")
    assert attempts[1].start_time.ToMilliseconds() == NOW + 3
    assert attempts[1].end_time.ToMilliseconds() == NOW + 4_567


@pytest.mark.parametrize("state", [TaskState.PENDING, TaskState.QUEUED])
def test_what_waits_for_its_next_attempt_has_no_present_one(state: TaskState) -> None:
    row = store_rows.instance(state=state, attempt=1, error_kind="HANDLER_ERROR")
    assert [each.attempt for each in attempts_of(row, [earlier(1)])] == [1]


def test_what_was_cancelled_while_it_waited_repeats_no_attempt() -> None:
    row = store_rows.instance(state=TaskState.CANCELLED, phase=9, attempt=1, ended_at=NOW)
    assert [each.status for each in attempts_of(row, [earlier(1)])] == [pb.TASK_STATUS_FAILED]


def test_without_attempts_there_are_none() -> None:
    assert attempts_of(store_rows.instance(), []) == []


def test_an_attempt_that_runs_has_no_end() -> None:
    row = store_rows.instance(state=TaskState.RUNNING, phase=2, attempt=1, assigned_at=NOW, started_at=None)
    [attempt] = attempts_of(row, [])
    assert attempt.HasField("assign_time")
    assert not attempt.HasField("start_time")
    assert not attempt.HasField("end_time")


# Why.


def test_a_live_one_is_explained_by_its_reasons() -> None:
    reasons = [WaitReason("WORKERS_BUSY", "all 4 slots are taken", {"slots": "4"}), WaitReason("BEHIND_OTHERS", "x")]
    answer = explain_live(TaskState.QUEUED, reasons, Policy())
    assert answer.status == pb.TASK_STATUS_QUEUED
    assert [each.code for each in answer.reasons] == ["WORKERS_BUSY", "BEHIND_OTHERS"]
    assert dict(answer.reasons[0].variables) == {"slots": "4"}
    assert answer.summary == "The task is QUEUED: all 4 slots are taken."


@pytest.mark.parametrize(
    ("columns", "summary"),
    [
        ({"state": TaskState.SUCCESS, "attempt": 2, "worker_id": "w", "duration_ms": 7},
         "The task ended well in attempt 2 on worker w, after 7 ms."),
        ({"state": TaskState.FAILED, "attempt": 3, "worker_id": "w", "retries": 2, "error_kind": "HANDLER_ERROR",
          "error_message": "boom"},
         "The task failed in attempt 3 on worker w, with 2 retries spent: HANDLER_ERROR: boom."),
        ({"state": TaskState.FAILED, "attempt": 1, "worker_id": "w", "duration_ms": 9, "retries": 1, "error_kind": "X"},
         "The task failed in attempt 1 on worker w, after 9 ms, with 1 retry spent: X."),
        ({"state": TaskState.TIMEOUT, "error_kind": "QUEUED_TIMEOUT"},
         "The task timed out, with 0 retries spent: QUEUED_TIMEOUT."),
        ({"state": TaskState.CANCELLED, "cancel_reason": "not needed"}, "The task was cancelled: not needed."),
        ({"state": TaskState.SKIPPED, "error_kind": "UPSTREAM_FAILED"}, "The task was not run: UPSTREAM_FAILED."),
        ({"state": TaskState.SKIPPED}, "The task was not run: the steps before it did not ask for it."),
    ],
)  # fmt: skip
def test_an_ended_one_is_explained_by_its_end(columns: dict[str, object], summary: str) -> None:
    answer = explain_ended(store_rows.instance(**{"phase": 9, **columns}), Policy())
    assert answer.summary == summary
    assert answer.status == columns["state"]
    assert not answer.reasons


@pytest.mark.parametrize(
    ("policy", "amounts"),
    [
        (Policy(), ""),
        (Policy(cpu_millis=500, memory_mb=1, gpus=1), "0.5 cores, 1 MiB, 1 GPU"),
    ],
)
def test_the_resources_asked_for_are_told_whatever_the_state(policy: Policy, amounts: str) -> None:
    waits = explain_live(TaskState.QUEUED, [WaitReason("NO_WORKER_FOR_TYPE", "no worker")], policy)
    ended = explain_ended(store_rows.instance(state=TaskState.SKIPPED, phase=9), policy)
    assert waits.summary.partition("no worker.")[2] == (f" It asks for {amounts}." if amounts else "")
    assert ended.summary.partition("did not ask for it.")[2] == (f" It asked for {amounts}." if amounts else "")


def test_resources_that_a_reason_tells_are_told_once() -> None:
    reasons = [WaitReason("RESOURCES_SHORT", "it asks for 1 GPU, which is short", {"asks": "1 GPU"})]
    answer = explain_live(TaskState.QUEUED, reasons, Policy(gpus=1))
    assert answer.summary == "The task is QUEUED: it asks for 1 GPU, which is short."
    assert dict(answer.reasons[0].variables) == {"asks": "1 GPU"}
