"""What workers say about attempts. Hot path. Never refused: a result must not be lost because of odd text.

What cannot be kept as it is becomes a failure that says so (output that is no JSON or too large, an unknown status),
or is kept with a visible mark (NUL, texts that are too long).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from taskyard.v1 import tasks_pb2
from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.events import Progress, Result, WorkerFrame
from taskyard_core.retry import FailureKind
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.tasks import count_fault

OUTPUT_BYTES: Final = 256 * 1024
ERROR_BYTES: Final = 64 * 1024
CHECKPOINT_BYTES: Final = 256 * 1024
METADATA_ENTRIES: Final = 64
METADATA_KEY: Final = 200
METADATA_VALUE: Final = 10_000
PROGRESS_MESSAGE: Final = 1_000
RESULTS_LIMIT: Final = 512
CUT_MARK: Final = "… (cut)"
NUL_MARK: Final = "\N{SYMBOL FOR NULL}"

_SUCCESS: Final = tasks_pb2.TASK_STATUS_SUCCESS
_FAILED: Final = tasks_pb2.TASK_STATUS_FAILED
_ENDINGS: Final = frozenset({
    tasks_pb2.TASK_STATUS_SUCCESS, tasks_pb2.TASK_STATUS_FAILED, tasks_pb2.TASK_STATUS_TIMEOUT,
    tasks_pb2.TASK_STATUS_CANCELLED, tasks_pb2.TASK_STATUS_INTERRUPTED, tasks_pb2.TASK_STATUS_REJECTED,
    tasks_pb2.TASK_STATUS_DEFERRED,
})  # fmt: skip
_PLAIN_OUTPUTS: Final = frozenset({"", "null", "true", "false", "{}", "[]", '""', "0", "1"})


def read_frame(worker_id: str, epoch: int, frame: pb.AssignTaskRequest, stream: object) -> WorkerFrame:
    """Reads a frame of a worker's stream. Its `hello`, if it has one, is read by `read_hello`.

    Args:
        worker_id: Whose stream it is.
        epoch: The session of the stream.
        frame: The frame.
        stream: The stream, handed through.
    """
    return WorkerFrame(
        worker_id,
        epoch,
        [_read_result(told) for told in frame.results] if frame.results else (),
        [(told.task_id, told.attempt_token) for told in frame.acknowledgements] if frame.acknowledgements else (),
        [_read_progress(told) for told in frame.progress] if frame.progress else (),
        max(0, frame.credits),
        frame.draining,
        stream,
    )


def read_results(request: pb.ReportResultsRequest, reply: object) -> WorkerFrame:
    """Reads results that are reported outside the stream.

    Raises:
        InvalidInput: There is none, or there are more than 512.
    """
    count_fault("results", len(request.results), RESULTS_LIMIT)
    results: Sequence[Result] = [_read_result(told) for told in request.results]
    return WorkerFrame(request.worker_id, request.session_epoch, results, reply=reply)


def _read_result(told: pb.TaskResult) -> Result:
    status = told.status
    duration = told.duration_ms
    metadata = told.metadata
    result = Result(
        told.task_id,
        told.attempt_token,
        status,
        duration_ms=duration if duration > 0 else 0,
        metadata_json=_metadata(metadata) if metadata else "",
    )
    if status == _SUCCESS:
        output = told.output_json
        if output in _PLAIN_OUTPUTS:
            result.output_json = output
        else:
            _read_output(output, result)
    else:
        _read_failure(told, result)
        result.defer_ms = max(0, told.defer_timeout_ms)
    return result


def _read_output(output: str, result: Result) -> None:
    if json_text.exceeds(output, OUTPUT_BYTES):
        result.status = _FAILED
        result.error_kind = FailureKind.OUTPUT_TOO_LARGE.value
        result.error_message = (
            f"the output takes {json_text.size(output):,} bytes and may take {OUTPUT_BYTES:,}: store it elsewhere"
            " and return a reference to it"
        )
        return
    try:
        json_text.parse(output, whole_characters=False)
    except json_text.NotJson as error:
        result.status = _FAILED
        result.error_kind = FailureKind.RESULT_NOT_STORABLE.value
        result.error_message = shown(f"the output cannot be stored: {error}", ERROR_BYTES)
    else:
        result.output_json = output


def _read_failure(told: pb.TaskResult, result: Result) -> None:
    """Reads how an attempt ended that did not succeed; what it put out does not count."""
    result.error_kind = told.error_kind
    result.error_message = shown(told.error_message, ERROR_BYTES)
    if result.status not in _ENDINGS:
        said = f": {result.error_message}" if result.error_message else ""
        text = f"the worker reported the status {result.status}, which no attempt ends with{said}"
        result.error_message = shown(text, ERROR_BYTES)
        result.error_kind = FailureKind.HANDLER_ERROR.value
        result.status = _FAILED


def _metadata(metadata: Mapping[str, str]) -> str:
    """Returns the first 64 entries by key as JSON."""
    return json_text.dump_texts({
        shown(key, METADATA_KEY): shown(metadata[key], METADATA_VALUE)
        for key in sorted(metadata)[:METADATA_ENTRIES]
    })  # fmt: skip


def _read_progress(told: pb.TaskProgress) -> Progress:
    percent = told.percent if told.HasField("percent") else math.nan
    progress = Progress(
        told.task_id,
        told.attempt_token,
        None if math.isnan(percent) else min(100.0, max(0.0, percent)),
        shown(told.message, PROGRESS_MESSAGE),
        cancel_unconfirmed=told.cancel_unconfirmed,
    )
    if not told.HasField("checkpoint"):
        return progress
    if json_text.exceeds(told.checkpoint, CHECKPOINT_BYTES):
        size = json_text.size(told.checkpoint)
        progress.message = (
            f"checkpoint {told.checkpoint_number} was not kept: it takes {size:,} bytes and may take"
            f" {CHECKPOINT_BYTES:,}"
        )
        return progress
    progress.checkpoint = told.checkpoint  # as the handler wrote it, whatever it holds
    progress.checkpoint_number = told.checkpoint_number
    return progress


def shown(text: str, limit: int) -> str:
    """Returns a text as it is kept: NUL as a visible mark, at most `limit` bytes, a mark where it was cut."""
    if "\0" in text:
        text = text.replace("\0", NUL_MARK)
    if not json_text.exceeds(text, limit):
        return text
    room = limit - len(CUT_MARK.encode())
    return text.encode()[:room].decode(errors="ignore") + CUT_MARK
