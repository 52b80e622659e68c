"""What the scripted scheduler has assigned and seen of each attempt, and the rules that hold for it at any moment."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard.v1.workers_pb2 import AssignTaskRequest, TaskAssignment, TaskProgress, TaskResult

MAX_RESULTS = 512
MAX_FRAME_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 256 * 1024
MAX_ERROR_BYTES = 64 * 1024
MAX_METADATA = 64
ENDS = {
    TaskStatus.Value(f"TASK_STATUS_{name}")
    for name in ("SUCCESS", "FAILED", "TIMEOUT", "CANCELLED", "INTERRUPTED", "REJECTED", "DEFERRED")
}


@dataclass(slots=True)
class Seen:
    """One attempt: what was sent, and everything that the worker said of it.

    `released`: its slot need not be counted any more, since it was fenced, lost, or not named in a hello.
    `log_deaf`: how many chunks came after its log was closed; one may have been on its way.
    `uncertain`: a new stream began, and the worker has not said on it whether the attempt still runs.
    """

    name: str
    assignment: TaskAssignment
    starts: int = 0
    results: list[TaskResult] = field(default_factory=list)
    progress: list[TaskProgress] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    log_calls: int = 0
    log_closed: bool = False
    log_deaf: int = 0
    released: bool = False
    uncertain: bool = False

    @property
    def token(self) -> str:
        """The attempt's token."""
        return self.assignment.attempt_token

    @property
    def held(self) -> bool:
        """Whether it takes a slot, as far as the scheduler knows."""
        return not (self.results or self.released or self.uncertain)


def status_name(status: int) -> str:
    """Returns a status as scenarios write it."""
    known: dict[int, str] = {number: name for name, number in TaskStatus.items()}
    return known.get(status, str(status)).removeprefix("TASK_STATUS_")


def output_of(result: TaskResult) -> Any:
    """Returns the output as a value; None where there is none."""
    return json.loads(result.output_json) if result.output_json else None


def breach_of_result(seen: Seen, result: TaskResult) -> str:
    """Returns which rule a result breaks; the empty string: none."""
    name = seen.name
    if result.status not in ENDS:
        return f"the result of {name} has the status {status_name(result.status)}, which is none that a worker reports"
    if result.task_id != seen.assignment.task_id:
        return f"the result of {name} names the task {result.task_id!r}, but was {seen.assignment.task_id!r}"
    if seen.results and seen.results[0] != result:
        return f"two different results were reported for one attempt of {name}; the first is the one to send again"
    if (size := len(result.output_json.encode())) > MAX_OUTPUT_BYTES:
        return f"the output of {name} has {size} bytes; over {MAX_OUTPUT_BYTES} it has to become an artifact"
    if len(result.error_message.encode()) > MAX_ERROR_BYTES:
        return f"the error message of {name} has more than {MAX_ERROR_BYTES} bytes"
    if len(result.metadata) > MAX_METADATA:
        return f"the result of {name} has {len(result.metadata)} entries of metadata; at most {MAX_METADATA} are kept"
    if status_name(result.status) == "FAILED" and not result.error_kind:
        return f"the failure of {name} has no error_kind"
    try:
        output_of(result)
    except ValueError as error:
        return f"the output of {name} is no JSON: {error}"
    return ""


def breach_of_progress(seen: Seen, progress: TaskProgress) -> str:
    """Returns which rule a progress report breaks; the empty string: none."""
    if progress.HasField("percent") and not 0 <= progress.percent <= 100:
        return f"{seen.name} is {progress.percent} percent done; a percentage lies between 0 and 100"
    if len(progress.message) > 1000:
        return f"the progress message of {seen.name} has {len(progress.message)} characters; at most 1,000 are allowed"
    return ""


def breach_of_frame(frame: AssignTaskRequest, first: bool) -> str:
    """Returns which rule the frame as a whole breaks; the empty string: none."""
    if first and not frame.HasField("hello"):
        return "the first frame of a stream has no hello"
    if not first and frame.HasField("hello"):
        return "a frame that is not the first of its stream has a hello"
    if len(frame.results) > MAX_RESULTS:
        return f"a frame has {len(frame.results)} results; it closes at {MAX_RESULTS}"
    if frame.results and frame.ByteSize() - frame.results[-1].ByteSize() > 2 * MAX_FRAME_BYTES:
        return f"a frame has {frame.ByteSize()} bytes; it closes on passing 1 MiB"
    return ""
