"""Builds what is submitted from Python values. Nothing is checked here that the scheduler checks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration

from taskyard.v1.tasks_pb2 import TaskSubmission, TriggerTaskRequest
from taskyard.v1.workflows_pb2 import RunSubmission
from taskyard_client.arguments import named, shown
from taskyard_client.errors import InvalidInput, Violation
from taskyard_client.policies import Placement, Resources, Retry, Seconds, Timeouts, duration

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_text(value: Mapping[str, Any] | None, field: str) -> str:
    """Returns a JSON object as text, and nothing for None.

    Args:
        value: What `json` can write; no NaN, no infinity.
        field: Its name in errors.

    Raises:
        InvalidInput: It is no mapping, or cannot be written as JSON.
    """
    if value is None:
        return ""
    if type(value) is not dict and not hasattr(value, "keys"):  # a list of pairs, too: ["ab"] would be {"a": "b"}
        say = f'is {shown(value)}; give a mapping of names to values (dict), for example {{"year": 2026}}'
        raise InvalidInput(say, [Violation(field, say)]) from None
    try:
        return _ENCODER.encode(value if type(value) is dict else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_json(field, error) from None


def json_value(value: Any, field: str) -> str:
    """Returns any JSON value as text, and nothing for None; otherwise as `json_text`."""
    if value is None:
        return ""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_json(field, error) from None


def _no_json(field: str, error: Exception) -> InvalidInput:
    say = f"cannot be written as JSON: {error}; give text, numbers, true, false, null, lists and mappings"
    return InvalidInput(say, [Violation(field, say)])


@named
def new_task(
    task_type: str = "",
    input: Mapping[str, Any] | None = None,
    *,
    task_name: str = "",
    params: Mapping[str, str] | None = None,
    priority: int | None = None,
    retry: Retry | None = None,
    timeouts: Timeouts | None = None,
    selector: str = "",
    placement: Placement | None = None,
    resources: Resources | None = None,
    exclusive: bool | None = None,
    idempotency_key: str = "",
    request_id: str = "",
    traceparent: str = "",
    schedule_time: datetime | None = None,
    start_delay: Seconds | None = None,
    expire_time: datetime | None = None,
    tags: Iterable[str] = (),
) -> TaskSubmission:
    """Returns a task to be submitted.

    Args:
        task_type: Which handler runs it. Empty: that of `task_name`.
        input: Typed input.
        task_name: Definition whose type, defaults and policies apply.
        params: Flat parameters.
        priority: 1 (first) to 10 (last). None: the definition's, else 5.
        retry: When a failed attempt is followed by another.
        timeouts: How long each phase may take.
        selector: Labels that the worker must have; short for `placement=Placement(selector=...)`.
        placement: Where it may and would rather run.
        resources: What it holds while it runs.
        exclusive: True: never two attempts alive at once.
        idempotency_key: Tasks with the same key are one.
        request_id: Makes a repeat harmless. Empty: the client gives one.
        traceparent: W3C trace context.
        schedule_time: It is not queued before, with a time zone. None: at once.
        start_delay: It is not queued before so long after its submission. None: at once.
        expire_time: It ends if it has not started by then, with a time zone. None: never.
        tags: Words to find it by.

    Raises:
        InvalidInput: The input cannot be written as JSON, a selector is given twice, a time has no time zone, or an
            argument is of another kind: the violation names it and what is wanted.
    """
    if selector:
        if placement is not None:
            say = "is given beside `placement`; write it as Placement(selector=...)"
            raise InvalidInput(say, [Violation("selector", say)])
        placement = Placement(selector)
    # Most tasks give little of this, and setting what is absent would be most of the cost.
    task = TaskSubmission(request_id=request_id, task_type=task_type)
    if input is not None:
        task.input_json = json_text(input, "input")
    if params is not None:
        task.params.update(params)
    if task_name or idempotency_key or traceparent:
        task.task_name, task.idempotency_key, task.traceparent = task_name, idempotency_key, traceparent
    if priority is not None:
        task.priority = priority
    if exclusive is not None:
        task.exclusive = exclusive
    if timeouts is not None or retry is not None or resources is not None or placement is not None:
        task.MergeFrom(_policies(timeouts, retry, resources, placement))
    if tags or schedule_time or start_delay is not None or expire_time:
        _put_schedule(task, schedule_time, start_delay, expire_time, tags)
    return task


def _put_schedule(
    item: TaskSubmission | RunSubmission,
    schedule_time: datetime | None,
    start_delay: Seconds | None,
    expire_time: datetime | None,
    tags: Iterable[str],
) -> None:
    if isinstance(tags, str):
        say = f"is the text {tags!r}; give a list of tags, such as [{tags!r}]"
        raise InvalidInput(say, [Violation("tags", say)])
    item.tags.extend(tags)
    if schedule_time is not None:
        item.schedule_time.FromDatetime(zoned(schedule_time, "schedule_time"))
    if start_delay is not None:
        item.start_delay.MergeFrom(duration(start_delay) or Duration())
    if expire_time is not None:
        item.expire_time.FromDatetime(zoned(expire_time, "expire_time"))


def zoned(time: datetime, field: str) -> datetime:
    """Returns the time.

    Raises:
        InvalidInput: It has no time zone: which moment it is would depend on where it is read.
    """
    if time.tzinfo is not None:
        return time
    say = f"{time.isoformat()} has no time zone; add one: `.astimezone()` takes it as local time"
    raise InvalidInput(say, [Violation(field, say)])


def _policies(
    timeouts: Timeouts | None, retry: Retry | None, resources: Resources | None, placement: Placement | None
) -> TaskSubmission:
    return TaskSubmission(
        timeouts=None if timeouts is None else timeouts.message(),
        retry=None if retry is None else retry.message(),
        resources=None if resources is None else resources.message(),
        placement=None if placement is None else placement.message(),
    )


@named
def new_run(
    workflow: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    version: int = 0,
    priority: int | None = None,
    idempotency_key: str = "",
    request_id: str = "",
    schedule_time: datetime | None = None,
    start_delay: Seconds | None = None,
    expire_time: datetime | None = None,
    tags: Iterable[str] = (),
) -> RunSubmission:
    """Returns a run to be started.

    Args:
        workflow: Its name.
        inputs: What it takes.
        version: Which version of it. 0: the newest.
        priority: Replaces the steps'. None: theirs.
        idempotency_key: Runs with the same key are one.
        request_id: Makes a repeat harmless. Empty: the client gives one.
        schedule_time: It does not begin before, with a time zone. None: at once.
        start_delay: It does not begin before so long after the call. None: at once.
        expire_time: A first step that has not started by then ends, with a time zone. None: never.
        tags: Words to find it and the tasks of its steps by.

    Raises:
        InvalidInput: The inputs cannot be written as JSON, a time has no time zone, or an argument is of another kind.
    """
    run = RunSubmission(
        request_id=request_id,
        workflow=workflow,
        version=version,
        inputs_json=json_text(inputs, "inputs"),
        idempotency_key=idempotency_key,
        priority=priority,
    )
    _put_schedule(run, schedule_time, start_delay, expire_time, tags)
    return run


@named
def new_trigger(
    name: str,
    input: Mapping[str, Any] | None = None,
    *,
    params: Mapping[str, str] | None = None,
    request_id: str = "",
) -> TriggerTaskRequest:
    """Returns the wish for a task of a definition; the arguments are those of `AsyncClient.trigger`.

    Raises:
        InvalidInput: The input cannot be written as JSON, or an argument is of another kind.
    """
    return TriggerTaskRequest(request_id=request_id, name=name, params=params, input_json=json_text(input, "input"))
