"""Builds what is submitted from Python values. Nothing is checked here that the scheduler checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from taskyard.v1.tasks_pb2 import TaskSubmission, TriggerTaskRequest
from taskyard.v1.workflows_pb2 import RunSubmission
from taskyard_client.arguments import named
from taskyard_client.errors import InvalidInput, Violation
from taskyard_client.policies import Placement, Resources, Retry, Timeouts

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_text(value: Mapping[str, Any] | None, field: str) -> str:
    """Returns a JSON object as text, and nothing for None.

    Args:
        value: What `json` can write; no NaN, no infinity.
        field: Its name in errors.

    Raises:
        InvalidInput: It cannot be written as JSON.
    """
    if value is None:
        return ""
    try:
        return _ENCODER.encode(value if type(value) is dict else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        say = f"cannot be written as JSON: {error}; give text, numbers, true, false, null, lists and mappings"
        raise InvalidInput(say, [Violation(field, say)]) from None


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

    Raises:
        InvalidInput: The input cannot be written as JSON, a selector is given twice, or an argument is of another
            kind: the violation names it and what is wanted.
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
    return task


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
) -> RunSubmission:
    """Returns a run to be started.

    Args:
        workflow: Its name.
        inputs: What it takes.
        version: Which version of it. 0: the newest.
        priority: Replaces the steps'. None: theirs.
        idempotency_key: Runs with the same key are one.
        request_id: Makes a repeat harmless. Empty: the client gives one.

    Raises:
        InvalidInput: The inputs cannot be written as JSON, or an argument is of another kind.
    """
    return RunSubmission(
        request_id=request_id,
        workflow=workflow,
        version=version,
        inputs_json=json_text(inputs, "inputs"),
        idempotency_key=idempotency_key,
        priority=priority,
    )


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
