"""How an attempt ended, made from what its handler returned or raised.

Not the sending of it. Limits are those of the contract.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from taskyard.v1.tasks_pb2 import (
    TASK_STATUS_FAILED,
    TASK_STATUS_REJECTED,
    TASK_STATUS_SUCCESS,
    TASK_STATUS_UNSPECIFIED,
    TaskStatus,
)
from taskyard_worker.context import AttemptPort, clean_text, to_json
from taskyard_worker.errors import NonRetryable, TaskStopped

MAX_OUTPUT_BYTES = 256 * 1024
MAX_ERROR_BYTES = 64 * 1024
HANDLER_ERROR = "HANDLER_ERROR"

_CUT_MARK = " … [cut]"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an attempt: `kind` is the machine-readable reason of a failure."""

    status: TaskStatus.ValueType
    output_json: str = ""
    error: str = ""
    kind: str = ""


NOTHING_RETURNED = Outcome(TASK_STATUS_SUCCESS)
STOPPED = Outcome(TASK_STATUS_UNSPECIFIED)
"""The attempt was told to stop, and did. Its status is that of the order."""


def succeeded(value: Any) -> Outcome:
    """Return the outcome of a handler that returned; a value that cannot be stored is a failure.

    A built-in handler may return an Outcome, which is taken as it is.
    """
    if value is None:
        return NOTHING_RETURNED
    if isinstance(value, Outcome):
        return value
    try:
        output = to_json(value)
        size = len(output) if output.isascii() else len(output.encode())
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome(
            TASK_STATUS_FAILED,
            error=f"the handler returned what JSON cannot hold ({error}); return plain dicts, lists, text and numbers",
            kind=NonRetryable.kind,
        )
    if size > MAX_OUTPUT_BYTES:
        return Outcome(
            TASK_STATUS_FAILED,
            error=f"the handler returned {size} bytes of JSON, at most {MAX_OUTPUT_BYTES} fit; "
            "store the data elsewhere and return its address",
            kind=NonRetryable.kind,
        )
    return Outcome(TASK_STATUS_SUCCESS, output)


def failed(error: BaseException, attempt: AttemptPort) -> Outcome:
    """Return the outcome of a handler that raised; its traceback goes to the attempt's log, for its author."""
    if isinstance(error, TaskStopped) and attempt.stopping:
        return STOPPED
    if isinstance(error, NonRetryable):
        return Outcome(TASK_STATUS_FAILED, error=cut(str(error) or type(error).__name__), kind=error.kind)
    attempt.write_log("ERROR", handler_traceback(error))
    return Outcome(TASK_STATUS_FAILED, error=cut(describe(error)), kind=HANDLER_ERROR)


def cancelled_itself(error: BaseException) -> Outcome:
    """Return the outcome of a handler that let out a cancellation that nobody had ordered."""
    detail = f" ({error})" if str(error) else ""
    return Outcome(
        TASK_STATUS_FAILED,
        error=f"the handler awaited something that was cancelled{detail}, though the task itself was not",
        kind=HANDLER_ERROR,
    )


def unknown_type(task_type: str) -> Outcome:
    """Return the outcome of a task that this worker has no handler for: handed back, unrun."""
    return Outcome(
        TASK_STATUS_REJECTED,
        error=f"this worker has no handler for task type {task_type[:200]!r}",
        kind="UNKNOWN_TASK_TYPE",
    )


def describe(error: BaseException) -> str:
    """Return an exception in one line, without its traceback."""
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def handler_traceback(error: BaseException) -> str:
    """Return the traceback as the handler's author wants it: from the handler's first frame on."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__package__") == __package__:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def cut(text: str) -> str:
    """Cut a message at 64 KiB of UTF-8, with a mark, and make it valid Unicode."""
    text = clean_text(text)
    if len(text) * 4 <= MAX_ERROR_BYTES:
        return text
    data = text.encode()
    if len(data) <= MAX_ERROR_BYTES:
        return text
    return data[: MAX_ERROR_BYTES - len(_CUT_MARK.encode())].decode(errors="ignore") + _CUT_MARK
