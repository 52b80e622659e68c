"""What a scheduler may say to `taskyard top`: a little of everything, at one time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import fleet_pb2, tasks_pb2

NOW = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)
Status = tasks_pb2.TaskStatus


def ago(**span: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(NOW - timedelta(**span))
    return stamp


def queue(task_type: str, code: str, waiting: int = 1, **fields: Any) -> fleet_pb2.Queue:
    reasons = [tasks_pb2.WaitReason(code=code, message=f"because of {code}")] if code else []
    made = fleet_pb2.Queue(task_type=task_type, waiting=waiting, reasons=reasons, head_task_id=f"head-of-{task_type}")
    for name, value in fields.items():
        getattr(made, name).CopyFrom(value) if isinstance(value, Timestamp) else setattr(made, name, value)
    return made


def worker(worker_id: str, state: str = "HEALTHY", active: int = 0, **fields: Any) -> fleet_pb2.Worker:
    return fleet_pb2.Worker(
        worker_id=worker_id, state=fleet_pb2.WorkerState.Value(f"WORKER_STATE_{state}"), active_tasks=active,
        max_concurrency=10, cpu_usage=0.5, memory_mb=120, **fields,
    )  # fmt: skip


def task(task_id: str, status: str = "RUNNING", **fields: Any) -> tasks_pb2.TaskInstance:
    number = Status.Value(f"TASK_STATUS_{status}")
    return tasks_pb2.TaskInstance(task_id=task_id, task_type="shell", status=number, **fields)


def status(term: int = 1, **ended: int) -> fleet_pb2.GetClusterStatusResponse:
    return fleet_pb2.GetClusterStatusResponse(scheduler_id="s", term=term, database="sqlite", tasks_ended=ended)
