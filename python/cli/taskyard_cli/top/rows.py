"""A snapshot as rows of texts: what is in which column, in which order, and what is marked. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len

from taskyard.v1.fleet_pb2 import Queue, Worker, WorkerState
from taskyard.v1.pauses_pb2 import PauseScope
from taskyard.v1.tasks_pb2 import TaskInstance, TaskStatus
from taskyard_cli.resources import asked_for
from taskyard_cli.show import harmless, status_word, worker_word

BAD, WARNING = "!", "~"
"""The marks in front of a row: something has to be done; something may have to be."""

_STUCK = ("NO_WORKER_FOR_TYPE", "NO_WORKER_MATCHES", "RESOURCES_NEVER_FIT", "WORKERS_UNHEALTHY")
"""Reasons that do not pass by themselves, the worst first: their queues come first."""

QUEUES = ("", "QUEUE", "WAITING", "AGE", "WHY THE FIRST ONE WAITS")
WORKERS = ("", "WORKER", "STATE", "SLOTS", "LOAD", "MIB", "SEEN")
RUNNING = ("", "TASK", "TYPE", "STEP/RUN", "WORKER", "FOR", "%")
FAILED = ("", "TASK", "TYPE", "AGO", "KIND", "MESSAGE")


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        key: Tells it from others, over snapshots.
        cells: Its texts, in the order of the columns; the first is its mark.
        task_id: The task that keys act on; empty for none.
        paused: Of a queue: it is paused by itself, so that it can be resumed by itself.
    """

    key: str
    cells: tuple[str, ...]
    task_id: str = ""
    paused: bool = False


def queue_rows(queues: Iterable[Queue], now: datetime) -> list[Row]:
    """Returns queues, those that will not move by themselves first, then by the age of the first task."""
    return [_queue_row(queue, now) for queue in sorted(queues, key=_urgency)]


def _urgency(queue: Queue) -> tuple[int, int, str]:
    code = _code(queue)
    rank = _STUCK.index(code) if code in _STUCK else len(_STUCK)
    return rank, queue.head_time.ToNanoseconds() or 1 << 62, queue.task_type


def _code(queue: Queue) -> str:
    return queue.reasons[0].code if queue.reasons else ""


def _queue_row(queue: Queue, now: datetime) -> Row:
    asks = [
        queue.selector, asked_for(queue.resources), f"on {queue.worker_id}" if queue.worker_id else "",
        "deadlines" if queue.deadlines else "",
    ]  # fmt: skip
    name = " ".join(filter(None, [queue.task_type or queue.name, *asks]))
    reason = queue.reasons[0] if queue.reasons else None
    why = f"{reason.code}: {reason.message}" if reason else _without_reason(queue)
    mark = BAD if _code(queue) in _STUCK else WARNING if queue.HasField("pause") or queue.held else ""
    cells = (mark, name, f"{queue.waiting:,}", age(queue.head_time, now), why)
    paused = queue.HasField("pause") and queue.pause.scope == PauseScope.PAUSE_SCOPE_QUEUE
    return replace(_row(queue.name or name, cells, queue.head_task_id), paused=paused)


def _without_reason(queue: Queue) -> str:
    if queue.waiting or not queue.HasField("pause"):
        return "its first ones are in the database alone"
    said = f" ({queue.pause.reason})" if queue.pause.reason else ""
    return f"nothing waits; it is paused{said}, and P lets it go on"


def worker_rows(workers: Iterable[Worker], now: datetime) -> list[Row]:
    """Returns workers, those that do not take tasks first, then the fullest."""
    well = WorkerState.WORKER_STATE_HEALTHY
    order = sorted(workers, key=lambda each: (each.state == well, -each.active_tasks, each.worker_id))
    return [_worker_row(worker, now) for worker in order]


def _worker_row(worker: Worker, now: datetime) -> Row:
    word = worker_word(worker.state)
    mark = {"HEALTHY": "", "UNHEALTHY": BAD}.get(word, WARNING)
    slots = f"{worker.active_tasks}/{worker.max_concurrency}"
    seen = age(worker.last_seen_time, now)
    cells = (mark, worker.worker_id, word, slots, f"{worker.cpu_usage:.2f}", f"{worker.memory_mb:,}", seen or "never")
    return _row(worker.worker_id, cells)


def running_rows(tasks: Iterable[TaskInstance], now: datetime) -> list[Row]:
    """Returns what workers hold, the one that runs longest first, and below what waits for its result from outside."""
    order = sorted(tasks, key=lambda task: (_outside(task), task.start_time.ToNanoseconds() or 1 << 62, task.task_id))
    return [_running_row(task, now) for task in order]


def _outside(task: TaskInstance) -> bool:
    return task.status == TaskStatus.TASK_STATUS_DEFERRED


def _running_row(task: TaskInstance, now: datetime) -> Row:
    running = task.status == TaskStatus.TASK_STATUS_RUNNING
    percent = f"{task.percent:.0f}" if task.HasField("percent") else ""
    spent = age(task.start_time, now) if running else status_word(task.status)
    mark = "" if running else WARNING
    cells = (mark, short_id(task.task_id), task.task_type, _place(task), task.worker_id, spent, percent)
    return _row(task.task_id, cells, task.task_id)


def failed_rows(tasks: Iterable[TaskInstance], now: datetime) -> list[Row]:
    """Returns failures in the order in which they are given, which is the latest first."""
    return [
        _row(
            task.task_id,
            (BAD, short_id(task.task_id), task.task_type, age(task.end_time, now), task.error.kind, task.error.message),
            task.task_id,
        )
        for task in tasks
    ]


def _row(key: str, cells: Sequence[str], task_id: str = "") -> Row:
    return Row(key, tuple(harmless(cell) for cell in cells), task_id)


def _place(task: TaskInstance) -> str:
    return f"{task.step_id}/{short_id(task.run_id)}" if task.run_id else ""


def short_id(some_id: str) -> str:
    """Returns the end of an id, where ids that were made together differ; the task's page has it whole."""
    return f"…{some_id[-8:]}" if len(some_id) > 9 else some_id


def age(time: Timestamp, now: datetime) -> str:
    """Returns how long ago something was: `5s`, `3m12s`, `2h04m`, `3d04h`; nothing for none.

    What another clock puts into the future was just now.
    """
    if not time.ByteSize():
        return ""
    seconds = max(0, int((now - time.ToDatetime(UTC)).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if minutes == 0:
        return f"{seconds}s"
    if hours == 0:
        return f"{minutes}m{seconds % 60:02d}s"
    return f"{hours}h{minutes % 60:02d}m" if days == 0 else f"{days}d{hours % 24:02d}h"


def widths(columns: Sequence[str], rows: Sequence[Row], room: int, least: int = 6) -> list[int]:
    """Returns how wide each column is, so that together they fit, in cells of a terminal.

    Args:
        columns: Heads.
        rows: What stands below them.
        room: Cells that there are for all columns.
        least: No column that needs more is made narrower than this.
    """
    needed = [max([len(head), 1, *(cell_len(row.cells[at]) for row in rows)]) for at, head in enumerate(columns)]
    while sum(needed) > room and max(needed) > least:
        needed[needed.index(max(needed))] -= 1
    return needed
