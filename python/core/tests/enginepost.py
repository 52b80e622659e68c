"""A lab whose workers are far away: their words and its frames travel, and arrive when the test says so.

It counts what happens in it, so that a test of many histories can say what they were about.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from enginekit import FakeWorker, Lab

from taskyard_core.engine import Batch, Engine, Standing
from taskyard_core.engine.events import Heartbeat, Hello, Known, Register, StreamClosed, WorkerFrame
from taskyard_core.fleet import Registration
from taskyard_core.ready import HEAD_LIMIT
from taskyard_core.records import ASSIGNED, Phase, RunState, TaskState
from taskyard_core.transitions import WorkerState

WORDS = (Register, Hello, WorkerFrame, Heartbeat)
MACHINES = {"instance": TaskState, "run": RunState, "worker": WorkerState}


@dataclass
class Story:
    """What many histories were about: how often each thing happened in them, and the attempts of each."""

    seen: Counter[str] = field(default_factory=Counter)
    attempts: list[int] = field(default_factory=list)


class PostedWorker(FakeWorker):
    """A worker whose words and frames travel: each stream keeps its order, all else may overtake."""

    def __init__(self, lab: PostLab, id: str, registration: Registration) -> None:
        """Knows of nothing yet."""
        super().__init__(lab, id, registration)
        self.post = lab
        self.inbox: list[tuple[object, Any]] = []
        self.leases: dict[str, int] = {}  # until when an exclusive attempt may run, by token
        self.stuck = False  # its event loop is held: it reads nothing

    def deliver(self, stream: object, going: Any) -> None:
        """The scheduler sends a frame."""
        if self.post.posting:
            self.inbox.append((stream, going))
        else:
            super().deliver(stream, going)

    def read(self) -> None:
        """Takes in the oldest frame; the lease of a new exclusive attempt is asked for at once."""
        super().deliver(*self.inbox.pop(0))
        for id in [id for id, token in self.held.items() if token not in self.leases]:
            self.may_run(id)

    def beat(self, *ids: str) -> Standing:
        """Sends a heartbeat; leases of what it lists run anew, but for what the answer calls lost."""
        listed = ids or tuple(self.held)
        verdict = super().beat(*ids)
        if verdict in (Standing.GOOD, Standing.NO_STREAM):
            until = self.lab.now + self.lab.limits.lease_ms
            self.leases |= {self.held[id]: until for id in listed if id in self.held}
        return verdict

    def may_run(self, id: str) -> bool:
        """Tells whether a held attempt may be run; for an exclusive one its lease is confirmed first."""
        exclusive = "exclusive" in self.lab.tables.instances.get(id, {}).get("policy_json", "")
        if exclusive and not self.runs_alone(id):
            self.beat(id)
        return id in self.held

    def runs_alone(self, id: str) -> bool:
        """Tells whether the lease of a held exclusive attempt is confirmed and not over."""
        return id in self.held and self.leases.get(self.held[id], 0) > self.lab.now

    def forget(self) -> None:
        """Its process is killed: what it held is gone, its spool is not."""
        self.held.clear()
        self.leases.clear()
        self.stream = None
        self.epoch = 0


class PostLab(Lab):
    """A lab in which workers' events wait to be delivered."""

    workers: dict[str, PostedWorker]  # type: ignore[assignment]

    def __init__(self, seen: Counter[str] | None = None) -> None:
        """Begins with nobody; `seen` counts what happens, by name."""
        self.mail: dict[object, list[Any]] = {}
        self.posting = True
        self.seen: Counter[str] = Counter() if seen is None else seen
        self.silent: set[str] = set()
        super().__init__()

    def _engine(self, term: int) -> Engine:
        engine = super()._engine(term)
        engine.cluster.observe = self._observe
        self.silent.clear()  # another leader knows nothing of it
        self._listen(engine)
        return engine

    def _listen(self, engine: Engine) -> None:
        """Notes which workers did not take up what they were sent, and were not heard since."""
        handle, tick = engine.handle, engine.tick

        def listening(event: Any, now_ms: int) -> Standing:
            verdict = handle(event, now_ms)
            if getattr(event, "started", ()) and isinstance(event, Heartbeat):
                self._fell_silent(event.worker_id, "held")
            elif isinstance(event, WORDS) and verdict in (Standing.GOOD, Standing.NO_STREAM):
                self.silent.discard(event.worker_id)
            return verdict

        def ticking(now_ms: int) -> None:
            sent = [(i, i.worker_id) for i in engine.cluster.instances.values() if i.state == ASSIGNED]
            waited = {i.id for i, _ in sent if i.fencing}
            tick(now_ms)
            for instance, worker_id in sent:
                given_up = "did not start it within" in instance.error_message
                if given_up or (instance.fencing and instance.id not in waited):
                    self._fell_silent(worker_id, "late")

        engine.handle, engine.tick = listening, ticking  # type: ignore[method-assign]

    def _fell_silent(self, worker_id: str, why: str) -> None:
        self.silent.add(worker_id)
        self.seen[f"worker sent nothing: {why}"] += 1

    def _observe(self, machine: str, before: int, to: int) -> None:
        names = MACHINES[machine]
        self.seen[f"{machine} {names(before).name} to {names(to).name}"] += 1

    def make_worker(self, id: str, *types: str, **parts: Any) -> PostedWorker:
        """Returns a worker that has not said anything."""
        made = super().make_worker(id, *types, **parts)
        worker = self.workers[id] = PostedWorker(self, id, made.registration)
        return worker

    def handle(self, event: Any) -> Any:
        """Hands an event to the engine, now or when it has travelled."""
        stream = getattr(event, "stream", None)
        if self.posting and stream is not None and isinstance(event, Hello | WorkerFrame | StreamClosed):
            self.mail.setdefault(stream, []).append(event)
            return 0
        return super().handle(event)

    def carry_out(self, batch: Batch) -> None:
        """Brings frames to workers, answers to callers, and counts them."""
        for going in batch.frames.values():
            self.seen["assignment sent"] += len(going.assignments)
            self.seen.update(f"told to stop: {order.reason}" for order in going.cancels)
        super().carry_out(batch)

    def recover(self) -> None:
        """Another leader takes over."""
        self.seen["take-over"] += 1
        self.seen["take-over with attempts in flight"] += bool(self.tables.of_phase(Phase.IN_FLIGHT))
        self.seen["take-over with a retry that waits"] += bool(self.tables.of_phase(Phase.PENDING))
        super().recover()

    def refill(self, limit: int = HEAD_LIMIT // 4) -> None:
        """Reads queues back from SQL that want it."""
        before = set(self.engine.cluster.instances)
        super().refill(limit)
        self.seen["refilled from SQL"] += len(self.engine.cluster.instances.keys() - before)

    def read_all(self) -> bool:
        """Has workers read all frames and give the credits that they then have. Returns whether there were any."""
        waiting = [worker for worker in self.workers.values() if worker.inbox and not worker.stuck]
        for worker in waiting:
            while worker.inbox:
                worker.read()
            if worker.stream is not None:
                worker.frame()
        return bool(waiting)

    # Looks.

    def known(self) -> Known:
        """Returns what the shell reads from SQL before it submits: keys, which a new leader does not remember."""
        rows = self.tables.instances.values()
        return Known(keys={row["idempotency_key"]: row["id"] for row in rows if row["idempotency_key"] is not None})

    def connected(self) -> list[PostedWorker]:
        """Returns the workers that have a session and a stream."""
        return [worker for worker in self.workers.values() if worker.epoch and worker.stream is not None]

    def held(self) -> list[tuple[PostedWorker, str]]:
        """Returns what connected workers hold."""
        return [(worker, id) for worker in self.connected() for id in sorted(worker.held)]
