"""What a person does by hand with one instance: stop it without grace, give it back to its queue, another priority."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.effects import STALE_ATTEMPT
from taskyard_core.engine.events import Prioritize, When
from taskyard_core.records import RunState, TaskState

S = TaskState


# Terminate.


@pytest.mark.parametrize("started", [False, True])
def test_a_terminated_task_ends_at_once_and_its_worker_is_told_to_kill_it(started: bool) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    if started:
        worker.start(id)
    token = worker.held[id]
    assert lab.cancel(id, kill=True) == S.CANCELLED
    order = worker.cancels[-1]
    assert (order.reason, order.kill) == ("fenced", True)
    assert lab.get(id).error_message == "enough"
    worker.held[id] = token
    worker.finish(id)
    lab.settle()
    assert worker.acks[-1].outcome == STALE_ATTEMPT
    assert lab.state(id) == S.CANCELLED


def test_a_terminated_task_ends_though_its_worker_cannot_be_told() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    worker.drop_stream()
    assert lab.cancel(id) == S.CANCELLING
    assert lab.cancel(id, kill=True) == S.CANCELLED
    worker.hello()
    lab.settle()
    assert worker.cancels[-1].reason == "fenced", "it is told when it comes back"


def test_an_exclusive_task_is_killed_and_its_end_is_awaited() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(exclusive=True)
    worker.start(id)
    assert lab.cancel(id) == S.CANCELLING
    assert not worker.cancels[-1].kill
    assert lab.cancel(id, kill=True) == S.CANCELLING
    assert (worker.cancels[-1].reason, worker.cancels[-1].kill) == ("cancelled", True)
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert lab.state(id) == S.CANCELLED


def test_a_terminated_run_ends_at_once() -> None:
    lab = Lab()
    lab.plan("flow", [("a", (), {}), ("b", ("a",), {})])
    worker = lab.worker()
    id = lab.start_run("flow")
    worker.start(*worker.held)
    worker.drop_stream()
    assert lab.cancel_run(id) == RunState.CANCELLING
    assert lab.cancel_run(id, kill=True) == RunState.CANCELLED
    assert [step.state for step in lab.tables.steps(id)] == [S.CANCELLED]
    assert not lab.engine.cluster.runs


# Requeue.


@pytest.mark.parametrize("started", [False, True])
def test_a_requeued_task_is_taken_from_its_worker_and_spends_no_retry(started: bool) -> None:
    lab = Lab()
    first = lab.worker("w1", slots=1)
    id = lab.add(retry=retrying(1))
    if started:
        first.start(id)
    other = lab.worker("w2")
    order_key = lab.get(id).order_key
    lab.requeue(id)
    assert first.cancels[-1].reason == "fenced"
    assert lab.get(id).retries == 0
    assert lab.get(id).order_key == order_key, "it keeps its place"
    assert id in other.held or id in first.held
    assert lab.get(id).attempt == 2
    assert lab.tables.attempts[id, 1]["error_kind"] == "REQUEUED"


def test_a_task_that_waits_for_its_time_is_due_when_it_is_requeued() -> None:
    lab = Lab()
    worker = lab.worker()
    later = lab.add(when=When(delay_ms=60_000))
    failed = lab.add(retry=retrying(2, 60_000))
    worker.start(failed)
    worker.finish(failed, S.FAILED)
    lab.settle()
    for id in (later, failed):
        assert lab.state(id) == S.PENDING
        lab.requeue(id)
        assert lab.state(id) == S.ASSIGNED
        worker.start(id)
    lab.wait(1_000)
    assert (lab.get(later).attempt, lab.state(later)) == (1, S.RUNNING)


def test_an_exclusive_task_is_requeued_once_its_attempt_is_over() -> None:
    lab = Lab()
    worker = lab.worker("w1", slots=1)
    id = lab.add(exclusive=True, retry=retrying(1))
    worker.start(id)
    other = lab.worker("w2")
    assert lab.requeue(id) == S.CANCELLING
    assert worker.cancels[-1].reason == "cancelled"
    assert id not in other.held
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert lab.state(id) == S.ASSIGNED
    assert (lab.get(id).attempt, lab.get(id).retries) == (2, 0)


def test_a_requeue_that_comes_too_late_or_too_early_is_refused() -> None:
    lab = Lab()
    queued = lab.add()
    assert lab.requeue(queued).reason == "ALREADY_QUEUED"
    worker = lab.worker()
    worker.start(queued)
    lab.cancel(queued)
    assert lab.requeue(queued).reason == "CANCELLING"
    worker.finish(queued, S.CANCELLED)
    lab.settle()
    assert lab.requeue(queued).reason == "ALREADY_ENDED"
    assert lab.requeue("nothing").reason == "NOT_FOUND"


# Priority.


def test_a_task_takes_its_new_place_and_keeps_it_over_a_change_of_leader() -> None:
    lab = Lab()
    ids = [lab.add() for _ in range(3)]
    assert lab.prioritize(ids[2], 1) == S.QUEUED
    lab.prioritize(ids[0], 9)
    lab.recover()
    assert [lab.get(id).priority for id in ids] == [9, 5, 1]
    order = []
    worker = lab.worker(slots=1)
    for _ in ids:
        [held] = worker.held
        order.append(held)
        worker.finish(held)
        lab.settle()
    assert order == [ids[2], ids[1], ids[0]]


def test_a_priority_that_goes_to_and_fro_leaves_one_place_in_the_queue() -> None:
    lab = Lab()
    ids = [lab.add() for _ in range(2)]
    for priority in (1, 5, 1, 5, 5, 10, 5):
        lab.prioritize(ids[0], priority)
    [queue] = lab.engine.cluster.queues.values()
    assert len(queue) == 2
    worker = lab.worker(slots=2)
    assert sorted(worker.held) == sorted(ids)
    assert len(queue) == 0
    assert queue.peek() is None


def test_the_priority_of_a_task_that_runs_is_that_of_its_next_attempt() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(retry=retrying(2, 0))
    worker.start(id)
    assert lab.prioritize(id, 1) == S.RUNNING
    worker.finish(id, S.FAILED)
    lab.settle()
    assert lab.get(id).priority == 1
    ended = lab.add()
    worker.finish(id)
    lab.settle()
    worker.finish(ended)
    lab.settle()
    assert lab.prioritize(ended, 1).reason == "ALREADY_ENDED"


def test_a_task_whose_row_was_deleted_is_forgotten_when_its_rewrite_is_refused() -> None:
    lab = Lab()
    id = lab.add()
    lab.handle(Prioritize(object(), id, 1))
    batch = lab.seal()
    assert [row[1] for row in batch.changes.instance_rewrites] == [id]
    lab.engine.drop_refused(batch, "instance_rewrites", ("default", id), "there is no such row")
    del lab.tables.instances[id]
    lab.commit(batch)
    assert id not in lab.engine.cluster.instances
    assert len(next(iter(lab.engine.cluster.queues.values()))) == 0
