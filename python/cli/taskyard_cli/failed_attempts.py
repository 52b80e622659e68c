"""Says, while somebody waits, why an attempt failed, or was given back, that another follows."""

from __future__ import annotations

from taskyard.v1.tasks_pb2 import TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import RunStep
from taskyard_cli.show import harmless

_WAITING = frozenset({TaskStatus.TASK_STATUS_PENDING, TaskStatus.TASK_STATUS_QUEUED})
"""How a task stands between two attempts: for its delay, and for a worker."""
_GIVEN_BACK = frozenset({"INTERRUPTED", "REJECTED", "REQUEUED", "NEVER_STARTED"})
"""Kinds of what goes back to its queue without being the task's fault; no retry is spent."""


class FailedAttempts:
    """Tells each failed attempt once: its task waits for its delay first, and for a worker then."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def take(self, item: TaskInstance | RunStep) -> str:
        """Returns why the last attempt of what waits for its next one failed; empty: it does not, or it was told."""
        waits = item.status in _WAITING and item.attempt > 0 and item.HasField("error")
        if not waits or self._told.get(item.task_id) == item.attempt:
            return ""
        self._told[item.task_id] = item.attempt
        why = ": ".join(part for part in (item.error.kind, item.error.message) if part)
        how = "was given back" if item.error.kind in _GIVEN_BACK else "failed"
        return harmless(f"attempt {item.attempt} {how} ({why}), the next follows")
