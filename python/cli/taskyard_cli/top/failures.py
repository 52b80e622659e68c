"""Finds the latest failures without a search through everything that ever ran.

No index has them: the scheduler walks its tasks from the newest on. So it is asked only when its counters say that
there are new ones, only as far back as earlier looks were quick, and the less often the longer a look takes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from taskyard.v1.fleet_pb2 import GetClusterStatusResponse
from taskyard.v1.tasks_pb2 import TaskInstance
from taskyard_client import AsyncClient

SHOWN = 20
"""Most failures that are looked for."""
SPANS = (
    timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7), None,
)  # fmt: skip
"""How far back, one after the other; None: as far as there are tasks."""
QUICK_S = 0.02
"""A look that took no longer beyond the round trip may go further back the next time."""
SLOW_S = 0.2
"""After a look that took longer, the next goes less far back."""
REST = 200
"""So many times as long as a look took, there is no other: it takes half a hundredth of the scheduler's time."""

FAILED = 'status in ["FAILED", "TIMEOUT"]'


class Failures:
    """The latest failures, as far as they are known.

    Args:
        client: What it asks.
        clock: Tells seconds, never steps back.
    """

    def __init__(self, client: AsyncClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._span = 0
        self._seen: tuple[int, int, str] | None = None
        self._wider = False
        self._rest_until = 0.0
        self._found: list[TaskInstance] = []
        self._since: datetime | None = None

    async def read(
        self, status: GetClusterStatusResponse, filter: str, now: datetime, *, round_trip: float
    ) -> tuple[list[TaskInstance], datetime | None]:
        """Returns failures, the latest first, and how far back they were looked for; asks only if it has to.

        Args:
            status: Tells whether there are new ones.
            filter: Which tasks; empty for all.
            now: The present time.
            round_trip: Seconds that a call takes which costs the scheduler nothing.
        """
        ended = status.tasks_ended
        seen = (status.term, ended.get("FAILED", 0) + ended.get("TIMEOUT", 0), filter)
        asked_otherwise = self._seen is None or self._seen[2] != filter  # a person does not wait
        if asked_otherwise:
            self._span, self._rest_until = 0, 0.0
        if (seen != self._seen or self._wider) and self._clock() >= self._rest_until:
            await self._look(filter, now, round_trip)
            while asked_otherwise and self._wider:  # each look is quick, and a person sees all at once
                await self._look(filter, now, round_trip)
            self._seen = seen
        return self._found, self._since

    async def _look(self, filter: str, now: datetime, round_trip: float) -> None:
        span = SPANS[self._span]
        self._since = None if span is None else now - span
        terms = [FAILED]
        if self._since is not None:
            terms.append(f'create_time >= timestamp("{self._since:%Y-%m-%dT%H:%M:%SZ}")')
        if filter:
            terms.append(f"({filter})")
        begun = self._clock()
        found = [task async for task in self._client.list_tasks(filter=" && ".join(terms), limit=SHOWN)]
        took = max(0.0, self._clock() - begun - round_trip)
        self._found = sorted(found, key=lambda task: -task.end_time.ToNanoseconds())
        self._rest_until = self._clock() + REST * took
        self._wider = len(found) < SHOWN and took <= QUICK_S and self._span + 1 < len(SPANS)
        if self._wider:
            self._span += 1
        elif took > SLOW_S and self._span:
            self._span -= 1
