"""A client that keeps submitting, repeats what got no answer, and writes down what it was told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from e2e.history import FAILED, SUCCESS, History, Submitted
from e2e.process import PATIENCE_S, until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as pb
from taskyard_client import (
    AsyncClient,
    DeadlineExceeded,
    Outcome,
    Overloaded,
    Retry,
    TaskHandle,
    Unavailable,
    new_task,
)

STUBBORN = Retry(max_attempts=100, first_delay=0.0)
TRANSIENT = (Unavailable, Overloaded, DeadlineExceeded)
BATCH = 12
QUICK = ("double", "pause", "thread", "flaky", "hopeless")
ALL = (*QUICK, "apart", "shell")


class Load:
    """Submits tasks of mixed kinds until it is told to stop.

    Args:
        site: Whose scheduler gets them.
        rng: Draws kinds and sizes.
        kinds: Task types to draw from.
        rest: How many tasks may be open at most; more wait.
        addresses: Of all schedulers; the next one is tried when one cannot answer. Default: the site's.
    """

    def __init__(
        self,
        site: Site,
        rng: random.Random,
        kinds: Sequence[str] = QUICK,
        rest: int = 150,
        addresses: Sequence[str] = (),
    ) -> None:
        self.site = site
        self.history = History()
        self._rng = rng
        self._kinds = kinds
        self._rest = rest
        self._clients = [site.client_of(site.token(), address=a, timeout=5) for a in addresses or [site.address]]
        self._stop = False
        self._number = 0

    @property
    def _client(self) -> AsyncClient:
        return self._clients[0]

    def _turn(self) -> None:
        self._clients = [*self._clients[1:], self._clients[0]]

    @property
    def accepted(self) -> int:
        """How many were accepted so far."""
        return len(self.history.ids)

    @property
    def ended(self) -> int:
        """How many have been seen to end."""
        return len(self.history.endings)

    async def during(self, story: Coroutine[Any, Any, None], within: float = 2 * PATIENCE_S) -> None:
        """Submits and watches while a story runs; afterwards everything ends, within the time given."""
        async with asyncio.timeout(within), asyncio.TaskGroup() as group:
            group.create_task(self.submit(), name="submit")
            group.create_task(self.watch(), name="watch")
            await story
            self.stop()

    def stop(self) -> None:
        """Submits nothing more; `submit` returns when everything sent is answered."""
        self._stop = True

    async def submit(self) -> None:
        """Submits batch after batch until `stop`."""
        while not self._stop:
            if self.accepted - self.ended > self._rest:
                await asyncio.sleep(0.01)  # what bounds the load, not what the test waits on
                continue
            await self._batch([self._draw() for _ in range(self._rng.randint(1, BATCH))])
            if self.history.submitted and self._rng.random() < 0.2:
                await self._repeat()

    async def watch(self) -> None:
        """Follows every accepted task to its end, over all faults, until `stop` and all have ended."""
        while not (self._stop and self.ended == self.accepted == len(self.history.submitted)):
            open_ids = sorted(self.history.ids - self.history.endings.keys())[:500]
            if not open_ids:
                await asyncio.sleep(0.01)
                continue
            try:
                async with asyncio.timeout(2):
                    async for change in self._client.watch_tasks(open_ids):
                        for task in change.tasks:
                            if task.HasField("end_time"):
                                self.history.ended(task)
            except TRANSIENT:
                self._turn()
            except TimeoutError:
                continue  # to watch what was accepted meanwhile as well

    async def reach(self, count: int, of: Callable[[], int] | None = None) -> None:
        """Waits until so many more are accepted (or what `of` counts has grown so much)."""
        counted = of or (lambda: self.accepted)
        target = counted() + count
        await until(lambda: counted() >= target, PATIENCE_S, f"{count} more tasks")

    def _draw(self) -> pb.TaskSubmission:
        self._number += 1
        number, kind = self._number, self._rng.choice(self._kinds)
        inputs: dict[str, object] = {"number": number}
        status, output = SUCCESS, {"double": 2 * number}
        if kind == "flaky":
            inputs["failures"] = self._rng.randint(0, 2)
        elif kind == "hopeless":
            inputs, status = {}, FAILED
        elif kind == "shell":
            inputs = {"command": f"echo {number}"}
            output = {"exit_code": 0, "stdout_tail": f"{number}\n", "stderr_tail": ""}  # type: ignore[dict-item]
        request_id = f"r{number}"
        self.history.submitted[request_id] = Submitted(kind, status, output)
        return new_task(kind, inputs, request_id=request_id, retry=STUBBORN)

    async def _batch(self, tasks: Sequence[pb.TaskSubmission]) -> None:
        """Sends a batch until each task has its answer."""
        left = list(tasks)
        while left:
            try:
                outcomes = await self._client.submit_many(left)
            except TRANSIENT:
                self._turn()
                continue
            left = [task for task, outcome in zip(left, outcomes, strict=True) if not self._take(task, outcome)]

    def _take(self, task: pb.TaskSubmission, outcome: Outcome[TaskHandle]) -> bool:
        if outcome.error is not None:
            if isinstance(outcome.error, TRANSIENT):
                return False
            raise outcome.error
        assert outcome.handle is not None
        self.history.accepted(task.request_id, outcome.handle.id)
        return True

    async def _repeat(self) -> None:
        """Asks for something again: the answer must be the first one, and a repeat with other content is refused."""
        request_id = self._rng.choice(list(self.history.submitted))
        known = self.history.submitted[request_id]
        try:
            task = new_task(known.task_type, {"other": True}, request_id=request_id)
            [outcome] = await self._client.submit_many([task])
        except TRANSIENT:
            return
        if outcome.error is not None and isinstance(outcome.error, TRANSIENT):
            return
        assert outcome.error is not None, f"{request_id} was taken a second time, as {outcome.handle}"
        assert outcome.error.reason == "REQUEST_ID_REUSED"
