"""The log store in memory: for simulation and tests. Nothing is kept beyond the process."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.v1.tasks_pb2 import LogLine, StoredLogLine
from taskyard_scheduler.logs.admission import AttemptLog, LogLimits, admit, cost
from taskyard_scheduler.logs.port import READ_LIMIT_BYTES, Appended, LogPage
from taskyard_scheduler.logs.wakeups import Subscription, Wakeups

Attempts = dict[int, tuple[AttemptLog, list[LogLine]]]


class MemoryLogStore:
    """A LogStore on dictionaries; it never waits.

    Args:
        limits: How much is kept.
    """

    def __init__(self, limits: LogLimits | None = None) -> None:
        self._limits = limits or LogLimits()
        self._tasks: dict[tuple[str, str], Attempts] = {}
        self._wakeups = Wakeups()

    async def start(self) -> None:
        """Has nothing to make ready."""

    async def stop(self) -> None:
        """Wakes the followers."""
        self._wakeups.wake_all()

    async def append(
        self, tenant: str, task_id: str, attempt: int, first_line: int, lines: Sequence[LogLine]
    ) -> Appended:
        """See LogStore."""
        attempts = self._tasks.setdefault((tenant, task_id), {})
        log, stored = attempts.get(attempt, (AttemptLog(), []))
        kept, log = admit(log, first_line, lines, self._limits)
        stored.extend(kept)
        attempts[attempt] = (log, stored)
        if kept:
            self._wakeups.wake(tenant, task_id)
        return Appended(log.next_line, log.closed)

    async def read(self, tenant: str, task_id: str, attempt: int, after_line: int, limit: int) -> LogPage:
        """See LogStore."""
        _, stored = self._tasks.get((tenant, task_id), {}).get(attempt, (AttemptLog(), []))
        first = max(0, after_line + 1)
        page: list[StoredLogLine] = []
        size = 0
        for number, line in enumerate(stored[first : first + limit], first):
            size += cost(line)
            if page and size > READ_LIMIT_BYTES:
                break
            page.append(StoredLogLine(attempt=attempt, line=number, content=line))
        return LogPage(page, more=first + len(page) < len(stored))

    def changes(self, tenant: str, task_id: str) -> Subscription:
        """See LogStore."""
        return self._wakeups.subscription(tenant, task_id)

    def wake(self, tenant: str, task_id: str) -> None:
        """See LogStore."""
        self._wakeups.wake(tenant, task_id)

    async def delete(self, tenant: str, task_ids: Sequence[str]) -> None:
        """See LogStore."""
        for task_id in task_ids:
            self._tasks.pop((tenant, task_id), None)
