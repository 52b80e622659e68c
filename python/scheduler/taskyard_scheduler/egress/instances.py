"""Instances and their attempts as clients see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Final

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import (
    INSTANCE_COLUMNS,
    INSTANCE_FIXED,
    INSTANCE_KEY,
    PENDING,
    QUEUED,
    Instance,
    Row,
)
from taskyard_scheduler.egress.values import error_of, put_time, text_map, timestamp

BRIEF_LIMIT: Final = 1_000
"""In lists, params, input and output of more characters are left out."""

_COLUMNS: Final = len(INSTANCE_COLUMNS)
_KEYS: Final = len(INSTANCE_KEY)
_fixed: Final[Callable[[Instance], Row]] = attrgetter(*INSTANCE_KEY, *INSTANCE_FIXED)


def instance_from_row(row: Row, live: Instance | None = None) -> pb.TaskInstance:
    """Returns an instance as its row says.

    Args:
        row: INSTANCE_COLUMNS; further columns are passed over.
        live: The same instance in memory, if it is there: what its running attempt says of itself is added.
    """
    (
        _, id, task_name, task_type, _, run_id, step_id, priority, params_json, input_json, _, _, _, _, key, _,
        created_at, state, _, _, _, attempt, retries, _, worker_id, _, _, queued_at, assigned_at, started_at,
        ended_at, _, output_json, error_kind, error_message, metadata_json, _, revision,
    ) = row[:_COLUMNS]  # fmt: skip
    task = pb.TaskInstance(
        task_id=id,
        task_name=task_name,
        task_type=task_type,
        status=state,
        priority=priority,
        params=text_map(params_json) if params_json else None,
        input_json=input_json,
        output_json=output_json,
        attempt=attempt,
        retry_count=retries,
        worker_id=worker_id,
        run_id=run_id,
        step_id=step_id,
        revision=revision,
        metadata=text_map(metadata_json) if metadata_json else None,
        idempotency_key=key,
        error=error_of(state, error_kind, error_message) if error_kind or error_message else None,
    )
    put_time(task.create_time, created_at)
    if queued_at is not None:
        put_time(task.queue_time, queued_at)
    if assigned_at is not None:
        put_time(task.assign_time, assigned_at)
    if started_at is not None:
        put_time(task.start_time, started_at)
    if ended_at is not None:
        put_time(task.end_time, ended_at)
    if live is not None:
        if live.percent is not None:
            task.percent = live.percent
        task.progress_message = live.progress_message
    return task


def instance_snapshot(instance: Instance, row: Row) -> pb.TaskInstance:
    """Returns an instance as it was committed.

    Args:
        instance: The instance; only what never changes is taken from it, and what a live attempt says of itself.
        row: Its INSTANCE_UPDATE row of the commit, or its INSTANCE_COLUMNS row.
    """
    whole = row if len(row) >= _COLUMNS else _fixed(instance) + row[_KEYS:]
    return instance_from_row(whole, instance)


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
    return _attempt(number, status, worker_id, (assigned_at, started_at, ended_at), error_of(status, kind, message))


def _present_attempt(row: Row) -> pb.TaskAttempt | None:
    """Returns the attempt that the instance's own row tells of; None when it has none, or waits for the next."""
    values = dict(zip(INSTANCE_COLUMNS, row, strict=False))
    if not values["attempt"] or values["state"] in (PENDING, QUEUED):
        return None
    error = error_of(values["state"], values["error_kind"], values["error_message"])
    times = (values["assigned_at"], values["started_at"], values["ended_at"])
    return _attempt(values["attempt"], values["state"], values["worker_id"], times, error)


def _attempt(
    number: int,
    status: int,
    worker_id: str,
    times: tuple[int | None, int | None, int | None],
    error: pb.TaskError | None,
) -> pb.TaskAttempt:
    assigned, started, ended = (None if each is None else timestamp(each) for each in times)
    return pb.TaskAttempt(
        attempt=number,
        status=status,  # type: ignore[arg-type]  # the numbers are those of the enum
        worker_id=worker_id,
        assign_time=assigned,
        start_time=started,
        end_time=ended,
        error=error,
    )


def _length(texts: Mapping[str, str]) -> int:
    return sum(len(key) + len(value) for key, value in texts.items())
