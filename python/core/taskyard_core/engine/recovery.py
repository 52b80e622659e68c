"""A new leader's memory, rebuilt from stored rows. Nothing is decided here; time starts when it is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskyard_core.engine import attempts, retries, runs, sessions
from taskyard_core.engine.cluster import RUN, Cluster
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.fleet import Registration, Worker
from taskyard_core.pauses import NONE_HELD, HeldRuns, Pause
from taskyard_core.ready import Key, ReadyQueue, order_key
from taskyard_core.records import ASSIGNED, DEFERRED, PENDING, QUEUED, RUNNING, Instance, Row, RunState
from taskyard_core.transitions import WorkerState


def restore_worker(c: Cluster, row: Row) -> None:
    """Takes in WORKER_COLUMNS: the worker is expected to report."""
    id, tenant, epoch, registration, _, _ = row
    worker = Worker(id, tenant, epoch, Registration.load(registration), WorkerState.EXPECTED)
    c.fleet.add(worker)
    sessions.count_silence(c, worker)


def restore_pause(c: Cluster, row: Row) -> None:
    """Takes in PAUSE_COLUMNS."""
    c.pauses.add(Pause.from_row(row))


def restore_run(c: Cluster, row: Row, instances: Iterable[Instance]) -> None:
    """Takes in RUN_COLUMNS of a live run and the instances of its steps, ended ones included."""
    run = retries.restore_run(c, row, instances)
    c.runs[run.id] = run
    if run.state == RunState.RUNNING:
        runs.resume(c, run)
    elif run.state == RunState.PENDING:
        c.timers.arm(RUN + run.id, run.start_at or c.now)


def restore_instance(c: Cluster, instance: Instance) -> None:
    """Takes in a PENDING or DEFERRED instance, or one that was with a worker: its lease counts as renewed now."""
    c.instances[instance.id] = instance
    _bring_to_now(c, instance)
    if instance.state == PENDING or instance.state == DEFERRED:
        c.arm_waiting(instance)
        runs.resume_step(c, instance)
        return
    worker = c.fleet.workers.get(instance.worker_id)
    if worker is None:
        worker = Worker(instance.worker_id, instance.tenant, 0, Registration(), WorkerState.EXPECTED)
        c.fleet.add(worker)
        sessions.count_silence(c, worker)
    c.fleet.hold(worker, instance)
    instance.lease_until = c.now + c.limits.lease_ms
    if worker.lease_key not in c.timers:
        c.timers.arm(worker.lease_key, instance.lease_until)
    if instance.state == ASSIGNED:
        c.timers.arm(instance.id, c.now + max(instance.policy.start_ms, c.limits.takeover_grace_ms))
    elif instance.state == RUNNING:
        attempts.arm_running(c, instance)


def _bring_to_now(c: Cluster, instance: Instance) -> None:
    """Lets no wait last longer because a leader before this one had a clock that was ahead.

    What that leader wrote down as past is at the latest now, and no retry is due later than its policy allows.
    """
    now = c.now
    instance.created_at = min(instance.created_at, now)  # in memory only: the row says what was answered
    before = (instance.queued_at, instance.started_at, instance.not_before, instance.order_key)
    if instance.queued_at is not None and instance.queued_at > now:
        instance.queued_at = now
        instance.order_key = min(instance.order_key, order_key(now, instance.priority))
    if instance.started_at is not None:
        instance.started_at = min(instance.started_at, now)
    if instance.state == DEFERRED and instance.not_before is not None:
        instance.not_before = min(instance.not_before, now + attempts.MAX_DEFER_MS)
    elif instance.not_before is not None and instance.attempt:
        retry = instance.policy.retry
        longest = round(retry.max_delay_ms * (1.0 + retry.jitter))
        instance.not_before = min(instance.not_before, now + longest)
    if before != (instance.queued_at, instance.started_at, instance.not_before, instance.order_key):
        c.mark(instance)


def restore_queue(c: Cluster, first: Instance, waiting: int) -> None:
    """Takes note of a queue whose tasks are all in SQL: `first` is its first task, `waiting` their number."""
    queue = c.queue_for(first)
    queue.spilled = waiting
    queue.floor = (first.order_key, "")


def refills(c: Cluster) -> list[ReadyQueue]:
    """Returns the queues of which rows should be read from SQL now, and notes that they are.

    Asked for when every sealed batch is committed; nothing is sealed until `refill` has taken the rows in.
    """
    wanting = [queue for queue in c.queues.values() if queue.wants_refill()]
    for queue in wanting:
        queue.refilling = True
    return wanting


def passed_over(c: Cluster, queue: ReadyQueue) -> HeldRuns:
    """Returns whose rows a refill leaves out: what is held back would fill the memory, and others wait behind it.

    What has a deadline is in memory in any case, and so is what is to be cancelled.
    """
    held = NONE_HELD if queue.deadlines else c.pauses.held_runs(queue.tenant)
    stopping = (run for run in c.runs.values() if run.state == RunState.CANCELLING) if held != NONE_HELD else ()
    return NONE_HELD if any(run.workflow in held.workflows for run in stopping) else held


def refill(c: Cluster, queue: ReadyQueue, rows: Sequence[Row], *, more: bool, held: HeldRuns = NONE_HELD) -> None:
    """Takes in READY rows of a queue from its floor on, but for those that have changed since the last commit.

    `held`: whose rows were left out.
    """
    if held != passed_over(c, queue):  # something was paused or resumed meanwhile: they are read again
        queue.refilling = False
        return
    loaded: list[Instance] = []
    last = None
    for row in rows:
        instance = instance_from_row(row)
        last = (instance.order_key, instance.id)
        if instance.id in c.instances or instance.id in c.dirty:
            continue
        loaded.append(instance)
    queue.refill_done(len(loaded), more=more, last=last, passed=held != NONE_HELD)
    floor, unsealed = queue.floor, queue.open_min
    queue.floor = None  # what was just read goes to memory whatever the new floor is
    for instance in loaded:
        c.instances[instance.id] = instance
        _bring_to_now(c, instance)
        c.enqueue(instance)
    queue.lower_floor(floor)
    if queue.open_min != unsealed:
        queue.open_min = _first_unsealed(c, queue)
    for instance in loaded:
        run = c.runs.get(instance.run_id)
        if run is not None and run.state == RunState.CANCELLING and instance.id in c.instances:
            attempts.cancel(c, instance, run.cancel_reason)  # it was out of reach when its run was cancelled


def _first_unsealed(c: Cluster, queue: ReadyQueue) -> Key | None:
    """Returns the smallest key of what left memory and is not in SQL yet: what made room may have been read from it."""
    changed = (*c.new.values(), *c.dirty.values())
    gone = (i for i in changed if i.state == QUEUED and i.queue == queue.key and i.tenant == queue.tenant)
    return min(((i.order_key, i.id) for i in gone if i.id not in c.instances), default=None)
