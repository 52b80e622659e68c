"""The dispatch pass: what waits goes to who has room, first things first. Decides nothing else about a task."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.effects import Assign
from taskyard_core.fleet import Worker
from taskyard_core.ready import ReadyQueue
from taskyard_core.records import ASSIGNED, IN_FLIGHT, Instance


def dispatch(c: Cluster) -> None:
    """Assigns every waiting task that a worker has room for, in order of the tasks' keys over all queues."""
    if c.fleet_version != c.fleet.version:
        _look_again(c)
        c.fleet_version = c.fleet.version
    if not c.active:
        return
    heads = []
    for queue in c.active:
        first = _head(c, queue) if c.pauses.any else queue.peek()
        if first is not None:
            heads.append((first.order_key, first.id, queue))  # the id: of one millisecond, what came first goes first
    c.active.clear()
    heapify(heads)
    while heads:
        queue = heads[0][2]
        following = _serve(c, queue, alone=len(heads) == 1)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, (following.order_key, following.id, queue))


def _head(c: Cluster, queue: ReadyQueue) -> Instance | None:
    """Returns the queue's first task that nothing holds back; what is held back with its run is put aside."""
    if c.pauses.of_queue(queue) is not None:
        queue.waiting = True  # until a pause ends
        return None
    first = queue.peek()
    while first is not None and first.run_id and c.pauses.of_run(first.tenant, first.workflow, first.run_id):
        gone = queue.hold()
        if gone is not None:
            c.leave_memory(gone)
        first = queue.peek()
    return first


def _look_again(c: Cluster) -> None:
    """A class of workers came or went: whatever waits may have other workers to go to than those it waits for."""
    for klass in c.fleet.classes.values():
        klass.waiters.clear()
    c.active.update(c.starved)
    c.starved.clear()
    for queue in c.queues.values():
        if queue.waiting:
            queue.waiting = False
            c.active[queue] = None


def _serve(c: Cluster, queue: ReadyQueue, *, alone: bool) -> Instance | None:
    """Assigns the queue's first task, and more of them while nothing else could go first.

    Returns the task that is then the first; None when there is none or no worker has room.
    """
    instance = queue.peek()  # nothing holds it back: it has been looked at when it became the first
    if instance is None:
        return None
    worker = _choose(c, queue, instance)
    if worker is None:
        _block(c, queue)
        return None
    run = c.fleet.run_of(queue, worker) if alone and instance.policy.plain else 1
    outgoing = c.batch.outgoing(worker.stream, worker.id).assignments
    while instance is not None and run > 0 and (instance.policy.plain or run == 1):
        queue.pop()
        outgoing.append(Assign(instance, assign(c, instance, worker)))
        run -= 1
        instance = _head(c, queue) if c.pauses.of_runs else queue.peek()
    return instance


def _choose(c: Cluster, queue: ReadyQueue, instance: Instance) -> Worker | None:
    spread = None
    if instance.policy.spread and instance.run_id:
        run = c.runs.get(instance.run_id)
        spread = run.crowd(c, instance.policy.spread) if run is not None else None
    return c.fleet.choose(queue, instance, spread)


def _block(c: Cluster, queue: ReadyQueue) -> None:
    """No worker has room: the queue is looked at again when one of its classes has, or when a class comes."""
    classes = c.fleet.classes_for(queue)
    queue.waiting = bool(classes)
    if queue.policy.worker:
        c.fleet.awaited.add(queue.policy.worker)
    if not classes:
        c.starved[queue] = None
    for klass in classes:
        klass.waiters[queue] = None


def assign(c: Cluster, instance: Instance, worker: Worker) -> str:
    """Gives a QUEUED instance to a worker: the next attempt, in this batch. Returns its token."""
    if c.observe is not None:
        c.observe("instance", instance.state, ASSIGNED)
    instance.state = ASSIGNED
    instance.phase = IN_FLIGHT
    id = instance.id
    if id not in c.new:
        c.dirty[id] = instance
    now = c.now
    instance.attempt += 1
    instance.worker_id = worker.id
    instance.token = token = c.ids.token()
    instance.term = c.term
    instance.assigned_at = now
    instance.started_at = None
    instance.duration_ms = 0
    instance.lease_until = now + c.limits.lease_ms
    if instance.error_kind:
        instance.error_kind = instance.error_message = ""
    worker.sent += 1
    c.fleet.hold(worker, instance)
    policy = instance.policy
    deadline = now + policy.start_ms
    if policy.total_ms:
        deadline = min(deadline, instance.created_at + policy.total_ms)
    c.timers.arm(id, deadline)
    if worker.lease_key not in c.timers:
        c.timers.arm(worker.lease_key, instance.lease_until)
    return token
