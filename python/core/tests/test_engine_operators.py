"""What an operator does with a worker: drain it, forget it."""

from __future__ import annotations

from typing import Any

import pytest
from enginekit import TENANT, Lab

from taskyard_core.engine.events import DrainWorker, ForgetWorker, Refused
from taskyard_core.records import TaskState
from taskyard_core.transitions import WorkerState

S = TaskState


def drain(lab: Lab, worker_id: str, tenant: str = TENANT) -> Any:
    return lab.ask(DrainWorker(object(), worker_id, tenant))


def forget(lab: Lab, worker_id: str, tenant: str = TENANT) -> Any:
    return lab.ask(ForgetWorker(object(), worker_id, tenant))


def refused(answer: Any) -> str:
    assert isinstance(answer, Refused), answer
    return answer.reason


def test_a_drained_worker_is_told_and_gets_nothing_more() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    held = lab.add()
    assert drain(lab, "w1") == 1
    [going] = [frame for batch in lab.batches for frame in batch.frames.values() if frame.drain]
    assert going.worker_id == "w1"
    waiting = lab.add()
    assert (lab.state(held), lab.state(waiting)) == (S.ASSIGNED, S.QUEUED)
    worker.start(held)
    worker.finish(held)
    lab.settle()
    assert (lab.state(held), lab.state(waiting)) == (S.SUCCESS, S.QUEUED)
    assert drain(lab, "w1") == 0, "once more is harmless"
    worker.leave()
    lab.worker("w1")
    assert lab.state(waiting) == S.ASSIGNED, "started again it takes tasks again"


def test_a_worker_that_cannot_be_told_is_not_drained() -> None:
    lab = Lab()
    lab.worker().drop_stream()
    assert refused(drain(lab, "w1")) == "NOT_CONNECTED"
    assert refused(drain(lab, "nobody")) == "NOT_FOUND"
    assert refused(drain(lab, "w1", "other")) == "NOT_FOUND"


def test_what_a_forgotten_worker_held_is_over_at_once() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    started, sent = lab.add(), lab.add()
    worker.start(started)
    assert refused(forget(lab, "w1")) == "CONNECTED"
    worker.drop_stream()
    assert forget(lab, "w1") == 2
    assert (lab.state(started), lab.get(started).error_kind) == (S.PENDING, "WORKER_LOST")
    assert (lab.state(sent), lab.get(sent).retries) == (S.QUEUED, 0)
    assert "w1" not in lab.engine.cluster.fleet.workers
    assert "w1" not in lab.tables.workers
    assert refused(forget(lab, "w1")) == "NOT_FOUND"


def test_a_worker_that_may_still_run_an_exclusive_task_is_not_forgotten() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(exclusive=True)
    worker.start(id)
    worker.drop_stream()
    assert refused(forget(lab, "w1")) == "EXCLUSIVE_HELD"
    lab.wait(60_000)
    assert forget(lab, "w1") == 0


@pytest.mark.parametrize("known", [WorkerState.EXPECTED, WorkerState.UNHEALTHY])
def test_a_worker_of_an_earlier_term_can_be_forgotten(known: WorkerState) -> None:
    lab = Lab()
    lab.worker()
    lab.recover()
    if known == WorkerState.UNHEALTHY:
        lab.wait(30_000)
    assert lab.engine.cluster.fleet.workers["w1"].state == known
    assert forget(lab, "w1") == 0
