"""What an operator does with one worker: has it drained, or forgotten at once."""

from __future__ import annotations

from taskyard_core.engine import sessions
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import DrainWorker, ForgetWorker, Refused
from taskyard_core.fleet import Worker
from taskyard_core.transitions import WorkerState


def drain_worker(c: Cluster, event: DrainWorker) -> None:
    """Has a worker told to end; it gets nothing more from now on."""
    worker = _find(c, event)
    answer: int | Refused
    if isinstance(worker, Refused):
        answer = worker
    elif worker.stream is None:
        answer = Refused(
            "NOT_CONNECTED", f"worker {worker.id} has no stream on which it could be told; it gets no tasks"
        )
    else:
        worker.draining = True
        c.set_worker_state(worker, WorkerState.DRAINING)
        c.batch.outgoing(worker.stream, worker.id).drain = True
        answer = len(worker.attempts)
    c.batch.answers.append((event.reply, answer))


def forget_worker(c: Cluster, event: ForgetWorker) -> None:
    """Forgets a worker that is gone; what it held is over."""
    worker = _find(c, event)
    answer: int | Refused
    if isinstance(worker, Refused):
        answer = worker
    elif worker.stream is not None:
        answer = Refused("CONNECTED", f"worker {worker.id} lives: drain it, or stop it")
    elif held := _exclusive(c, worker):
        answer = Refused(
            "EXCLUSIVE_HELD", f"worker {worker.id} may still run the exclusive task {held}: its lease has not ended"
        )
    else:
        answer = len(worker.attempts)
        sessions.remove(c, worker, "was forgotten by hand")
    c.batch.answers.append((event.reply, answer))


def _find(c: Cluster, event: DrainWorker | ForgetWorker) -> Worker | Refused:
    worker = c.fleet.workers.get(event.worker_id)
    if worker is None or worker.tenant != event.tenant:
        return Refused("NOT_FOUND", f"there is no worker {event.worker_id!r}")
    return worker


def _exclusive(c: Cluster, worker: Worker) -> str:
    """Returns the id of an exclusive task that the worker may still run; empty for none."""
    return next((i.id for i in worker.attempts.values() if i.policy.exclusive and i.lease_until > c.now), "")
