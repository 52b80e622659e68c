"""What happens because time passed."""

from __future__ import annotations

from taskyard_core.engine import attempts, runs, sessions
from taskyard_core.engine.cluster import RUN, Cluster, may_expire
from taskyard_core.engine.effects import Batch
from taskyard_core.fleet import LEASE, SILENCE, Stall
from taskyard_core.records import ASSIGNED, CANCELLING, DEFERRED, PENDING, QUEUED, RUNNING, Instance
from taskyard_core.retry import FailureKind
from taskyard_core.spans import span


def due(c: Cluster) -> None:
    """Acts on every deadline that has passed."""
    for key in c.timers.due(c.now):
        kind = key[:2]
        if kind == SILENCE or kind == LEASE:
            worker = c.fleet.workers.get(key[2:])
            if worker is not None:
                (sessions.silence_due if kind == SILENCE else sessions.lease_due)(c, worker)
            continue
        if kind == RUN:
            runs.due(c, key[2:])
            continue
        instance = c.instances.get(key)
        if instance is not None:
            _instance_due(c, instance)


def _instance_due(c: Cluster, instance: Instance) -> None:
    """Acts on the deadline of the state that the instance is in, if that has passed.

    What fired before it in the same turn may have moved the instance on: the deadline is of a state it has left.
    """
    policy = instance.policy
    if instance.id in c.timers or (instance.state == PENDING and instance.not_before is None):
        return
    if policy.total_ms and c.now >= instance.created_at + policy.total_ms:
        if instance.state == CANCELLING:
            return
        message = f"not done within {span(policy.total_ms)} of its submission"
        attempts.cancel(c, instance, message, attempts.TOTAL_TIMEOUT_KIND)
    elif instance.state in (PENDING, QUEUED) and _expired(c, instance):
        attempts.cancel(c, instance, "it had not started when it expired", attempts.EXPIRED_KIND)
    elif instance.state == PENDING:
        attempts.to_queue(c, instance, keep_place=False)
    elif instance.state == DEFERRED:
        waited = span(c.now - (instance.started_at or instance.created_at))
        attempts.count_wait(c, instance)
        attempts.failure(c, instance, FailureKind.TIMEOUT, f"its result did not come from outside within {waited}")
    elif instance.state == QUEUED:
        _queue_due(c, instance)
    elif instance.state == ASSIGNED:
        _start_due(c, instance)
    elif instance.state == RUNNING:
        message = f"ran longer than {span(policy.run_ms)} and its worker did not stop it"
        attempts.cancel(c, instance, message, attempts.TIMEOUT_KIND)


def _queue_due(c: Cluster, instance: Instance) -> None:
    limit = instance.policy.queued_ms
    if limit and instance.queued_at is not None and c.now >= instance.queued_at + limit:
        attempts.cancel(c, instance, f"no worker took it within {span(limit)}", attempts.QUEUED_TIMEOUT_KIND)


def _expired(c: Cluster, instance: Instance) -> bool:
    return instance.expire_at is not None and c.now >= instance.expire_at and may_expire(instance)


def _start_due(c: Cluster, instance: Instance) -> None:
    """The start was not acknowledged. An exclusive attempt is waited for until it cannot be alive any more.

    Whatever holds up its worker would hold up the next task, too, so that one is sent nothing until it is heard.
    """
    if instance.revision > c.committed:
        c.timers.arm(instance.id, c.now + instance.policy.start_ms)  # it has not left yet, so nobody is late
        return
    worker = c.fleet.workers[instance.worker_id]
    sessions.stall(c, worker, Stall.LATE)
    c.order_stop(instance, "fenced")
    why = f"worker {instance.worker_id} did not start it within {span(instance.policy.start_ms)}"
    if instance.policy.exclusive and c.now < instance.lease_until:
        instance.fencing = True
        return
    if worker.stall == Stall.HELD:
        kept = f"{why}: a handler of another task holds its event loop"
        attempts.requeue(c, instance, FailureKind.NEVER_STARTED.value, kept)  # not this one's fault, so not counted
        return
    attempts.never_started(c, instance, why)


def left(c: Cluster, batch: Batch) -> None:
    """A batch whose commit took long has left only now: its attempts have their whole time to be started."""
    for outgoing in batch.frames.values():
        for instance, token in outgoing.assignments:
            if instance.token == token and instance.state == ASSIGNED:
                deadline = c.now + instance.policy.start_ms
                if instance.policy.total_ms:
                    deadline = min(deadline, instance.created_at + instance.policy.total_ms)
                c.timers.arm(instance.id, deadline)
