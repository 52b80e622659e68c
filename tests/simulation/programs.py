"""The programs that use the client: they submit, repeat, wait, cancel, retry by hand, and ask why.

What a program got answered is on its disk: a restarted one sends again only what it does not know to have arrived.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from simulation.hosts import TENANT, ClientHost, World
from simulation.ledger import TERMINAL, short
from simulation.loop import Process
from simulation.transports import Route as Way
from simulation.transports import SimTransport
from simulation.workload import Hold, RunWish, TaskWish, Wish, Workload
from taskyard.v1 import pauses_pb2, tasks_pb2, workflows_pb2
from taskyard_client import AsyncClient
from taskyard_client.errors import (
    AlreadyEnded,
    ClientClosed,
    DeadlineExceeded,
    NotFound,
    Overloaded,
    TaskyardError,
    Unavailable,
    WrongState,
)
from taskyard_service.identity import Identity, Role

AGAIN = (Unavailable, DeadlineExceeded, Overloaded)
TIMEOUT_S = 8.0
AUDIT_S = 4.0


@dataclass(slots=True)
class Disk:
    """What a program remembers beyond its death."""

    ids: dict[str, str] = field(default_factory=dict)  # by request id
    applied: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)  # request ids that need nothing more
    cancelled: set[str] = field(default_factory=set)
    retried: set[str] = field(default_factory=set)
    handled: set[str] = field(default_factory=set)  # by hand
    rerun: dict[str, int] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)
    lifted: set[int] = field(default_factory=set)  # numbers of what was held back and goes on again


class Program:
    """One client's part of the workload.

    Args:
        world: The world.
        number: Which client it is.
        workload: Everybody's wishes.
    """

    def __init__(self, world: World, number: int, workload: Workload) -> None:
        self._world = world
        self._history = world.history
        self._number = number
        self._workload = workload
        self._start = world.loop.now
        self.disk = Disk()

    @property
    def wishes(self) -> list[Wish]:
        """What this client wants."""
        everything: list[Wish] = [*self._workload.tasks, *self._workload.runs]
        return [wish for wish in everything if wish.client == self._number]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be done."""
        lifted = self._number != 0 or len(self.disk.lifted) == len(self._workload.holds)
        return not self.missing() and lifted

    def missing(self) -> list[str]:
        """Returns the request ids of what is left."""
        return [wish.request_id for wish in self.wishes if wish.request_id not in self.disk.done]

    async def run(self, host: ClientHost, process: Process) -> None:
        """Lives one life."""
        rng = host.rng()
        way = Way(self._world.fabric, process, self._world.addresses(), Identity(host.name, TENANT, Role.ADMIN))
        client = AsyncClient(
            "simulated:1", None, timeout=TIMEOUT_S, rng=rng, wall=host.wall, transport=SimTransport(way)
        )
        async with asyncio.TaskGroup() as group:
            for wish in self.wishes:
                if wish.request_id not in self.disk.done:
                    group.create_task(self._fulfil(client, wish, rng), name=wish.request_id)
            if self._number == 0:
                group.create_task(self._audit(client, rng), name="audit")
                for number, hold in enumerate(self._workload.holds):
                    if number not in self.disk.lifted:
                        group.create_task(self._hold_back(client, number, hold, rng), name=f"hold {number}")

    # A wish's life.

    async def _fulfil(self, client: AsyncClient, wish: Wish, rng: random.Random) -> None:
        await asyncio.sleep(max(0.0, self._start + wish.at - self._world.loop.now))
        id = self.disk.ids.get(wish.request_id)
        if id is None:
            id = await self._submit(client, wish, rng)
            if id is None:
                self.disk.done.add(wish.request_id)
                return
            self.disk.ids[wish.request_id] = id
        for _ in range(wish.repeats):
            self._world.trace.facts["requests repeated though answered"] += 1
            await self._submit(client, wish, rng)
        if wish.cancel_after is not None and wish.request_id not in self.disk.cancelled:
            await asyncio.sleep(wish.cancel_after)
            await self._cancel(client, wish, id, rng)
            self.disk.cancelled.add(wish.request_id)
        if wish.by_hand is not None and wish.request_id not in self.disk.handled:
            await asyncio.sleep(wish.by_hand[1])
            await self._by_hand(client, wish, id, rng)
            self.disk.handled.add(wish.request_id)
        if isinstance(wish, TaskWish) and wish.completed is not None and wish.request_id not in self.disk.completed:
            await asyncio.sleep(wish.completed[1])
            await self._complete(client, id, wish.completed[0], rng)
            self.disk.completed.add(wish.request_id)
        await self._wait(client, wish, id, rng)
        if isinstance(wish, RunWish):
            while (count := self.disk.rerun.get(wish.request_id, 0)) < wish.reruns:
                await self._rerun(client, id, rng)
                self.disk.rerun[wish.request_id] = count + 1
                await self._wait(client, wish, id, rng)
        if wish.retry and wish.request_id not in self.disk.retried:
            await self._retry(client, wish, id, rng)
            self.disk.retried.add(wish.request_id)
            await self._wait(client, wish, id, rng)
        self.disk.done.add(wish.request_id)

    async def _submit(self, client: AsyncClient, wish: Wish, rng: random.Random) -> str | None:
        """Sends a wish until it is answered; returns the id, or None when it is refused."""
        while True:
            self._history.asked(wish.request_id, type(wish).__name__)
            try:
                id = await self._send(client, wish)
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except TaskyardError as error:
                self._history.refused(wish.request_id, f"{type(error).__name__} {error.reason}: {error}")
                return None
            self._history.answered(wish.request_id, id, wish.key)
            return id

    async def _send(self, client: AsyncClient, wish: Wish) -> str:
        if isinstance(wish, TaskWish):
            task = await client.submit(
                wish.task_type, wish.input, request_id=wish.request_id, idempotency_key=wish.key, **wish.settings
            )
            return task.id
        assert isinstance(wish, RunWish)
        if wish.workflow not in self.disk.applied:
            (workflow,) = (each for each in self._workload.workflows if each.name == wish.workflow)
            await client.apply_workflow(workflow)
            self.disk.applied.add(wish.workflow)
        run = await client.start_run(
            wish.workflow, wish.inputs, version=1, request_id=wish.request_id, idempotency_key=wish.key, **wish.settings
        )
        return run.id

    async def _cancel(self, client: AsyncClient, wish: Wish, id: str, rng: random.Random) -> None:
        while True:
            try:
                if isinstance(wish, TaskWish):
                    await client.cancel_task(id, "the simulation wants it so")
                else:
                    await client.cancel_run(id, "the simulation wants it so")
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except AlreadyEnded:
                self._world.trace.facts["cancelled too late"] += 1
            return

    async def _wait(self, client: AsyncClient, wish: Wish, id: str, rng: random.Random) -> None:
        while True:
            try:
                if isinstance(wish, TaskWish):
                    self._history.seen_ends[id] = (await client.wait_task(id)).status
                else:
                    self._history.seen_ends[id] = (await client.wait_run(id)).state
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except NotFound:
                self._history.violate("nothing accepted is lost", f"{short(id)} of {wish.request_id} is not found")
            return

    async def _retry(self, client: AsyncClient, wish: Wish, id: str, rng: random.Random) -> None:
        """Has a task, or a failed step of a run, run again by hand."""
        ledger = self._history.ledger
        target = id
        if isinstance(wish, RunWish):
            failed = sorted(
                record.id
                for record in ledger.instances.values()
                if record.get("run_id") == id and record.state in (3, 4, 8)
            )
            if not failed:
                return
            target = rng.choice(failed)
        while True:
            ledger.retries_asked[target] = ledger.retries_asked.get(target, 0) + 1
            try:
                await client.retry_task(target)
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except (WrongState, AlreadyEnded):
                pass
            else:
                self._world.trace.facts["retried by hand"] += 1
            return

    async def _by_hand(self, client: AsyncClient, wish: Wish, id: str, rng: random.Random) -> None:
        """Does to a task what a person does by hand; runs are terminated, or a step of them is marked."""
        assert wish.by_hand is not None
        what, ledger = wish.by_hand[0], self._history.ledger
        step = self._some_step(id, rng) if isinstance(wish, RunWish) else ""
        while True:
            try:
                if what.startswith("mark"):
                    await self._mark(client, id, step, what)
                elif isinstance(wish, RunWish):
                    await client.cancel_run(id, "the simulation wants it now", terminate=True)
                elif what == "terminate":
                    self.disk.cancelled.add(wish.request_id)
                    await client.cancel_task(id, "the simulation wants it now", terminate=True)
                elif what == "requeue":
                    ledger.hurried.add(id)
                    await client.requeue_task(id)
                else:
                    await client.prioritize_task(id, rng.randrange(1, 11))
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except (WrongState, AlreadyEnded):
                self._world.trace.facts[f"{what} came too late"] += 1
            else:
                self._world.trace.facts[f"{what} by hand"] += 1
            return

    def _some_step(self, run_id: str, rng: random.Random) -> str:
        run = self._history.ledger.runs[run_id]
        (workflow,) = (each for each in self._workload.workflows if each.name == run["workflow"])
        return rng.choice(workflow.steps).id

    async def _mark(self, client: AsyncClient, id: str, step: str, what: str) -> None:
        """Says how a task, or a step of a run, has ended."""
        ledger = self._history.ledger
        success = what == "mark success"
        how = tasks_pb2.MARKED_AS_SUCCESS if success else tasks_pb2.MARKED_AS_SKIPPED
        output = {"attempt": 0, "echo": "marked"} if success else None
        if step:
            ledger.reruns_asked.add(id)
            ledger.reopened_runs.add(id)
            await client.mark_step(id, step, how, output=output, reason="the simulation says so")
            return
        ledger.retries_asked[id] = ledger.retries_asked.get(id, 0) + 1
        await client.mark_task(id, how, output=output, reason="the simulation says so")

    async def _complete(self, client: AsyncClient, id: str, how: str, rng: random.Random) -> None:
        """Brings the result of a task's present attempt from outside, as whoever got its token does."""
        record = self._history.ledger.instances.get(id)
        if record is None or not record.get("token"):
            self._world.trace.facts["nothing to complete yet"] += 1
            return
        former = [token for token in record.archived.values() if token]
        token = rng.choice(former) if former and rng.random() < 0.4 else record.get("token")
        output = {"echo": "from outside"}
        self._history.completed[token] = output
        while True:
            try:
                if how == "SUCCESS":
                    await client.complete_task(f"{id}.{token}", output)
                else:
                    await client.fail_task(f"{id}.{token}", "refused from outside")
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except (WrongState, AlreadyEnded) as error:
                self._world.trace.facts[f"completed in vain: {error.reason}"] += 1
            else:
                self._world.trace.facts[f"completed from outside: {how}"] += 1
            return

    async def _hold_back(self, client: AsyncClient, number: int, hold: Hold, rng: random.Random) -> None:
        """Holds something back for a while."""
        await asyncio.sleep(max(0.0, self._start + hold.at - self._world.loop.now))
        name = hold.name or (self.disk.ids.get(f"wish-{hold.run}", "") if hold.run else "")
        if hold.run and not name:
            self.disk.lifted.add(number)
            return
        for act in (client.pause_work, client.resume_work):
            while True:
                try:
                    await act(hold.scope, name)
                except AGAIN:
                    await asyncio.sleep(rng.uniform(0.2, 1.0))
                    continue
                except (WrongState, NotFound):
                    self._world.trace.facts["held back in vain"] += 1
                else:
                    self._world.trace.facts[f"{act.__name__} {pauses_pb2.PauseScope.Name(hold.scope)}"] += 1
                break
            if act == client.pause_work:
                await asyncio.sleep(hold.seconds)
        self.disk.lifted.add(number)

    async def _rerun(self, client: AsyncClient, id: str, rng: random.Random) -> None:
        """Takes up a run: from one of its steps, or from all that ended badly."""
        ledger = self._history.ledger
        (workflow,) = (each for each in self._workload.workflows if each.name == ledger.runs[id]["workflow"])
        steps = [rng.choice(workflow.steps).id] if rng.random() < 0.7 else []
        ledger.reruns_asked.add(id)
        while True:
            try:
                await client.retry_run(id, steps)
            except AGAIN:
                await asyncio.sleep(rng.uniform(0.2, 1.0))
                continue
            except WrongState:
                self._world.trace.facts["taken up in vain"] += 1
            else:
                self._world.trace.facts["taken up again"] += 1
            return

    # Asking why.

    async def _audit(self, client: AsyncClient, rng: random.Random) -> None:
        """Asks about what has not ended, now and then, and looks at lists."""
        history = self._history
        while True:
            await asyncio.sleep(rng.uniform(0.5, 1.5) * AUDIT_S)
            if all(wish.request_id in self.disk.done for wish in self.wishes) and history.trace.facts["healed"]:
                return
            waiting = [id for id, record in history.ledger.instances.items() if record.state not in TERMINAL]
            try:
                for id in rng.sample(waiting, min(2, len(waiting))):
                    await self._explain(client, id)
                await self._look(client, rng)
            except (*AGAIN, ClientClosed):
                continue

    async def _explain(self, client: AsyncClient, id: str) -> None:
        try:
            answer = await client.explain(id)
        except NotFound:
            return  # a step that a retry by hand undid meanwhile
        self._history.trace.facts["explained"] += 1
        for reason in answer.reasons:
            self._history.trace.facts[f"because {reason.code}"] += 1
        ended = int(answer.status) in TERMINAL
        if not ended and not any(reason.code and reason.message for reason in answer.reasons):
            status = tasks_pb2.TaskStatus.Name(answer.status)
            self._history.violate("every waiting instance can say why", f"{short(id)} is {status} and says nothing")

    async def _look(self, client: AsyncClient, rng: random.Random) -> None:
        ledger = self._history.ledger
        if ledger.instances:
            id = rng.choice(list(ledger.instances))
            try:
                shown = await client.get_task(id)
            except NotFound:
                return
            self._history.trace.facts[f"looked at {len(shown.attempts)} attempts"] += 1
        kind = rng.randrange(4)
        if kind == 0:
            _ = [task async for task in client.list_tasks(limit=20, page_size=10)]
        elif kind == 1:
            _ = [worker async for worker in client.workers()]
        elif kind == 2:
            _ = [queue async for queue in client.queues()]
        elif ledger.runs:
            state = (await client.get_run(rng.choice(list(ledger.runs)))).run.state
            self._history.trace.facts[f"run seen as {workflows_pb2.RunState.Name(state)}"] += 1
