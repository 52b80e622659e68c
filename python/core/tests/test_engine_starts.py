"""The start of an attempt: what is not acknowledged in time is fenced, and an exclusive task waits for its lease."""

from __future__ import annotations

from enginekit import Lab, acks

from taskyard_core.engine.effects import STALE_ATTEMPT
from taskyard_core.engine.events import Result
from taskyard_core.records import TaskState

S = TaskState


def test_no_start_within_five_seconds_fences_and_requeues_without_a_retry() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    token = worker.held[id]
    lab.wait(4_999)
    assert lab.state(id) == S.ASSIGNED
    lab.wait(1)
    assert [(o.task_id, o.token, o.reason) for o in worker.cancels] == [(id, token, "fenced")]
    assert (lab.get(id).retries, lab.get(id).requeues) == (0, 1)
    archived = lab.tables.attempts[id, 1]
    assert (archived["status"], archived["error_kind"]) == (11, "NEVER_STARTED")
    assert acks(lab, "w1", Result(id, token, S.SUCCESS)) == [STALE_ATTEMPT]


def test_five_times_and_it_fails() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    for _ in range(5):
        lab.wait(5_000)
        worker.frame()
        lab.settle()
    assert lab.state(id) == S.FAILED
    assert lab.get(id).error_kind == "NEVER_STARTED"
    assert "5 times in a row it was not started, the last time by worker" in lab.get(id).error_message
    assert sorted(n for key, n in lab.tables.attempts if key == id) == [1, 2, 3, 4]


def test_a_start_ends_the_row_of_missed_ones() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(start_ms=1_000)
    for _ in range(4):
        lab.wait(1_000)
        worker.frame()
        lab.settle()
    assert lab.get(id).requeues == 4
    worker.start(id)
    lab.settle()
    assert (lab.state(id), lab.get(id).requeues) == (S.RUNNING, 0)


def test_an_exclusive_task_waits_for_the_lease_of_the_attempt_that_may_live() -> None:
    lab = Lab()
    worker, other = lab.worker("w1", slots=1), lab.worker("w2", slots=1)
    id = lab.add(exclusive=True)
    holder = worker if id in worker.held else other
    for _ in range(5):
        lab.wait(10_000)
        for each in (worker, other):
            each.beat()
            each.frame()
        lab.settle()
        assert lab.get(id).attempt == 1
        assert lab.why(id) == ["LEASE_PENDING"]
    assert holder.cancels[0].reason == "fenced"
    lab.wait(10_000)
    assert lab.get(id).attempt == 2
    assert lab.get(id).requeues == 1


def test_a_fenced_exclusive_attempt_that_confirms_its_end_makes_way_at_once() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    token = worker.held[id]
    lab.wait(5_000)
    worker.frame(started=[(id, token)])
    lab.settle()
    assert lab.state(id) == S.ASSIGNED, "the fence was sent: a start that crosses it changes nothing"
    acks(lab, "w1", Result(id, token, S.CANCELLED))
    worker.frame()
    lab.settle()
    assert (lab.get(id).attempt, lab.get(id).retries, lab.get(id).requeues) == (2, 0, 1)


def test_an_exclusive_attempt_that_its_worker_still_lists_is_alive_and_told_to_stop_again() -> None:
    """The order may be lost in a half-open stream, while heartbeats come through and renew the worker's lease."""
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    token = worker.held[id]
    for _ in range(20):
        lab.wait(10_000)
        worker.held[id] = token
        worker.beat()
        lab.settle()
    lab.worker("w2")
    assert (lab.get(id).attempt, lab.why(id)) == (1, ["LEASE_PENDING"])
    assert len(worker.cancels) == 21
    lab.wait(60_000)
    lab.workers["w2"].beat()
    lab.settle()
    assert lab.get(id).attempt == 2


def test_an_exclusive_attempt_is_over_when_a_newer_session_does_not_hold_it() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    worker.start(id)
    worker.held.clear()
    worker.connect()
    lab.settle()
    assert lab.state(id) == S.PENDING
