"""The life of an attempt: it starts, ends, is stopped or lost; and what then becomes of its instance."""

from __future__ import annotations

from taskyard_core.engine import runs
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT, UNKNOWN_TASK, Ack
from taskyard_core.engine.events import Progress, Result
from taskyard_core.fleet import Worker
from taskyard_core.ready import order_key
from taskyard_core.records import (
    ASSIGNED,
    CANCELLED,
    CANCELLING,
    DEFERRED,
    ENDED,
    FAILED,
    IN_FLIGHT,
    PENDING,
    QUEUED,
    RUNNING,
    SKIPPED,
    SUCCESS,
    TIMEOUT,
    Instance,
)
from taskyard_core.retry import FailureKind, next_retry
from taskyard_core.spans import span

INTERRUPTED = 11
REJECTED = 12
"""Result statuses that are no instance state; the numbers are those of `taskyard.v1.TaskStatus`."""

CANCELLED_KIND = "CANCELLED"
TIMEOUT_KIND = "TIMEOUT"
TOTAL_TIMEOUT_KIND = "TOTAL_TIMEOUT"
QUEUED_TIMEOUT_KIND = "QUEUED_TIMEOUT"
EXPIRED_KIND = "EXPIRED"
REQUEUED_KIND = "REQUEUED"
MARKED_SUCCESS_KIND = "MARKED_SUCCESS"
MARKED_SKIPPED_KIND = "MARKED_SKIPPED"
"""Why a CANCELLING instance ends, kept in its error kind.

After REQUEUED_KIND it goes back to its queue; after the last two it has ended as a person said.
"""

MARKED = {MARKED_SUCCESS_KIND: SUCCESS, MARKED_SKIPPED_KIND: SKIPPED}
MARKED_KIND = "MARKED"
"""Error kind of what has ended because a person said so; its message is their reason."""

DEFER_MS = 7 * 24 * 3_600_000
MAX_DEFER_MS = 30 * 24 * 3_600_000
"""How long a result from outside is waited for when nothing is said, and at most."""

CHECKPOINT_BITS = 32
"""A checkpoint's stored number is the attempt's, then its own within the attempt: it grows across attempts."""

_KINDS = {kind.value: kind for kind in FailureKind}
_RAN = (SUCCESS, FAILED, DEFERRED)
"""Statuses of results that only a handler that was entered has."""


def start(c: Cluster, worker: Worker, task_id: str, token: str) -> None:
    """The handler of an attempt was entered."""
    instance = c.instances.get(task_id)
    if instance is None or instance.token != token or instance.worker_id != worker.id:
        return
    if instance.state != ASSIGNED or instance.fencing:
        return
    c.move(instance, RUNNING)
    instance.started_at = c.now
    instance.requeues = 0
    arm_running(c, instance)


def arm_running(c: Cluster, instance: Instance) -> None:
    """Arms the timer of a RUNNING instance. The worker enforces the run timeout; this one is for when it does not."""
    policy = instance.policy
    started = instance.started_at if instance.started_at is not None else c.now
    deadline = started + policy.run_ms + 2 * c.limits.cancel_grace_ms
    if policy.total_ms:
        deadline = min(deadline, instance.created_at + policy.total_ms)
    c.timers.arm(instance.id, deadline)


def result(c: Cluster, worker: Worker, told: Result) -> Ack:
    """A worker reports the end of an attempt. Returns what it is to be told once this is committed."""
    instance = c.instances.get(told.task_id)
    if instance is None:
        return Ack(told.task_id, told.token, STALE_ATTEMPT)
    if instance.worker_id != worker.id and instance.worker_id and instance.token == told.token:
        return Ack(told.task_id, told.token, UNKNOWN_TASK)
    if instance.token != told.token or instance.phase != IN_FLIGHT:
        return Ack(told.task_id, told.token, STALE_ATTEMPT)
    instance.duration_ms = told.duration_ms
    if instance.started_at is None and told.status in _RAN:
        # It ended before its start was told apart from it.
        instance.started_at = max(instance.assigned_at or 0, c.now - told.duration_ms)
    if told.metadata_json:
        instance.metadata_json = told.metadata_json
    if told.status == SUCCESS:
        instance.output_json = told.output_json
        instance.error_kind = instance.error_message = ""
        end(c, instance, SUCCESS)
    elif told.status == DEFERRED and instance.state != CANCELLING:
        defer(c, instance, told.defer_ms)
    else:
        _unsuccessful(c, worker, instance, told)
    return Ack(told.task_id, told.token, RECORDED)


def defer(c: Cluster, instance: Instance, wait_ms: int) -> None:
    """The handler has ended and the attempt's result comes from outside: it holds no slot until then."""
    c.release(instance)
    c.move(instance, DEFERRED)
    instance.not_before = c.now + (min(wait_ms, MAX_DEFER_MS) or DEFER_MS)
    c.arm_waiting(instance)


def count_wait(c: Cluster, instance: Instance) -> None:
    """The attempt's result has come from outside, or has not come in time: it has lasted until now."""
    if instance.started_at is not None:
        instance.duration_ms = max(0, c.now - instance.started_at)


def _unsuccessful(c: Cluster, worker: Worker, instance: Instance, told: Result) -> None:
    status = told.status
    if instance.state == CANCELLING:
        confirm_cancel(c, instance, told.error_message)
    elif instance.fencing and status in (CANCELLED, INTERRUPTED):
        never_started(c, instance, told.error_message or "it was fenced and stopped")
    elif status == INTERRUPTED:
        requeue(c, instance, "INTERRUPTED", told.error_message or "the worker stopped before the task was done")
    elif status == REJECTED:
        why = told.error_message or "the worker handed the task back unrun"
        if told.error_kind == FailureKind.UNKNOWN_TASK_TYPE:
            worker.rejected.add(instance.task_type)  # it gets no more of them, so this cannot go on for ever
            requeue(c, instance, "REJECTED", why)
        else:
            never_started(c, instance, why)
    elif status == TIMEOUT:
        failure(
            c, instance, FailureKind.TIMEOUT, told.error_message or f"ran longer than {span(instance.policy.run_ms)}"
        )
    elif status == CANCELLED:
        failure(c, instance, FailureKind.HANDLER_ERROR, told.error_message or "the handler cancelled itself")
    else:
        failure(c, instance, failure_kind(told.error_kind), told.error_message)


def failure_kind(told: str) -> FailureKind:
    """Returns the kind of a failure as it was told; unknown ones are the handler's."""
    return _KINDS.get(told, FailureKind.HANDLER_ERROR)


def failure(c: Cluster, instance: Instance, kind: FailureKind, message: str) -> None:
    """The attempt failed: another follows after a delay, or the instance ends."""
    instance.error_kind = kind.value
    instance.error_message = message
    due = next_retry(instance.policy.retry, kind, instance.retries + 1, c.now, c.random)
    total = instance.policy.total_ms
    if due is not None and total and due >= instance.created_at + total:
        due = None
    if due is None:
        end(c, instance, TIMEOUT if kind == FailureKind.TIMEOUT else FAILED)
        return
    archive(c, instance, TIMEOUT if kind == FailureKind.TIMEOUT else FAILED)
    instance.retries += 1
    instance.requeues = 0
    wait(c, instance, due)


def wait(c: Cluster, instance: Instance, due: int) -> None:
    """Lets an instance wait for its time, or queues it when that has come."""
    c.release(instance)
    instance.token = ""
    if due <= c.now:
        to_queue(c, instance, keep_place=False)
        return
    c.move(instance, PENDING)
    instance.not_before = due
    c.arm_waiting(instance)


def requeue(c: Cluster, instance: Instance, kind: str, message: str) -> None:
    """The attempt is over without being the task's fault: it keeps its place and spends no retry.

    Its wait for a worker is counted afresh, or a queued timeout would punish it for having run.
    """
    instance.error_kind = kind
    instance.error_message = message
    archive(c, instance, INTERRUPTED)
    c.release(instance)
    instance.token = ""
    to_queue(c, instance, keep_place=True)


def to_queue(c: Cluster, instance: Instance, *, keep_place: bool) -> None:
    """Queues an instance, at its old place or at the end."""
    c.move(instance, QUEUED)
    instance.not_before = None
    instance.queued_at = c.now
    if not keep_place:
        # Never the same key again: the queue may still hold a dead entry under it.
        instance.order_key = max(order_key(c.now, instance.priority), instance.order_key + 1)
    c.enqueue(instance)


def never_started(c: Cluster, instance: Instance, why: str) -> None:
    """An assignment was not taken up: requeued without spending a retry, five times at most."""
    instance.requeues += 1
    if instance.requeues >= c.limits.never_started_limit:
        instance.error_kind = FailureKind.NEVER_STARTED.value
        last = f"the last time by worker {instance.worker_id}"
        instance.error_message = f"{instance.requeues} times in a row it was not started, {last}: {why}"
        end(c, instance, FAILED)
        return
    requeue(c, instance, FailureKind.NEVER_STARTED.value, why)


def lost(c: Cluster, instance: Instance, why: str) -> None:
    """The attempt is over because its worker is gone or its lease has ended."""
    if instance.state == CANCELLING:
        confirm_cancel(c, instance, why)
    elif instance.state == ASSIGNED:
        never_started(c, instance, why)
    else:
        failure(c, instance, FailureKind.WORKER_LOST, why)


def archive(c: Cluster, instance: Instance, status: int) -> None:
    """Keeps the attempt that another will follow."""
    row = (
        instance.tenant, instance.id, instance.attempt, instance.token, instance.worker_id, instance.term,
        int(status), instance.assigned_at, instance.started_at, instance.ended_at or c.now, instance.error_kind,
        instance.error_message,
    )  # fmt: skip
    c.batch.changes.attempt_inserts.append(row)


def end(c: Cluster, instance: Instance, state: int) -> None:
    """Ends an instance and tells its run."""
    c.release(instance)
    c.move(instance, state)
    instance.ended_at = c.now
    instance.not_before = None
    c.count_end(instance)
    c.forget(instance)
    if instance.run_id:
        runs.step_ended(c, instance)


def cancel(c: Cluster, instance: Instance, reason: str, kind: str = CANCELLED_KIND, *, kill: bool = False) -> None:
    """Somebody, or a timeout, wants the instance to end. Ends it now when no worker holds it.

    `kill`: without grace; one that is not exclusive ends now, as if its worker had confirmed it.

    `kind` is CANCELLED_KIND, TIMEOUT_KIND (the attempt ends, another may follow), TOTAL_TIMEOUT_KIND, or, for one that
    waits, QUEUED_TIMEOUT_KIND or EXPIRED_KIND.
    """
    if instance.phase == ENDED:
        return
    if kill and instance.phase == IN_FLIGHT and not instance.policy.exclusive:
        _end_unconfirmed(c, instance, reason)
        return
    if instance.state == CANCELLING:
        if kill:
            c.order_stop(instance, stop_reason(instance), kill=True)
        if kind == CANCELLED_KIND and instance.error_kind != CANCELLED_KIND:
            instance.error_kind = kind
            instance.error_message = instance.cancel_reason = reason
            instance.output_json = ""  # of a mark, which this takes the place of
            c.mark(instance)
        return
    if kind == CANCELLED_KIND:
        instance.cancel_reason = reason
    if instance.phase == IN_FLIGHT:
        c.move(instance, CANCELLING)
        instance.error_kind = kind
        instance.error_message = reason
        c.order_stop(instance, stop_reason(instance), kill=kill)
        c.timers.cancel(instance.id)  # from here on the lease bounds it
        return
    if instance.state == QUEUED:
        c.leave_queue(instance)
    instance.error_kind = kind
    instance.error_message = reason
    end(c, instance, CANCELLED if kind == CANCELLED_KIND else TIMEOUT)


def _end_unconfirmed(c: Cluster, instance: Instance, reason: str) -> None:
    """Ends an instance whose worker is told to kill it, if it can be told; what it may still report is stale."""
    c.order_stop(instance, "fenced", kill=True)
    instance.output_json = ""
    instance.cancel_reason = instance.error_message = reason
    instance.error_kind = CANCELLED_KIND
    end(c, instance, CANCELLED)


def stop_reason(instance: Instance) -> str:
    """Returns what the worker of a CANCELLING instance is told."""
    return "timeout" if instance.error_kind in (TIMEOUT_KIND, TOTAL_TIMEOUT_KIND) else "cancelled"


def confirm_cancel(c: Cluster, instance: Instance, message: str) -> None:
    """The attempt of a CANCELLING instance is over."""
    kind = instance.error_kind
    if kind == REQUEUED_KIND:
        requeue(c, instance, kind, instance.error_message)
        return
    if kind in MARKED:
        end_marked(c, instance, MARKED[kind], instance.output_json, instance.error_message)
        return
    if kind == TIMEOUT_KIND:
        failure(c, instance, FailureKind.TIMEOUT, message or instance.error_message)
        return
    if message and not instance.error_message:
        instance.error_message = message
    end(c, instance, TIMEOUT if kind == TOTAL_TIMEOUT_KIND else CANCELLED)


def end_marked(c: Cluster, instance: Instance, state: int, output_json: str, reason: str) -> None:
    """Ends an instance, whatever it is, as a person says it has; its last attempt is kept as what it was.

    One that has ended is first made to be undecided by its run, and one that waits has left its queue.
    """
    if instance.token:  # else its last attempt is in the archive already, or there is none
        if instance.state == CANCELLING:
            instance.error_kind, instance.error_message = CANCELLED_KIND, reason
        archive(c, instance, CANCELLED if instance.phase != ENDED else instance.state)
    c.release(instance)
    instance.token = instance.cancel_reason = ""
    instance.output_json = output_json
    instance.error_kind, instance.error_message = MARKED_KIND, reason
    end(c, instance, state)


def progress(c: Cluster, worker: Worker, told: Progress) -> None:
    """A running attempt tells of itself. Only a checkpoint is committed; the rest is for who looks now."""
    instance = c.instances.get(told.task_id)
    if instance is None or instance.token != told.token or instance.worker_id != worker.id:
        return
    if told.percent is not None:
        instance.percent = told.percent
    if told.message:
        instance.progress_message = told.message
    instance.cancel_unconfirmed = told.cancel_unconfirmed
    if told.checkpoint is None:
        return
    number = instance.attempt << CHECKPOINT_BITS | told.checkpoint_number
    if number > instance.checkpoint_number:
        instance.checkpoint = told.checkpoint
        instance.checkpoint_number = number
        c.checkpoints[instance.id] = (instance.tenant, instance.id, number, told.checkpoint)
    if worker.stream is not None:
        ack = (told.task_id, told.token, told.checkpoint_number)
        c.batch.outgoing(worker.stream, worker.id).checkpoint_acks.append(ack)
