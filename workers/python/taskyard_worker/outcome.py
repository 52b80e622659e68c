"""How an attempt ended: the status with the text that goes with it.

Not the sending of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskyard.v1.tasks_pb2 import (
    TASK_STATUS_DEFERRED,
    TASK_STATUS_FAILED,
    TASK_STATUS_REJECTED,
    TASK_STATUS_SUCCESS,
    TASK_STATUS_UNSPECIFIED,
    TaskStatus,
)
from taskyard_worker.context import AttemptPort
from taskyard_worker.deferral import Deferral, returned
from taskyard_worker.errors import TaskStopped
from taskyard_worker.verdict import HANDLER_ERROR, cut, failure_text, handler_traceback, output_text, own_text, says_all


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt.

    Attributes:
        kind: The machine-readable reason of a failure.
        metadata: Further facts.
        defer_timeout_ms: Of a deferred one: how long its result is waited for; 0 for the default.
    """

    status: TaskStatus.ValueType
    output_json: str = ""
    error: str = ""
    kind: str = ""
    metadata: Mapping[str, str] | None = None
    defer_timeout_ms: int = 0


NOTHING_RETURNED = Outcome(TASK_STATUS_SUCCESS)
STOPPED = Outcome(TASK_STATUS_UNSPECIFIED)
"""The attempt was told to stop, and did. Its status is that of the order."""


def succeeded(value: Any, wanted: Deferral | None = None) -> Outcome:
    """Return the outcome of a handler that returned.

    A built-in handler may return an Outcome, which is taken as it is.

    Args:
        value: What it returned.
        wanted: What `ctx.defer` gave it; None when it was not called.

    Raises:
        NonRetryable: What it returned cannot be stored, or is not what `ctx.defer` gave it.
    """
    if wanted is not None and (deferral := returned(value, wanted)) is not None:
        return deferred(deferral.timeout_ms)
    if value is None:
        return NOTHING_RETURNED
    if isinstance(value, Outcome):
        return value
    return Outcome(TASK_STATUS_SUCCESS, output_text(value))


def deferred(timeout_ms: int) -> Outcome:
    """Return the outcome of a handler that ended and whose result comes from outside."""
    return Outcome(TASK_STATUS_DEFERRED, defer_timeout_ms=timeout_ms)


def failed(error: BaseException, attempt: AttemptPort) -> Outcome:
    """Return the outcome of a handler that raised; its traceback goes to the attempt's log, for its author."""
    if isinstance(error, TaskStopped) and attempt.stopping:
        return STOPPED
    text, kind = failure_text(error)
    if not says_all(error):
        attempt.write_log("ERROR", handler_traceback(error))
    return Outcome(TASK_STATUS_FAILED, error=text, kind=kind)


def cancelled_itself(error: BaseException) -> Outcome:
    """Return the outcome of a handler that let out a cancellation that nobody had ordered."""
    text = own_text(error)
    detail = f" ({text})" if text else ""
    return Outcome(
        TASK_STATUS_FAILED,
        error=cut(f"the handler awaited something that was cancelled{detail}, though the task itself was not"),
        kind=HANDLER_ERROR,
    )


def unknown_type(task_type: str) -> Outcome:
    """Return the outcome of a task that this worker has no handler for: handed back, unrun."""
    return Outcome(
        TASK_STATUS_REJECTED,
        error=f"this worker has no handler for task type {task_type[:200]!r}",
        kind="UNKNOWN_TASK_TYPE",
    )
