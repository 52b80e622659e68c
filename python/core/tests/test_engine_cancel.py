"""Cancel in every state, and what a worker's word still changes after it."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.events import Progress, Refused
from taskyard_core.records import TaskState

S = TaskState
MINUTE = 60_000


def test_cancel_of_a_queued_task_ends_it_at_once() -> None:
    lab = Lab()
    id = lab.add()
    assert lab.cancel(id, "no longer wanted") == S.CANCELLED
    assert (lab.get(id).cancel_reason, lab.get(id).error_kind) == ("no longer wanted", "CANCELLED")
    assert lab.engine.cluster.waiting_count() == 0


def test_cancel_of_a_pending_task_ends_it_at_once() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id, S.FAILED)
    lab.settle()
    assert lab.cancel(id) == S.CANCELLED
    lab.wait(MINUTE)
    assert lab.state(id) == S.CANCELLED


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("status", "ends"), [(S.CANCELLED, S.CANCELLED), (S.FAILED, S.CANCELLED), (11, S.CANCELLED),
                                              (S.TIMEOUT, S.CANCELLED), (S.SUCCESS, S.SUCCESS)])  # fmt: skip
def test_cancel_of_what_a_worker_holds_waits_for_its_word(running: bool, status: int, ends: int) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    if running:
        worker.start(id)
    assert lab.cancel(id) == S.CANCELLING
    assert [(o.task_id, o.reason) for o in worker.cancels] == [(id, "cancelled")]
    other = lab.add()
    assert lab.state(other) == S.QUEUED, "the slot is the attempt's until it has ended"
    worker.finish(id, status)
    lab.settle()
    assert lab.state(id) == ends
    assert lab.state(other) == S.ASSIGNED
    assert lab.get(id).retries == 0


def test_cancel_twice_is_one_cancel() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    assert lab.cancel(id, "first") == S.CANCELLING
    assert lab.cancel(id, "second") == S.CANCELLING
    assert len(worker.cancels) == 1
    assert lab.get(id).cancel_reason == "first"
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert lab.cancel(id) == S.CANCELLED


@pytest.mark.parametrize("status", [S.SUCCESS, S.FAILED])
def test_cancel_of_what_has_ended_otherwise_is_refused(status: int) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(1))
    worker.finish(id, status)
    lab.settle()
    refused = lab.cancel(id)
    assert isinstance(refused, Refused)
    assert refused.reason == "ALREADY_ENDED"


def test_cancel_of_nothing() -> None:
    assert Lab().cancel("018bcfe5-6800-7000-8000-000000000000").reason == "NOT_FOUND"


def test_cancel_outlives_a_dead_stream() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    worker.drop_stream()
    assert lab.cancel(id) == S.CANCELLING
    assert worker.cancels == []
    worker.hello()
    lab.settle()
    assert [order.reason for order in worker.cancels] == ["cancelled"]


def test_cancel_of_what_nobody_can_reach_ends_with_the_lease() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    worker.drop_stream()
    lab.cancel(id)
    lab.wait(59_000)
    assert lab.state(id) == S.CANCELLING
    lab.wait(2_000)
    assert lab.state(id) == S.CANCELLED


def test_a_handler_that_cannot_be_stopped_keeps_its_slot_and_is_named() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    worker.start(id)
    lab.cancel(id)
    assert lab.why(id) == ["CANCEL_PENDING"]
    worker.frame(progress=[Progress(id, worker.held[id], cancel_unconfirmed=True)])
    lab.settle()
    assert lab.why(id) == ["CANCEL_UNCONFIRMED"]
    other = lab.add()
    for _ in range(10):
        lab.wait(30_000)
        worker.beat()
    assert (lab.state(id), lab.state(other)) == (S.CANCELLING, S.QUEUED)
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert (lab.state(id), lab.state(other)) == (S.CANCELLED, S.ASSIGNED)


def test_a_persons_cancel_overrides_a_timeouts_retry() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(run_ms=1_000)
    worker.start(id)
    lab.wait(21_000)
    assert lab.state(id) == S.CANCELLING
    lab.cancel(id, "enough")
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert (lab.state(id), lab.get(id).retries, lab.get(id).cancel_reason) == (S.CANCELLED, 0, "enough")
