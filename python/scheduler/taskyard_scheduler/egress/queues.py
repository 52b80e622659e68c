"""Ready queues as operators see them."""

from __future__ import annotations

from taskyard.v1 import fleet_pb2 as pb
from taskyard_core.pauses import Pauses
from taskyard_core.ready import ReadyQueue
from taskyard_scheduler.egress.pauses import pause_message
from taskyard_scheduler.egress.values import put_resources, put_time


def queue_message(queue: ReadyQueue, pauses: Pauses) -> pb.Queue:
    """Returns a queue as it is now, and what holds it back."""
    policy = queue.policy
    message = pb.Queue(name=queue.key, task_type=queue.task_type, selector=policy.selector, worker_id=policy.worker)
    message.waiting, message.deadlines, message.held = len(queue), queue.deadlines, queue.held_count
    pause = pauses.of_queue(queue)
    if pause is not None:
        message.pause.CopyFrom(pause_message(pause))
    put_resources(message.resources, policy)
    head = queue.peek()
    if head is not None:
        message.head_task_id = head.id
        if head.queued_at is not None:
            put_time(message.head_time, head.queued_at)
    return message


def queue_values(queue: ReadyQueue) -> dict[str, str | int | None]:
    """Returns what a filter of queues looks at, by the columns of `filters.QUEUE_FIELDS`."""
    return {
        "name": queue.key, "task_type": queue.task_type, "selector": queue.policy.selector, "waiting": len(queue),
        "head_at": _head_ms(queue),
    }  # fmt: skip


def _head_ms(queue: ReadyQueue) -> int | None:
    """Returns when the first one in memory was queued; None when all wait in SQL."""
    head = queue.peek()
    return None if head is None else head.queued_at
