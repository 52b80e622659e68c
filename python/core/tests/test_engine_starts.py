"""The start of an attempt: what is not acknowledged in time is fenced, and an exclusive task waits for its lease."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from enginekit import FakeWorker, Lab, acks, retrying

from taskyard_core.engine import Standing
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


# --- a worker that does not take up what it is sent ------------------------------------------------


def test_a_worker_that_did_not_start_a_task_in_time_is_sent_nothing_until_it_is_heard() -> None:
    lab = Lab()
    worker = lab.worker("stuck", slots=10)
    late = lab.add()
    lab.wait(5_000)
    waits = lab.add()
    assert (lab.state(late), lab.state(waits)) == (S.QUEUED, S.QUEUED)
    assert lab.why(waits) == ["WORKERS_UNHEALTHY"]
    assert worker.received == 1
    worker.beat()
    lab.settle()
    assert (lab.state(late), lab.state(waits)) == (S.ASSIGNED, S.ASSIGNED)


def test_every_word_of_a_worker_lets_it_have_tasks_again() -> None:
    words: list[Callable[[FakeWorker], object]] = [
        lambda worker: worker.frame(),
        lambda worker: worker.beat(),
        lambda worker: worker.hello(),
        lambda worker: worker.connect(),
    ]
    for word in words:
        lab = Lab()
        worker = lab.worker("stuck", slots=10)
        lab.add()
        lab.wait(5_000)
        waits = lab.add()
        assert lab.state(waits) == S.QUEUED
        word(worker)
        lab.settle()
        assert lab.state(waits) == S.ASSIGNED


@pytest.mark.parametrize("slots", [1, 3, 100])
def test_no_task_fails_because_a_worker_is_stuck_while_another_is_idle(slots: int) -> None:
    """The stuck worker is the less loaded one as soon as its attempts are fenced: it must not get them again."""
    lab = Lab()
    stuck, idle = lab.worker("stuck", slots=slots), lab.worker("idle", slots=2)
    ids = [lab.add() for _ in range(12)]
    for _ in range(40):
        for id in list(idle.held):
            idle.start(id)
            idle.finish(id)
        lab.settle()
        idle.beat()
        idle.frame()
        lab.wait(1_000)
    assert [lab.state(id) for id in ids] == [S.SUCCESS] * 12
    assert max(lab.get(id).attempt for id in ids) <= 2, "each was sent to the stuck worker at most once"
    assert stuck.received <= slots


def test_a_thread_may_acknowledge_the_start_of_what_holds_the_loop() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    blocker, behind = lab.add(), lab.add()
    held = lab.engine.cluster.instances
    lease = held[blocker].lease_until
    lab.wait(1_000)
    assert worker.speak_for(blocker) == Standing.GOOD
    lab.settle()
    assert (lab.state(blocker), lab.state(behind)) == (S.RUNNING, S.ASSIGNED)
    assert held[blocker].lease_until == lease, "it lists no attempts, so it renews no lease"
    later = lab.add()
    assert lab.why(later) == ["WORKERS_UNHEALTHY"], "nothing is sent behind what holds the loop"
    worker.speak_for(blocker)
    assert lab.state(later) == S.QUEUED, "a thread's word does not prove that the loop goes on"
    lab.wait(6_000)
    worker.finish(blocker)
    lab.settle()
    assert (lab.state(blocker), lab.get(blocker).attempt) == (S.SUCCESS, 1)
    assert (lab.state(behind), lab.state(later)) == (S.ASSIGNED, S.ASSIGNED)


def test_what_waits_behind_a_held_loop_is_not_failed_by_it_however_often_that_happens() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    innocent = [lab.add(), lab.add()]
    for _ in range(8):
        blocker = next((id for id in worker.held if id not in innocent), None) or lab.add(priority=1)
        worker.speak_for(blocker)
        lab.wait(6_000)
        worker.finish(blocker)
        lab.settle()
    assert [lab.state(id) for id in innocent] == [S.ASSIGNED] * 2
    assert [lab.get(id).requeues for id in innocent] == [0, 0]
    kept = lab.tables.attempts[innocent[0], 1]
    assert (kept["status"], kept["error_kind"]) == (11, "NEVER_STARTED")
    assert "a handler of another task holds its event loop" in kept["error_message"]


def test_a_held_worker_cannot_start_what_is_not_its_own() -> None:
    lab = Lab()
    one, other = lab.worker("w1", slots=1), lab.worker("w2", slots=1)
    ids = [lab.add(), lab.add()]
    other.held, one.held = one.held, other.held
    one.speak_for(*one.held)
    lab.settle()
    assert [lab.state(id) for id in ids] == [S.ASSIGNED] * 2


def test_a_handler_that_kills_its_worker_before_its_start_is_told_spends_no_retry_and_is_tried_five_times() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(retry=retrying(attempts=1))
    for tried in range(1, 6):
        assert lab.get(id).attempt == tried
        worker.held.clear()
        worker.connect()
        lab.settle()
    assert (lab.state(id), lab.get(id).error_kind, lab.get(id).retries) == (S.FAILED, "NEVER_STARTED", 0)
    assert lab.get(id).error_message.endswith("worker w1 came back without it")
