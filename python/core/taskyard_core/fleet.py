"""The fleet: workers, what they offer, what they hold, and who takes the next task. Not how a task moves on.

The ledger here counts slots; what a worker says about itself is only reconciled with it. Workers that are alike share
a class, and each class keeps its workers in a heap by load, so that a choice looks at classes, not at workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum
from functools import lru_cache
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from taskyard_core.records import Instance, Policy
from taskyard_core.selectors import Selector
from taskyard_core.transitions import WORKER_MOVES, IllegalTransition, WorkerState

if TYPE_CHECKING:
    from taskyard_core.ready import ReadyQueue

ANY_TYPE = "*"
SILENCE = "s:"
LEASE = "l:"
"""Prefixes of a worker's timers; no instance id begins so."""

parse_selector = lru_cache(maxsize=4096)(Selector.parse)
"""Parsed selectors, kept: the same few are asked for with every task."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker announced. Resources: thousandths of a core, MiB, whole GPUs."""

    host: str = ""
    port: int = 0
    capabilities: tuple[str, ...] = ()
    max_concurrency: int = 10
    protocol: str = "grpc"
    callback_url: str = ""
    grpc_addr: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    build_id: str = ""
    cpu_millis: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def dump(self) -> str:
        """Returns the stored form."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def load(text: str) -> Registration:
        """Reads a stored form. Unknown members, written by a newer version, are passed over."""
        values = {name: value for name, value in json.loads(text).items() if name in _FIELDS}
        values["capabilities"] = tuple(values.get("capabilities", ()))
        values["labels"] = tuple((name, value) for name, value in values.get("labels", ()))
        return Registration(**values)


_FIELDS = frozenset(field.name for field in fields(Registration))


class Stall(IntEnum):
    """Why a worker that looks well is sent nothing: its event loop seems to be held. Ends with its next word."""

    NONE = 0
    """It is not stalled."""
    LATE = 1
    """It did not start an attempt in time."""
    HELD = 2
    """It has said so: a handler holds its event loop."""


class Worker:
    """A worker and its ledger."""

    __slots__ = (
        "attempts",
        "cpu",
        "cpu_usage",
        "credit_limit",
        "draining",
        "epoch",
        "former",
        "gpus",
        "heard",
        "id",
        "klass",
        "last_seen",
        "lease_key",
        "memory",
        "memory_mb",
        "registration",
        "rejected",
        "sent",
        "silence_key",
        "stall",
        "stamp",
        "state",
        "stream",
        "tenant",
    )  # fmt: skip

    def __init__(self, id: str, tenant: str, epoch: int, registration: Registration, state: WorkerState) -> None:
        self.id = id
        self.silence_key = SILENCE + id
        self.lease_key = LEASE + id
        self.tenant = tenant
        self.epoch = epoch
        self.registration = registration
        self.state = state
        self.stream: object | None = None  # the open stream, opaque; None when there is none
        self.attempts: dict[str, Instance] = {}  # by instance id: what holds a slot here
        self.former: set[str] = set()  # tokens of those that were an earlier session's when this one registered
        self.credit_limit = 0  # how many assignments the stream may have carried in all
        self.sent = 0  # how many it has carried, counted when they are decided
        self.cpu = self.memory = self.gpus = 0  # held by attempts
        self.draining = False  # whether this session has said that it takes no more
        self.rejected: set[str] = set()  # task types handed back in this session
        self.stall = Stall.NONE
        self.last_seen = 0  # from when silence counts: its last sign of life, or the start of this leader
        self.heard = False  # whether it has given this leader a sign of life
        self.cpu_usage = 0.0
        self.memory_mb = 0
        self.stamp = 0  # grows with each change; older heap entries are stale
        self.klass: WorkerClass | None = None

    def __repr__(self) -> str:
        return f"<Worker {self.id} {self.state.name} epoch {self.epoch} holds {len(self.attempts)}>"

    def room(self) -> int:
        """Returns how many more tasks may be sent now."""
        if self.state != WorkerState.HEALTHY or self.stream is None or self.stall:
            return 0
        return min(self.registration.max_concurrency - len(self.attempts), self.credit_limit - self.sent)

    def fits(self, policy: Policy) -> bool:
        """Tells whether what the policy asks for is free here."""
        has = self.registration
        return (
            self.cpu + policy.cpu_millis <= has.cpu_millis
            and self.memory + policy.memory_mb <= has.memory_mb
            and self.gpus + policy.gpus <= has.gpus
        )

    def move(self, to: WorkerState) -> None:
        """Moves to another state; staying is no move."""
        if to == self.state:
            return
        if to not in WORKER_MOVES[self.state]:
            raise IllegalTransition(self, to, "the worker's state machine has no such step")
        self.state = to


@dataclass(slots=True, eq=False)
class WorkerClass:
    """Workers of one tenant with the same capabilities and labels.

    The heap is lazy: a worker that takes a task keeps its entry, which is corrected when it comes to the top; one that
    became lighter waits in `lighter` until the next choice. So a task costs no heap operation while one worker takes
    many.
    """

    tenant: str
    capabilities: frozenset[str]
    labels: Mapping[str, str]
    random: Callable[[], float]
    heap: list[tuple[float, int, float, int, Worker]] = field(default_factory=list)
    lighter: dict[Worker, None] = field(default_factory=dict)
    waiters: dict[ReadyQueue, None] = field(default_factory=dict)
    size: int = 0

    def offers(self, task_type: str) -> bool:
        """Tells whether its workers run the type."""
        return task_type in self.capabilities or ANY_TYPE in self.capabilities

    def best(self) -> Worker | None:
        """Returns the least loaded worker with room, or None."""
        heap = self.heap
        if self.lighter:
            self._sink_lighter()
        while heap:
            _, recorded, _, stamp, worker = heap[0]
            if stamp != worker.stamp or worker.room() <= 0:
                heappop(heap)
            elif len(heap) > 1 and len(worker.attempts) - worker.registration.max_concurrency != recorded:
                heapreplace(heap, self._entry(worker))
            else:
                return worker
        return None

    def _sink_lighter(self) -> None:
        for worker in self.lighter:
            worker.stamp += 1
            if worker.room() > 0:
                heappush(self.heap, self._entry(worker))
        self.lighter.clear()
        if len(self.heap) > 4 * self.size + 64:
            self.heap = sorted(entry for entry in self.heap if entry[3] == entry[4].stamp)

    def _entry(self, worker: Worker) -> tuple[float, int, float, int, Worker]:
        top = worker.registration.max_concurrency
        held = len(worker.attempts)
        return (held / top, held - top, self.random(), worker.stamp, worker)


class Fleet:
    """All workers, by id, and the classes they form."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.workers: dict[str, Worker] = {}
        self.classes: dict[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]], WorkerClass] = {}
        self.version = 0  # grows when a class comes or goes, or a worker comes that something waits for
        self.healthy = 0
        self.random = random
        self.awaited: set[str] = set()  # ids of workers for which alone something waits

    def add_again(self, worker: Worker, registration: Registration) -> None:
        """Takes a known worker's new registration, which may put it into another class."""
        self._leave_class(worker)
        worker.registration = registration
        self.add(worker)

    def add(self, worker: Worker) -> None:
        """Takes in a worker that is in no class."""
        self.workers[worker.id] = worker
        has = worker.registration
        key = (worker.tenant, tuple(sorted(has.capabilities)), has.labels)
        klass = self.classes.get(key)
        if klass is None:
            klass = WorkerClass(worker.tenant, frozenset(has.capabilities), dict(has.labels), self.random)
            self.classes[key] = klass
            self.version += 1
        klass.size += 1
        worker.klass = klass
        if worker.id in self.awaited:
            self.awaited.discard(worker.id)
            self.version += 1

    def remove(self, worker: Worker) -> None:
        """Forgets a worker."""
        self._leave_class(worker)
        del self.workers[worker.id]

    def _leave_class(self, worker: Worker) -> None:
        klass = worker.klass
        if klass is None:
            return
        worker.stamp += 1
        klass.lighter.pop(worker, None)
        worker.klass = None
        klass.size -= 1
        if klass.size == 0:
            has = worker.registration
            del self.classes[worker.tenant, tuple(sorted(has.capabilities)), has.labels]
            self.version += 1

    def touch(self, worker: Worker) -> None:
        """Notes that a worker may have become lighter, or that its credits or state changed."""
        if worker.klass is not None:
            worker.klass.lighter[worker] = None

    def hold(self, worker: Worker, instance: Instance) -> None:
        """Gives the instance a slot of the worker, and the resources it asks for."""
        worker.attempts[instance.id] = instance
        policy = instance.policy
        if policy.asks:
            worker.cpu += policy.cpu_millis
            worker.memory += policy.memory_mb
            worker.gpus += policy.gpus

    def release(self, worker: Worker, instance: Instance) -> bool:
        """Takes back the instance's slot. Returns False when it had none."""
        if worker.attempts.pop(instance.id, None) is None:
            return False
        policy = instance.policy
        if policy.asks:
            worker.cpu -= policy.cpu_millis
            worker.memory -= policy.memory_mb
            worker.gpus -= policy.gpus
        return True

    def classes_for(self, queue: ReadyQueue) -> list[WorkerClass]:
        """Returns the classes that may take from the queue, kept with it until the fleet's classes change."""
        if queue.fleet_version != self.version:
            selector = parse_selector(queue.policy.selector) if queue.policy.selector else None
            queue.classes = [
                klass
                for klass in self.classes.values()
                if klass.tenant == queue.tenant
                and klass.offers(queue.task_type)
                and (selector is None or selector.matches(klass.labels))
            ]
            queue.fleet_version = self.version
        if queue.policy.worker:
            return [klass for klass in queue.classes if self._class_of(queue.policy.worker) is klass]
        return queue.classes

    def _class_of(self, worker_id: str) -> WorkerClass | None:
        worker = self.workers.get(worker_id)
        return worker.klass if worker is not None else None

    def run_of(self, queue: ReadyQueue, worker: Worker) -> int:
        """Returns how many plain tasks of a queue may go to the chosen worker before another could be less loaded."""
        klass = worker.klass
        if klass is None or len(queue.classes) > 1 or klass.size > 1:
            return 1
        return worker.room()

    def choose(self, queue: ReadyQueue, instance: Instance, spread: Mapping[str, int] | None) -> Worker | None:
        """Returns the worker for the queue's next instance: preferred, spread, least loaded, ties at random.

        Args:
            queue: The instance's ready queue.
            instance: The instance.
            spread: How many live tasks of its run each value of its spread label has; None when it asks for none.
        """
        classes = self.classes_for(queue)
        policy = instance.policy
        if policy.worker:
            return self._the_one(queue, policy) if classes else None
        if policy.affinity:
            liked = parse_selector(policy.affinity)
            found = self._least(queue, policy, [k for k in classes if liked.matches(k.labels)], spread)
            if found is not None:
                return found
        return self._least(queue, policy, classes, spread)

    def _the_one(self, queue: ReadyQueue, policy: Policy) -> Worker | None:
        """Returns the worker that alone may take the task, if it can now."""
        worker = self.workers[policy.worker]
        takes = worker.room() > 0 and worker.fits(policy) and queue.task_type not in worker.rejected
        return worker if takes else None

    def _least(
        self, queue: ReadyQueue, policy: Policy, classes: list[WorkerClass], spread: Mapping[str, int] | None
    ) -> Worker | None:
        best: Worker | None = None
        best_rank: tuple[float, ...] | None = None
        for klass in classes:
            worker = klass.best()
            if worker is not None and (policy.asks or worker.rejected):
                worker = self._first_fit(klass, policy, queue.task_type)
            if worker is None:
                continue
            if len(classes) == 1:
                return worker
            top = worker.registration.max_concurrency
            held = len(worker.attempts)
            crowd = spread.get(klass.labels.get(policy.spread, ""), 0) if spread is not None else 0
            rank = (crowd, held / top, held - top, self.random())
            if best_rank is None or rank < best_rank:
                best, best_rank = worker, rank
        return best

    def _first_fit(self, klass: WorkerClass, policy: Policy, task_type: str) -> Worker | None:
        """Looks beyond the least loaded worker for one that has the resources and did not hand the type back."""
        passed = []
        found = None
        while (worker := klass.best()) is not None:
            if worker.fits(policy) and task_type not in worker.rejected:
                found = worker
                break
            passed.append(heappop(klass.heap))
        for entry in passed:
            heappush(klass.heap, entry)
        return found
