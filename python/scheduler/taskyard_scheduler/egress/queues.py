"""Ready queues as operators see them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskyard.v1 import fleet_pb2 as pb
from taskyard_core.pauses import Pause, Pauses
from taskyard_core.ready import ReadyQueue
from taskyard_scheduler.egress.pauses import pause_message
from taskyard_scheduler.egress.values import put_resources, put_time

HELD_BY_LIMIT: Final = 10
HELD_LOOKED_AT: Final = 1_000
"""Of more tasks that are held back, those of the first are looked at: a screen asks every second."""


def queue_message(queue: ReadyQueue, pauses: Pauses) -> pb.Queue:
    """Returns a queue as it is now, and what holds it back."""
    policy = queue.policy
    message = pb.Queue(name=queue.key, task_type=queue.task_type, selector=policy.selector, worker_id=policy.worker)
    message.waiting, message.deadlines, message.held = len(queue), queue.deadlines, queue.held_count
    pause = pauses.of_queue(queue)
    if pause is not None:
        message.pause.CopyFrom(pause_message(pause))
    message.held_by.extend(pause_message(each) for each in pauses_of_held(queue, pauses))
    put_resources(message.resources, policy)
    head = queue.peek()
    if head is not None:
        message.head_task_id = head.id
        if head.queued_at is not None:
            put_time(message.head_time, head.queued_at)
    return message


def pauses_of_held(queue: ReadyQueue, pauses: Pauses) -> list[Pause]:
    """Returns what holds back the tasks that a queue has put aside, by scope and name, as far as it is shown."""
    runs = {(held.workflow, held.run_id) for held in islice(queue.held.values(), HELD_LOOKED_AT)}
    found = {each for workflow, run in runs for each in pauses.all_of_run(queue.tenant, workflow, run)}
    return sorted(found, key=lambda each: each.key)[:HELD_BY_LIMIT]


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
