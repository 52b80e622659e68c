"""Reads what the screen shows: one snapshot at a time, over one connection, and never more than is cheap.

Nothing is computed here (`figures`) and nothing is worded (`rows`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from taskyard.v1.fleet_pb2 import GetClusterStatusResponse, Queue, Worker
from taskyard.v1.tasks_pb2 import TaskInstance, WaitReason
from taskyard_cli.top.failures import QUICK_S, REST, Failures
from taskyard_client import AsyncClient, InvalidInput

IN_FLIGHT = 'status in ["RUNNING", "ASSIGNED", "CANCELLING"]'
"""What workers hold: an index of the scheduler's has exactly these."""
OUTSIDE = 'status == "DEFERRED"'
"""What has run and waits for its result from outside: an index has these among all that wait for a time."""
PAUSED_QUEUES = 'scope == "QUEUE"'
MOST = 100
"""Most rows of one kind in a snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a scheduler said at one time.

    Attributes:
        at: Seconds of a clock that never steps back: what two snapshots are apart.
        time: By this machine's clock; ages are measured from it.
        status: The cluster's.
        queues: Those in which something waits, each with the reasons of its first task, and those that are paused.
        workers: Those that do not take tasks first, where there are more than fit.
        running: What workers hold, the oldest first, and then what waits for its result from outside.
        failed: The latest failures, the latest first.
        failed_since: How far back they were looked for; None for as far as there are tasks.
    """

    at: float
    time: datetime
    status: GetClusterStatusResponse
    queues: list[Queue]
    workers: list[Worker]
    running: list[TaskInstance]
    failed: list[TaskInstance]
    failed_since: datetime | None


class Reader:
    """Reads snapshots.

    Args:
        client: What it asks; its one connection is the only one.
        clock: Tells seconds, never steps back.
        now: Tells the time.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self._clock = clock
        self._now = now
        self._failures = Failures(client, clock)
        self._reasons: dict[str, list[WaitReason]] = {}
        self._explain_at = 0.0
        self._outside: list[TaskInstance] = []
        self._outside_of = ""
        self._outside_at = 0.0

    async def read(self, filter: str = "", rows: int = MOST) -> Snapshot:
        """Reads a snapshot.

        Args:
            filter: Which tasks, in the filter language; empty for all.
            rows: Most rows of a kind that anybody will look at.

        Raises:
            InvalidInput: The filter is wrong.
            TaskyardError: The scheduler cannot be reached, or refuses the token.
        """
        asked, now = self._clock(), self._now()
        status = await self.client.cluster_status()
        at = self._clock()
        rows = min(rows, MOST)
        try:
            queues, workers, running = await asyncio.gather(
                self._queues(at - asked), self._workers(status.workers_known, rows), self._running(filter, rows)
            )
        except InvalidInput:
            await self._ask_as_typed(filter)
            raise
        running += await self._deferred(status, filter, rows - len(running), at - asked)
        failed, since = await self._failures.read(status, filter, now, round_trip=at - asked)
        return Snapshot(at, now, status, queues, workers, running, failed, since)

    def forget(self) -> None:
        """Reads all anew the next time, reasons too: somebody has just changed what they are."""
        self._explain_at = self._outside_at = 0.0

    async def _ask_as_typed(self, filter: str) -> None:
        """Asks with the filter alone: what was refused has ours before it, and so another text and other places.

        Raises:
            InvalidInput: The filter is wrong; the place is that in what was typed.
        """
        async for _ in self.client.list_tasks(filter=filter, limit=1):
            return

    async def _queues(self, round_trip: float) -> list[Queue]:
        """Reads the queues with their reasons; where those take long, as among many workers, not every time anew."""
        begun = self._clock()
        explain = begun >= self._explain_at
        found = [queue async for queue in self.client.queues(limit=MOST, explain=explain)]
        if explain:
            took = self._clock() - begun - round_trip
            self._explain_at = begun + REST * took if took > QUICK_S else begun
            self._reasons = {queue.name: list(queue.reasons) for queue in found}
        else:
            for queue in found:
                queue.reasons.extend(self._reasons.get(queue.name, ()))
        named = {queue.name for queue in found}
        paused = [pause async for pause in self.client.pauses(filter=PAUSED_QUEUES, limit=MOST)]
        return found + [Queue(name=each.name, pause=each) for each in paused if each.name not in named]

    async def _workers(self, known: int, rows: int) -> list[Worker]:
        if known <= MOST:
            return [worker async for worker in self.client.workers(limit=MOST)]
        ill = [worker async for worker in self.client.workers(filter='state != "HEALTHY"', limit=rows)]
        left = rows - len(ill)
        well = self.client.workers(filter='state == "HEALTHY"', limit=left) if left else None
        return ill + ([worker async for worker in well] if well else [])

    async def _running(self, filter: str, rows: int) -> list[TaskInstance]:
        tasks = self.client.list_tasks(filter=narrowed(IN_FLIGHT, filter), order_by="create_time", limit=rows)
        return [task async for task in tasks]

    async def _deferred(
        self, status: GetClusterStatusResponse, filter: str, rows: int, round_trip: float
    ) -> list[TaskInstance]:
        """Reads what waits for its result from outside; where that takes long, not every time anew."""
        if rows <= 0 or status.tasks_live <= status.tasks_queued + status.tasks_in_flight:
            return []
        begun = self._clock()
        if filter != self._outside_of or begun >= self._outside_at:
            tasks = self.client.list_tasks(filter=narrowed(OUTSIDE, filter), order_by="create_time", limit=rows)
            self._outside, self._outside_of = [task async for task in tasks], filter
            took = self._clock() - begun - round_trip
            self._outside_at = begun + REST * took if took > QUICK_S else begun
        return self._outside[:rows]


def narrowed(ours: str, filter: str) -> str:
    """Returns a filter that asks for both."""
    return f"{ours} && ({filter})" if filter else ours
