"""Workers as operators see them."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import fleet_pb2 as pb
from taskyard.v1 import policies_pb2
from taskyard_core import transitions
from taskyard_core.fleet import Worker
from taskyard_scheduler.egress.values import put_time

STATES: Final = {
    transitions.WorkerState.HEALTHY: pb.WORKER_STATE_HEALTHY,
    transitions.WorkerState.UNHEALTHY: pb.WORKER_STATE_UNHEALTHY,
    transitions.WorkerState.DRAINING: pb.WORKER_STATE_DRAINING,
    transitions.WorkerState.EXPECTED: pb.WORKER_STATE_EXPECTED,
}


def worker_message(worker: Worker) -> pb.Worker:
    """Returns a worker as the scheduler sees it now."""
    has = worker.registration
    message = pb.Worker(
        worker_id=worker.id,
        host=has.host,
        port=has.port,
        capabilities=has.capabilities,
        max_concurrency=has.max_concurrency,
        labels=dict(has.labels),
        state=STATES[worker.state],
        active_tasks=len(worker.attempts),
        session_epoch=worker.epoch,
        cpu_usage=worker.cpu_usage,
        memory_mb=worker.memory_mb,
        build_id=has.build_id,
        protocol=has.protocol,
    )
    if has.cpu_millis or has.memory_mb or has.gpus:
        offered = policies_pb2.Resources(cpu_millis=has.cpu_millis, memory_mb=has.memory_mb, gpus=has.gpus)
        message.resources.CopyFrom(offered)
    if worker.cpu or worker.memory or worker.gpus:
        in_use = policies_pb2.Resources(cpu_millis=worker.cpu, memory_mb=worker.memory, gpus=worker.gpus)
        message.resources_in_use.CopyFrom(in_use)
    if worker.heard:
        put_time(message.last_seen_time, worker.last_seen)
    return message


def worker_values(worker: Worker) -> dict[str, str | int | None]:
    """Returns what a filter of workers looks at, by the columns of `filters.WORKER_FIELDS`."""
    has = worker.registration
    return {
        "worker_id": worker.id, "host": has.host, "port": has.port, "max_concurrency": has.max_concurrency,
        "state": STATES[worker.state], "active_tasks": len(worker.attempts), "session_epoch": worker.epoch,
        "last_seen_at": worker.last_seen if worker.heard else None, "memory_mb": worker.memory_mb,
        "build_id": has.build_id, "protocol": has.protocol,
    }  # fmt: skip
