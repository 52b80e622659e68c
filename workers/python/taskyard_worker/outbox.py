"""What waits to be sent on the stream, packed into frames as it arrives, so that sending costs per frame.

Not the sending, and not the keeping of results until they are acknowledged (`results`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard.v1.workers_pb2 import AssignTaskRequest, TaskResult
from taskyard_worker.attempts import Attempt

MAX_FRAME_TASKS = 512
MAX_FRAME_BYTES = 1024 * 1024


class Outbox:
    """Results, start acknowledgements and reports on their way to the scheduler.

    Results keep their order. Start acknowledgements and reports go with the earliest frame; a start is left
    out when the result is sent with it, since a result implies it.

    Args:
        wake: Called when there is something to send.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._full: deque[AssignTaskRequest] = deque()
        self._open = AssignTaskRequest()
        self._tasks = 0
        self._bytes = 0
        self._starts: dict[str, str] = {}
        self._reports: dict[str, Attempt] = {}
        self._again: deque[AssignTaskRequest] = deque()

    def started(self, token: str, task_id: str) -> None:
        """Acknowledge that an attempt has started."""
        self._starts[token] = task_id
        self._wake()

    def reports_changed(self, attempt: Attempt) -> None:
        """Send an attempt's newest reports."""
        if not attempt.ended:
            self._reports[attempt.token] = attempt
            self._wake()

    def add_result(
        self,
        task_id: str,
        token: str,
        status: TaskStatus.ValueType,
        output_json: str = "",
        error_message: str = "",
        error_kind: str = "",
        duration_ms: int = 0,
    ) -> TaskResult:
        """Add the result of an attempt and return it. `take` gives it out once."""
        if self._tasks >= MAX_FRAME_TASKS or self._bytes >= MAX_FRAME_BYTES:
            self._close()
        self._starts.pop(token, None)
        self._tasks += 1
        self._bytes += len(output_json) + len(error_message) + 128
        self._wake()
        result = self._open.results.add(task_id=task_id, status=status, attempt_token=token)
        # What is empty is not set: each field costs, and every task comes through here.
        if output_json:
            result.output_json = output_json
        if error_message:
            result.error_message = error_message
            result.error_kind = error_kind
        if duration_ms:
            result.duration_ms = duration_ms
        return result

    def send_again(self, results: Iterable[TaskResult]) -> None:
        """Replace what is queued for repetition: results that were kept when a stream ended."""
        self._again.clear()
        frame, size = AssignTaskRequest(), 0
        for result in results:
            if len(frame.results) >= MAX_FRAME_TASKS or size >= MAX_FRAME_BYTES:
                self._again.append(frame)
                frame, size = AssignTaskRequest(), 0
            frame.results.append(result)
            size += len(result.output_json) + len(result.error_message) + 128
        if frame.results:
            self._again.append(frame)
            self._wake()

    def take_results(self) -> AssignTaskRequest | None:
        """Take the oldest frame of new results, which must be kept on disk before it is sent; None: there is none."""
        if self._full:
            return self._full.popleft()
        if not self._tasks:
            return None
        self._close()
        return self._full.popleft()

    def take_repeated(self) -> AssignTaskRequest | None:
        """Take the oldest frame of repeated results."""
        return self._again.popleft() if self._again else None

    def add_control(self, frame: AssignTaskRequest) -> bool:
        """Move starts and reports into a frame as far as they fit; return whether there were any."""
        if not self._starts and not self._reports:
            return False
        for token, task_id in self._starts.items():
            frame.acknowledgements.add(task_id=task_id, attempt_token=token)
        self._starts.clear()
        size = 0
        while self._reports and size < MAX_FRAME_BYTES:
            attempt = self._reports.pop(next(iter(self._reports)))
            if attempt.reports is not None:
                part = attempt.reports.frame_part(attempt)
                size += len(part.checkpoint) + 256
                frame.progress.append(part)
        return True

    @property
    def has_control(self) -> bool:
        """Whether starts or reports wait."""
        return bool(self._starts or self._reports)

    def _close(self) -> None:
        self._full.append(self._open)
        self._open = AssignTaskRequest()
        self._tasks = 0
        self._bytes = 0
