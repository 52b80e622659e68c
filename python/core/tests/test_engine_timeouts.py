"""The timeouts queued, start, run and total, each in every state that it may end, and several in one leap."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.events import Hello, Result, WorkerFrame
from taskyard_core.records import TaskState

S = TaskState


def test_the_backup_of_the_run_timeout_stops_what_its_worker_does_not() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(run_ms=1_000, retry=retrying(1))
    worker.start(id)
    for _ in range(3):
        lab.wait(6_900)
        worker.beat()
    assert lab.state(id) == S.RUNNING
    lab.wait(300)
    assert lab.state(id) == S.CANCELLING
    assert worker.cancels[-1].reason == "timeout"
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert lab.state(id) == S.TIMEOUT
    assert lab.get(id).error_kind == "TIMEOUT"
    assert lab.get(id).cancel_reason == "", "nobody cancelled it"


def test_a_run_timeout_is_retried() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(2, 1_000))
    worker.start(id)
    worker.finish(id, S.TIMEOUT)
    lab.settle()
    assert lab.state(id) == S.PENDING
    assert lab.get(id).retries == 1
    lab.wait(1_000)
    worker.finish(id, S.TIMEOUT, error_message="again")
    lab.settle()
    assert (lab.state(id), lab.get(id).error_message) == (S.TIMEOUT, "again")


def test_the_queued_timeout_ends_what_waits_too_long() -> None:
    lab = Lab()
    id = lab.add(queued_ms=10_000)
    lab.wait(9_999)
    assert lab.state(id) == S.QUEUED
    lab.wait(1)
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "QUEUED_TIMEOUT")


def test_the_queued_timeout_counts_each_wait_for_itself() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(queued_ms=10_000)
    worker.start(id)
    for _ in range(5):
        lab.wait(20_000)
        worker.beat()
    worker.drop_stream()
    worker.frame()
    worker.register()
    worker.held.clear()
    lab.settle()
    worker.stream = object()
    lab.handle(Hello("w1", worker.epoch, worker.stream, [(id, lab.get(id).token)]))
    lab.handle(WorkerFrame("w1", worker.epoch, results=[Result(id, lab.get(id).token, 11)]))
    lab.settle()
    assert lab.state(id) == S.QUEUED
    lab.wait(9_999)
    assert lab.state(id) == S.QUEUED
    lab.wait(1)
    assert lab.state(id) == S.TIMEOUT


@pytest.mark.parametrize("state", ["queued", "assigned", "running", "pending"])
def test_the_total_timeout_ends_it_wherever_it_is(state: str) -> None:
    lab = Lab()
    worker = lab.worker() if state != "queued" else None
    id = lab.add(total_ms=4_000, retry=retrying(3, 1_500))
    if worker is not None and state == "running":
        worker.start(id)
    if worker is not None and state == "pending":
        worker.finish(id, S.FAILED)
        lab.wait(1_500)
        assert lab.get(id).attempt == 2
        worker.finish(id, S.FAILED)
        lab.settle()
        assert lab.state(id) == S.FAILED, "another attempt would be due after the total timeout"
        return
    lab.wait(4_000)
    if worker is not None:
        assert lab.state(id) == S.CANCELLING
        worker.finish(id, S.CANCELLED)
        lab.settle()
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "TOTAL_TIMEOUT")


def test_a_late_tick_lets_the_total_timeout_win_over_a_retry() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(total_ms=4_000, retry=retrying(3, 1_500))
    worker.finish(id, S.FAILED)
    lab.settle()
    lab.jump(20_000)
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "TOTAL_TIMEOUT")


def test_deadlines_of_states_that_were_left_in_the_same_leap_do_nothing() -> None:
    """A scheduler that was stopped for minutes sees leases and starts end in one tick."""
    lab = Lab()
    worker = lab.worker()
    started, assigned = lab.add(run_ms=1, retry=retrying(3, 30_000)), lab.add(start_ms=70_000)
    worker.start(started)
    lab.settle()
    lab.jump(100_000)
    assert lab.state(assigned) in (S.QUEUED, S.ASSIGNED)
    assert lab.get(assigned).requeues == 1
    assert lab.state(started) in (S.PENDING, S.CANCELLING)


def test_a_lease_that_ends_before_the_start_is_due_does_not_time_the_task_out() -> None:
    lab = Lab()
    lab.worker()
    id = lab.add(start_ms=59_999)
    lab.jump(61_000)
    assert lab.state(id) == S.QUEUED
    assert lab.get(id).requeues == 1
    assert lab.get(id).error_kind == "NEVER_STARTED"
