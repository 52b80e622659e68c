"""Instances and their attempts as clients see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.policy_codec import load_policy
from taskyard_core.records import (
    INSTANCE_COLUMNS,
    PENDING,
    QUEUED,
    Instance,
    Row,
    committed_row,
)
from taskyard_core.tags import load_tags
from taskyard_core.templates import fill_input, fill_params
from taskyard_scheduler.egress.values import put_error, put_resources, put_texts, put_time

BRIEF_LIMIT: Final = 1_000
"""In lists, params, input and output of more characters are left out."""

_COLUMNS: Final = len(INSTANCE_COLUMNS)


def instance_from_row(row: Row, live: Instance | None = None) -> pb.TaskInstance:
    """Returns an instance as its row says.

    Args:
        row: INSTANCE_COLUMNS; further columns are passed over.
        live: The same instance in memory, if it is there: what its running attempt says of itself is added.
    """
    (
        _, id, task_name, task_type, _, run_id, step_id, priority, params_json, input_json, policy_json, _, _, _,
        key, _, created_at, expire_at, tags, state, _, _, not_before, attempt, retries, _, worker_id, _, _, queued_at,
        assigned_at, started_at, ended_at, _, output_json, error_kind, error_message, metadata_json, _, revision,
    ) = row[:_COLUMNS]  # fmt: skip
    task = pb.TaskInstance()
    task.task_id = id
    task.task_type = task_type
    task.status = state
    task.priority = priority
    task.attempt = attempt
    task.worker_id = worker_id
    task.revision = revision
    put_time(task.create_time, created_at)
    _put_times(task, queued_at, assigned_at, started_at, ended_at)
    shown = attempt or 1
    _put_work(task, fill_params(params_json, shown), fill_input(input_json, shown), output_json, metadata_json)
    if error_kind or error_message:
        put_error(task, state, error_kind, error_message)
    if run_id:
        task.run_id = run_id
        task.step_id = step_id
    if task_name:
        task.task_name = task_name
    if retries:
        task.retry_count = retries
    if key:
        task.idempotency_key = key
    if policy_json:
        put_resources(task.resources, load_policy(policy_json))
    if not_before is not None or expire_at is not None:
        _put_schedule(task, not_before, expire_at)
    if tags:
        task.tags.extend(load_tags(tags))
    if live is not None:
        _put_progress(task, live)
    return task


def _put_progress(task: pb.TaskInstance, live: Instance) -> None:
    if live.percent is not None:
        task.percent = live.percent
    task.progress_message = live.progress_message


def _put_schedule(task: pb.TaskInstance, due: int | None, expiry: int | None) -> None:
    if due is not None:
        put_time(task.schedule_time, due)
    if expiry is not None:
        put_time(task.expire_time, expiry)


def _put_times(
    task: pb.TaskInstance, queued: int | None, assigned: int | None, started: int | None, ended: int | None
) -> None:
    if queued is not None:
        put_time(task.queue_time, queued)
    if assigned is not None:
        put_time(task.assign_time, assigned)
    if started is not None:
        put_time(task.start_time, started)
    if ended is not None:
        put_time(task.end_time, ended)


def _put_work(task: pb.TaskInstance, params: str, input: str, output: str, metadata: str) -> None:
    if params:
        put_texts(task.params, params)
    if input:
        task.input_json = input
    if output:
        task.output_json = output
    if metadata:
        put_texts(task.metadata, metadata)


def instance_snapshot(instance: Instance, row: Row) -> pb.TaskInstance:
    """Returns an instance as it was committed.

    Args:
        instance: The instance; only what never changes is taken from it, and what a live attempt says of itself.
        row: Its INSTANCE_UPDATE row of the commit, or its INSTANCE_COLUMNS row.
    """
    return instance_from_row(committed_row(instance, row), instance)


def brief(task: pb.TaskInstance) -> pb.TaskInstance:
    """Leaves out of an instance for a list what is long. Returns the same message."""
    if len(task.input_json) > BRIEF_LIMIT:
        task.ClearField("input_json")
    if len(task.output_json) > BRIEF_LIMIT:
        task.ClearField("output_json")
    if _length(task.params) > BRIEF_LIMIT:
        task.ClearField("params")
    return task


def attempts_of(row: Row, attempt_rows: Iterable[Row]) -> list[pb.TaskAttempt]:
    """Returns all attempts of an instance, in order.

    Args:
        row: The instance's INSTANCE_COLUMNS.
        attempt_rows: ATTEMPT_COLUMNS of the attempts that were followed by another, in order.
    """
    attempts = [_stored_attempt(each) for each in attempt_rows]
    present = _present_attempt(row)
    if present is not None and all(each.attempt != present.attempt for each in attempts):
        attempts.append(present)
    return attempts


def _stored_attempt(row: Row) -> pb.TaskAttempt:
    _, _, number, _, worker_id, _, status, assigned_at, started_at, ended_at, kind, message = row
    return _attempt(number, status, worker_id, (assigned_at, started_at, ended_at), (kind, message))


def _present_attempt(row: Row) -> pb.TaskAttempt | None:
    """Returns the attempt that the instance's own row tells of; None when it has none, or waits for the next."""
    value = dict(zip(INSTANCE_COLUMNS, row, strict=False))
    if not value["attempt"] or value["state"] in (PENDING, QUEUED):
        return None
    times = (value["assigned_at"], value["started_at"], value["ended_at"])
    error = (value["error_kind"], value["error_message"])
    return _attempt(value["attempt"], value["state"], value["worker_id"], times, error)


def _attempt(
    number: int,
    status: int,
    worker_id: str,
    times: tuple[int | None, int | None, int | None],
    error: tuple[str, str],
) -> pb.TaskAttempt:
    attempt = pb.TaskAttempt(attempt=number, status=status, worker_id=worker_id)  # type: ignore[arg-type]
    for target, ms in zip((attempt.assign_time, attempt.start_time, attempt.end_time), times, strict=True):
        if ms is not None:
            put_time(target, ms)
    put_error(attempt, status, *error)
    return attempt


def _length(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in texts.items())
