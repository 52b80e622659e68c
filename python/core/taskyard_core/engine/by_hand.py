"""What a person does with one live instance besides stopping it: back to its queue, or another place in it."""

from __future__ import annotations

from taskyard_core.engine import attempts
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import Prioritize, Refused, Requeue
from taskyard_core.ready import PRIORITY_STEP_MS
from taskyard_core.records import CANCELLING, DEFERRED, ENDED, PENDING, QUEUED, Instance, TaskState

WHY_REQUEUED = "a person gave it back to its queue"


def requeue(c: Cluster, event: Requeue) -> None:
    """Gives an instance back to its queue; no retry is spent."""
    instance = c.find(event.task_id) or event.row
    refusal = _ended(instance, event.task_id) or (_not_requeued(instance) if instance is not None else None)
    if refusal is not None or instance is None:
        c.batch.answers.append((event.reply, refusal))
        return
    if instance.state == PENDING:
        attempts.to_queue(c, instance, keep_place=False)
    elif instance.state == DEFERRED:
        attempts.requeue(c, instance, attempts.REQUEUED_KIND, WHY_REQUEUED)
    elif instance.policy.exclusive:
        attempts.cancel(c, instance, WHY_REQUEUED, attempts.REQUEUED_KIND)
    else:
        c.order_stop(instance, "fenced")
        attempts.requeue(c, instance, attempts.REQUEUED_KIND, WHY_REQUEUED)
    c.batch.answers.append((event.reply, TaskState(instance.state)))


def _ended(instance: Instance | None, task_id: str) -> Refused | None:
    if instance is None:
        return Refused("NOT_FOUND", f"there is no task {task_id!r}")
    if instance.phase == ENDED:
        state = TaskState(instance.state).name
        return Refused("ALREADY_ENDED", f"the task has ended as {state}: a retry runs it again")
    return None


def _not_requeued(instance: Instance) -> Refused | None:
    if instance.state == QUEUED:
        return Refused("ALREADY_QUEUED", "the task is in its queue already; its priority decides how soon it goes")
    if instance.state == CANCELLING:
        return Refused("CANCELLING", "the task is being stopped: wait until that is confirmed, then retry it")
    if instance.state == PENDING and instance.not_before is None:
        return Refused("RUN_NOT_RUNNING", "the task is a step that waits for others: it is queued when they have ended")
    return None


def prioritize(c: Cluster, event: Prioritize) -> None:
    """Gives an instance another priority, and so another place in its queue."""
    instance = c.find(event.task_id) or event.row
    refusal = _ended(instance, event.task_id)
    if refusal is not None or instance is None:
        c.batch.answers.append((event.reply, refusal))
        return
    if instance.priority != event.priority:
        _move_in_queue(c, instance, event.priority)
    c.batch.answers.append((event.reply, TaskState(instance.state)))


def _move_in_queue(c: Cluster, instance: Instance, priority: int) -> None:
    waits = instance.state == QUEUED
    if waits:
        c.leave_queue(instance)
    # And never the same key again: the queue may still hold a dead entry under it.
    instance.order_key += PRIORITY_STEP_MS * (priority - instance.priority) + 1
    instance.priority = priority
    c.rewrite(instance)
    if waits:
        c.instances[instance.id] = instance
        c.enqueue(instance)
