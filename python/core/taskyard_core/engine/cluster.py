"""Everything that the leader holds in memory, and the batch that is being gathered. Holds; the other modules decide."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from taskyard_core.engine.effects import Batch, CancelOrder
from taskyard_core.fleet import Fleet, Worker
from taskyard_core.ids import IdSource
from taskyard_core.pauses import Pauses
from taskyard_core.ready import ReadyQueue
from taskyard_core.records import DEFERRED, ENDED, PENDING, PHASES, Instance, Row
from taskyard_core.timers import Timers
from taskyard_core.transitions import NEXT, WorkerState, refuse_move

if TYPE_CHECKING:
    from taskyard_core.engine.live_run import LiveRun
    from taskyard_core.workflow import WorkflowVersion


QUEUES_KEPT = 1_000
RUN = "r:"
"""Prefix of a run's timer; no instance id begins so."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of the engine. Times are milliseconds."""

    lease_ms: int = 60_000
    silence_ms: int = 30_000
    forget_ms: int = 24 * 3_600_000
    cancel_grace_ms: int = 10_000
    takeover_grace_ms: int = 10_000
    never_started_limit: int = 5
    pending_limit: int = 5_000_000
    remembered_requests: int = 100_000


class Sealed(NamedTuple):
    """A batch that is being committed, and what it writes, by id."""

    batch: Batch
    new: dict[str, Instance]
    dirty: dict[str, Instance]
    runs: dict[str, LiveRun]


class Cluster:
    """The leader's memory in one term.

    Live instances are in `instances`; those that were made or changed since the last seal are also in `new` or
    `dirty`. An ended one leaves `instances` at once, unless it is pinned.
    """

    def __init__(self, term: int, revision: int, ids: IdSource, random: Callable[[], float], limits: Limits) -> None:
        self.term = term
        self.revision = revision
        self.ids = ids
        self.random = random
        self.limits = limits
        self.now = 0
        self.started_at = 0
        self.instances: dict[str, Instance] = {}
        self.queues: dict[tuple[str, str], ReadyQueue] = {}
        self.queues_kept = QUEUES_KEPT  # beyond so many the empty ones are dropped
        self.active: dict[ReadyQueue, None] = {}  # queues that the next dispatch pass looks at
        self.starved: dict[ReadyQueue, None] = {}  # queues that no class of workers may take from
        self.fleet = Fleet(random)
        self.fleet_version = -1  # of the fleet when starved queues were looked at last
        self.runs: dict[str, LiveRun] = {}
        self.workflows: dict[tuple[str, str, int], WorkflowVersion] = {}
        self.pauses = Pauses()
        self.timers = Timers()
        self.pins: dict[str, int] = {}
        self.requests: OrderedDict[tuple[str, str], tuple[str, bytes | None]] = OrderedDict()
        self.requests_complete = False  # True while `requests` holds every id that is young enough to matter
        self.keys: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.run_keys: OrderedDict[tuple[str, str], str] = OrderedDict()
        self.new: dict[str, Instance] = {}
        self.dirty: dict[str, Instance] = {}
        self.rewritten: set[str] = set()  # those of `dirty` whose next row has all columns
        self.dirty_runs: dict[str, LiveRun] = {}
        self.checkpoints: dict[str, Row] = {}  # the last one of each instance since the last seal
        self.sealed: deque[Sealed] = deque()  # what is being committed, the oldest first
        self.kept: dict[str, Instance] = {}  # pinned ones that are in no other place
        self.kept_runs: dict[str, LiveRun] = {}
        self.batch = Batch()
        self.committed = revision  # of the last commit: assignments of later ones have not left
        self.epochs = 0
        self.observe: Callable[[str, int, int], None] | None = None  # (machine, from, to), for tests

    # Instances.

    def mark(self, instance: Instance) -> None:
        """The instance changed: the next commit writes it."""
        if instance.id not in self.new:
            self.dirty[instance.id] = instance

    def rewrite(self, instance: Instance) -> None:
        """Something of the instance changed that else never does: the next commit writes all of it."""
        self.mark(instance)
        if instance.id in self.dirty:
            self.rewritten.add(instance.id)

    def move(self, instance: Instance, to: int) -> None:
        """Moves an instance to another state and marks it."""
        if not NEXT[instance.state] >> to & 1:
            refuse_move(instance, to)
        if self.observe is not None:
            self.observe("instance", instance.state, to)
        instance.state = to
        instance.phase = PHASES[to]
        if instance.id not in self.new:
            self.dirty[instance.id] = instance

    def add(self, instance: Instance) -> None:
        """Takes in an instance that has just been made."""
        self.instances[instance.id] = instance
        self.new[instance.id] = instance

    def mark_run(self, run: LiveRun) -> None:
        """The run changed: the next commit writes it."""
        self.dirty_runs[run.id] = run

    def remove_row(self, tenant: str, id: str) -> None:
        """Has the next commit delete an ended instance, whether or not it has been written yet."""
        self.dirty.pop(id, None)
        if self.new.pop(id, None) is None:
            self.batch.changes.instance_deletes.append((tenant, id))

    def forget(self, instance: Instance) -> None:
        """Lets an instance leave memory that has ended or waits in SQL only."""
        self.timers.cancel(instance.id)
        if instance.id in self.pins and instance.phase == ENDED:
            self.instances[instance.id] = instance
            return
        self.instances.pop(instance.id, None)

    def forget_run(self, run: LiveRun) -> None:
        """Lets a run leave memory that has ended."""
        del self.runs[run.id]
        if run.id in self.pins:
            self.kept_runs[run.id] = run

    def find(self, id: str) -> Instance | None:
        """Returns an instance that is in memory, be it only because SQL may not have its last change yet."""
        return self.instances.get(id) or self.kept.get(id) or self._uncommitted(id)

    def find_run(self, id: str) -> LiveRun | None:
        """Returns a run that is in memory, be it only because SQL may not have its end yet."""
        found = self.runs.get(id) or self.kept_runs.get(id) or self.dirty_runs.get(id)
        return found or next((each.runs[id] for each in reversed(self.sealed) if id in each.runs), None)

    def _uncommitted(self, id: str) -> Instance | None:
        for changed in self.uncommitted():
            if id in changed:
                return changed[id]
        return None

    def as_committed(self, id: str) -> Instance | None:
        """Returns an instance that is in memory as SQL has it; None for one that is not, or has changed since."""
        instance = self.instances.get(id)
        if instance is None or instance.revision > self.committed or id in self.dirty or id in self.new:
            return None
        return instance if not instance.checkpoint_number else None  # checkpoints are committed by themselves

    def changing(self, id: str) -> Instance | None:
        """Returns an instance that SQL has, and that has changed since; the change is yet to be committed."""
        if id in self.new or any(id in each.new for each in self.sealed):
            return None
        found = self.dirty.get(id)
        return found or next((each.dirty[id] for each in self.sealed if id in each.dirty), None)

    def uncommitted(self) -> Iterator[dict[str, Instance]]:
        """Gives the instances that SQL does not have as they are now, by id, in parts, what changed last first."""
        yield self.dirty
        yield self.new
        for each in reversed(self.sealed):
            yield each.new
            yield each.dirty

    def pin(self, id: str) -> None:
        """Keeps an instance or a run findable while SQL is read for it, so that no stale row is acted on."""
        self.pins[id] = self.pins.get(id, 0) + 1
        instance, run = self.find(id), self.find_run(id)
        if instance is not None and id not in self.instances:
            self.kept[id] = instance
        if run is not None and id not in self.runs:
            self.kept_runs[id] = run

    def unpin(self, id: str) -> None:
        """Takes back one `pin`."""
        count = self.pins.pop(id) - 1
        if count:
            self.pins[id] = count
            return
        self.kept.pop(id, None)
        self.kept_runs.pop(id, None)
        instance = self.instances.get(id)
        if instance is not None and instance.phase == ENDED:
            del self.instances[id]

    # Queues.

    def queue_for(self, instance: Instance) -> ReadyQueue:
        """Returns the ready queue of an instance, making it when there is none."""
        tenant, key = instance.tenant, instance.queue
        queue = self.queues.get((tenant, key))
        if queue is None:
            if len(self.queues) >= self.queues_kept:
                self._drop_empty_queues()
            policy = instance.policy
            deadlines = policy.waits or instance.expire_at is not None
            queue = self.queues[tenant, key] = ReadyQueue(tenant, key, instance.task_type, policy, deadlines=deadlines)
        return queue

    def _drop_empty_queues(self) -> None:
        """Bounds what a stream of ever new selectors leaves behind."""
        for name, queue in list(self.queues.items()):
            if not len(queue) and not queue.refilling:
                del self.queues[name]
                self.active.pop(queue, None)
                self.starved.pop(queue, None)
        self.queues_kept = max(QUEUES_KEPT, 2 * len(self.queues))

    def enqueue(self, instance: Instance) -> None:
        """Puts a QUEUED instance into its queue and arms its waiting timer."""
        queue = self.queue_for(instance)
        spilled = queue.push(instance)
        if not queue.waiting:
            self.active[queue] = None
        if queue.deadlines:
            self.arm_waiting(instance)
        else:
            self.timers.cancel(instance.id)
        for gone in spilled:
            self.leave_memory(gone)

    def leave_memory(self, instance: Instance) -> None:
        """A QUEUED instance waits in SQL only."""
        self.instances.pop(instance.id, None)
        if instance.id in self.pins:
            self.kept[instance.id] = instance

    def arm_waiting(self, instance: Instance) -> None:
        """Arms the timer of an instance that waits, for the first of what bounds its wait."""
        policy = instance.policy
        bounds = []
        if instance.state == PENDING or instance.state == DEFERRED:
            if instance.not_before is None:  # it waits for other steps, not for a time
                self.timers.cancel(instance.id)
                return
            bounds.append(instance.not_before)
        elif policy.queued_ms and instance.queued_at is not None:
            bounds.append(instance.queued_at + policy.queued_ms)
        if policy.total_ms:
            bounds.append(instance.created_at + policy.total_ms)
        if instance.expire_at is not None and may_expire(instance):
            bounds.append(instance.expire_at)
        if bounds:
            self.timers.arm(instance.id, min(bounds))
        else:
            self.timers.cancel(instance.id)

    def leave_queue(self, instance: Instance) -> None:
        """Counts a QUEUED instance out of its queue, before its state changes otherwise than by dispatch."""
        queue = self.queues.get((instance.tenant, instance.queue))
        if queue is None:
            return
        if instance.id in self.instances:
            queue.drop(instance)
        else:
            queue.drop_stored()

    def look_again(self) -> None:
        """Has the next dispatch look at every queue that waits, as if a class of workers had come."""
        self.fleet_version = -1

    # Workers.

    def freed(self, worker: Worker) -> None:
        """The worker's room may have grown: it takes its new place, and queues that waited for it are looked at."""
        klass = worker.klass
        if klass is None:
            return
        klass.lighter[worker] = None
        if klass.waiters and worker.room() > 0:
            for queue in klass.waiters:
                queue.waiting = False
                self.active[queue] = None
            klass.waiters.clear()

    def release(self, instance: Instance) -> None:
        """Ends the slot that the instance's attempt holds. What it said of itself goes with it."""
        worker = self.fleet.workers.get(instance.worker_id)
        if worker is not None and self.fleet.release(worker, instance):
            self.freed(worker)
        instance.cancel_unconfirmed = False
        instance.fencing = False
        instance.percent = None
        instance.progress_message = ""

    def set_worker_state(self, worker: Worker, to: WorkerState) -> None:
        """Moves a worker to another state and keeps the fleet's count of healthy ones."""
        before = worker.state
        if before == to:
            return
        worker.move(to)
        if self.observe is not None:
            self.observe("worker", before, to)
        self.fleet.healthy += (to == WorkerState.HEALTHY) - (before == WorkerState.HEALTHY)
        if to == WorkerState.HEALTHY:
            self.freed(worker)
        else:
            self.fleet.touch(worker)

    def order_stop(self, instance: Instance, reason: str, *, kill: bool = False) -> None:
        """Has the worker of an instance's attempt told to stop it, if it can be told now."""
        worker = self.fleet.workers.get(instance.worker_id)
        if worker is None or worker.stream is None or not instance.token:
            return
        order = CancelOrder(instance.id, instance.token, reason, kill)
        self.batch.outgoing(worker.stream, worker.id).cancels.append(order)

    def order_fence(self, worker: Worker, task_id: str, token: str) -> None:
        """Has a worker told to stop an attempt that is no longer wanted."""
        if worker.stream is not None:
            self.batch.outgoing(worker.stream, worker.id).cancels.append(CancelOrder(task_id, token, "fenced"))

    # Figures.

    def waiting_count(self) -> int:
        """Returns how many instances wait for a worker, those in SQL only included."""
        return sum(len(queue) for queue in self.queues.values())

    def live_count(self) -> int:
        """Returns how many instances have not ended."""
        return len(self.instances) + sum(queue.spilled + queue.held_beyond for queue in self.queues.values())

    def count_end(self, instance: Instance) -> None:
        """Counts an instance that has ended."""
        self.batch.ended.append((instance.tenant, instance.task_type, instance.state, instance.duration_ms))

    def remember_request(self, tenant: str, request_id: str, id: str, digest: bytes | None) -> None:
        """Keeps an answered request id; the oldest are left to SQL."""
        self.requests[tenant, request_id] = (id, digest)
        if len(self.requests) > self.limits.remembered_requests:
            self.requests.popitem(last=False)
            self.requests_complete = False

    def remember_key(self, keys: OrderedDict[tuple[str, str], str], tenant: str, key: str, id: str) -> None:
        """Keeps an idempotency key of tasks or runs; the oldest are left to SQL."""
        keys[tenant, key] = id
        if len(keys) > self.limits.remembered_requests:
            keys.popitem(last=False)


def may_expire(instance: Instance) -> bool:
    """Tells whether no attempt has started, so that a waiting instance ends at its expiry."""
    return instance.started_at is None and not instance.retries
