"""The port of the log store: what the scheduler asks of whatever keeps the log lines of attempts.

Logs are apart from the scheduling state: losing them loses no task, and no log can delay a commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from taskyard.v1.tasks_pb2 import LogLine, StoredLogLine
from taskyard_scheduler.logs.wakeups import Subscription

READ_LIMIT_BYTES = 4 * 1024 * 1024
"""Bytes of lines in one page; at least one line is returned, however long."""


class LogStoreError(Exception):
    """Root of what a log store raises on purpose."""


class LogStoreUnavailable(LogStoreError):
    """The log store cannot do this now (full disk, too much waiting, in use elsewhere); try again later."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of appended lines.

    Attributes:
        next_line: Number of the line that is expected next.
        closed: True: the attempt's log is full; nothing more is kept.
    """

    next_line: int
    closed: bool


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order.

    Attributes:
        lines: The lines; empty when there is none after the line asked for.
        more: True: more lines are stored after these.
    """

    lines: list[StoredLogLine]
    more: bool


class LogStore(Protocol):
    """Keeps the log lines of attempts, each attempt's numbered from 0.

    Between `start` and `stop` everything may be called at the same time. What `append` has answered survives
    the death of the process (not a power failure: logs are not synced), and is seen by every later `read`.
    """

    async def start(self) -> None:
        """Makes the store ready.

        Raises:
            LogStoreUnavailable: Another process has it, or its files cannot be used.
        """
        ...

    async def stop(self) -> None:
        """Ends what runs and lets go of the files."""
        ...

    async def append(
        self, tenant: str, task_id: str, attempt: int, first_line: int, lines: Sequence[LogLine]
    ) -> Appended:
        """Keeps those of `lines` that are new.

        Lines already kept are skipped by their number. When `first_line` is beyond the next expected one,
        nothing is kept: the answer says from where to go on. A line over its limit is cut with a mark. Where
        the attempt is over its limit one last line says so, and the log is closed.

        Args:
            tenant: Whose task it is.
            task_id: The instance.
            attempt: Number of the attempt, from 1.
            first_line: Number of the first of `lines`, from 0.
            lines: What to keep; any text. The store may keep the objects: do not change them afterwards.

        Raises:
            LogStoreUnavailable: Nothing was kept.
        """
        ...

    async def read(self, tenant: str, task_id: str, attempt: int, after_line: int, limit: int) -> LogPage:
        """Returns at most `limit` lines, and 4 MiB, after line number `after_line` (-1: from the first).

        An attempt that has no lines gives an empty page.

        Raises:
            LogStoreUnavailable: The files cannot be read now.
        """
        ...

    def changes(self, tenant: str, task_id: str) -> Subscription:
        """Returns what wakes a follower of the instance; enter it as a context before the first read."""
        ...

    def wake(self, tenant: str, task_id: str) -> None:
        """Wakes the followers of an instance that has ended, so that they look at its state."""
        ...

    async def delete(self, tenant: str, task_ids: Sequence[str]) -> None:
        """Forgets every line of these instances; unknown ones are fine.

        Raises:
            LogStoreUnavailable: Some may be left; call it again.
        """
        ...
