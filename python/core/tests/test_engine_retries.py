"""What is tried again, by the policy and by hand, and what is not."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.records import TaskState

S = TaskState


def test_retries_with_backoff_until_none_is_left() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(4, 1_000))
    waits = []
    for _ in range(3):
        worker.finish(id, S.FAILED, error_message="boom")
        lab.settle()
        waits.append(lab.get(id).not_before - lab.now)
        lab.wait(waits[-1])
        worker.frame()
        lab.settle()
    assert waits == [1_000, 2_000, 4_000]
    worker.finish(id, S.FAILED, error_message="the last")
    lab.settle()
    assert (lab.state(id), lab.get(id).retries, lab.get(id).attempt) == (S.FAILED, 3, 4)
    assert lab.get(id).error_message == "the last"
    assert [lab.tables.attempts[id, n]["status"] for n in (1, 2, 3)] == [S.FAILED] * 3


@pytest.mark.parametrize(
    "kind", ["INVALID_INPUT", "PERMISSION_DENIED", "NON_RETRYABLE", "OUTPUT_TOO_LARGE", "RESULT_NOT_STORABLE"]
)
def test_kinds_that_are_never_retried(kind: str) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id, S.FAILED, error_kind=kind)
    lab.settle()
    assert (lab.state(id), lab.get(id).error_kind, lab.get(id).retries) == (S.FAILED, kind, 0)


@pytest.mark.parametrize("kind", ["", "HANDLER_ERROR", "SOMETHING_NEW"])
def test_kinds_that_are_retried(kind: str) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id, S.FAILED, error_kind=kind)
    lab.settle()
    assert (lab.state(id), lab.get(id).error_kind) == (S.PENDING, "HANDLER_ERROR")


def test_no_delay_queues_at_once() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(retry=retrying(2, 0))
    worker.finish(id, S.FAILED)
    lab.settle()
    assert (lab.state(id), lab.get(id).attempt) == (S.ASSIGNED, 2)


@pytest.mark.parametrize("status", [S.CANCELLED, 11])
def test_what_a_worker_ends_by_itself(status: int) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    worker.start(id)
    worker.finish(id, status)
    lab.settle()
    spent = int(status == S.CANCELLED)
    assert lab.get(id).retries == spent
    assert lab.state(id) == (S.PENDING if spent else S.ASSIGNED)


# By hand.


@pytest.mark.parametrize("how", ["failed", "cancelled", "timeout", "cancelled in a pause"])
def test_what_ended_badly_may_be_retried_by_hand(how: str) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(2 if "pause" in how else 1))
    lab.wait(100)
    ended = lab.now
    if how == "cancelled":
        lab.cancel(id)
    worker.finish(id, {"failed": S.FAILED, "timeout": S.TIMEOUT}.get(how, S.FAILED))
    lab.settle()
    if "pause" in how:
        lab.cancel(id)
    lab.wait(1_000)
    assert lab.retry(id) == S.QUEUED
    assert (lab.state(id), lab.get(id).attempt, lab.get(id).retries) == (S.ASSIGNED, 2, 0)
    assert lab.tables.attempts[id, 1]["ended_at"] == ended
    assert (lab.get(id).ended_at, lab.get(id).cancel_reason) == (None, "")
    worker.finish(id)
    lab.settle()
    assert lab.state(id) == S.SUCCESS


def test_what_may_not_be_retried_by_hand() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    done, live, late = lab.add(), lab.add(), lab.add("late", total_ms=500)
    worker.finish(done)
    lab.wait(500)
    assert lab.retry(done).reason == "ALREADY_SUCCEEDED"
    assert lab.retry(live).reason == "NOT_ENDED"
    assert lab.retry("nothing").reason == "NOT_FOUND"
    if lab.state(late) == S.CANCELLING:
        worker.finish(late, S.CANCELLED)
        lab.settle()
    refused = lab.retry(late)
    assert refused.reason == "TOTAL_TIMEOUT_PASSED"
    assert "submit it anew" in refused.message
