"""Results once, twice, late and from strangers; progress and checkpoints."""

from __future__ import annotations

import pytest
from enginekit import Lab, acks, retrying

from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT, UNKNOWN_TASK
from taskyard_core.engine.events import Progress, Result
from taskyard_core.records import TaskState

S = TaskState


def test_a_result_twice_is_recorded_once() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    result = worker.finish(id, output_json="1")
    lab.settle()
    assert [ack.outcome for ack in worker.acks] == [RECORDED]
    again = Result(id, result.token, S.FAILED)
    assert acks(lab, "w1", again, again) == [STALE_ATTEMPT, STALE_ATTEMPT]
    assert (lab.state(id), lab.get(id).output_json) == (S.SUCCESS, "1")


def test_a_result_twice_in_one_frame() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    result = Result(id, worker.held[id], S.SUCCESS)
    assert acks(lab, "w1", result, result) == [RECORDED, STALE_ATTEMPT]


def test_a_result_after_a_cancel_that_ended_it() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    token = worker.held[id]
    worker.drop_stream()
    lab.cancel(id)
    lab.wait(61_000)
    assert lab.state(id) == S.CANCELLED
    assert acks(lab, "w1", Result(id, token, S.SUCCESS)) == [STALE_ATTEMPT]
    assert lab.state(id) == S.CANCELLED


def test_a_result_of_an_earlier_attempt_changes_nothing() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(3, 0))
    old = worker.finish(id, S.FAILED)
    lab.settle()
    assert acks(lab, "w1", Result(id, old.token, S.SUCCESS)) == [STALE_ATTEMPT]
    assert (lab.state(id), lab.get(id).attempt) == (S.ASSIGNED, 2)


def test_a_worker_cannot_report_anothers_task() -> None:
    lab = Lab()
    worker = lab.worker("w1", "a")
    lab.worker("w2", "b")
    id = lab.add("a")
    token = worker.held[id]
    assert acks(lab, "w2", Result(id, token, S.SUCCESS), Result(id, "guess", S.SUCCESS)) == [
        UNKNOWN_TASK,
        STALE_ATTEMPT,
    ]
    fake = lab.workers["w2"]
    fake.frame(started=[(id, token)], progress=[Progress(id, token, percent=1.0, checkpoint="x", checkpoint_number=1)])
    lab.settle()
    assert lab.state(id) == S.ASSIGNED
    assert lab.tables.checkpoints == {}


def test_a_result_of_an_unknown_task() -> None:
    lab = Lab()
    lab.worker()
    assert acks(lab, "w1", Result("nothing", "token", S.SUCCESS)) == [STALE_ATTEMPT]
    assert acks(lab, "w1") == []


def test_a_quick_task_is_never_marked_as_running() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    token = worker.held.pop(id)
    lab.wait(50)
    worker.frame(results=[Result(id, token, S.SUCCESS, duration_ms=20)], started=[(id, token)])
    lab.settle()
    assert lab.state(id) == S.SUCCESS
    assert lab.get(id).started_at == lab.now - 20
    assert ("instance", int(S.ASSIGNED), int(S.RUNNING)) not in lab.moves


@pytest.mark.parametrize(("status", "began"), [(S.SUCCESS, True), (S.FAILED, True), (12, False), (11, False)])
def test_what_ended_before_its_start_was_told_has_begun_all_the_same(status: int, began: bool) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(1))
    lab.wait(50)
    kind = "" if status == S.SUCCESS else "NON_RETRYABLE"
    worker.finish(id, status, duration_ms=20, error_kind=kind)
    lab.settle()
    if began:
        assert lab.tables.instances[id]["started_at"] == lab.tables.instances[id]["ended_at"] - 20
    else:
        assert lab.tables.attempts[id, 1]["started_at"] is None


def test_an_ack_leaves_with_the_commit_of_its_result() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id)
    batch = lab.seal()
    (going,) = batch.frames.values()
    assert [ack.outcome for ack in going.acks] == [RECORDED]
    assert [row[1] for row in batch.changes.instance_updates] == [id]


# Progress and checkpoints.


def test_progress_is_shown_and_not_committed() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.settle()
    before = lab.tables.revision
    worker.frame(progress=[Progress(id, worker.held[id], percent=12.5, message="at it")])
    lab.settle()
    instance = lab.engine.cluster.instances[id]
    assert (instance.percent, instance.progress_message, lab.tables.revision) == (12.5, "at it", before)


def test_a_checkpoint_is_acknowledged_with_its_commit_and_survives_to_the_next_attempt() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(retry=retrying(3, 0))
    worker.checkpoint(id, 1, "one")
    batch = lab.seal()
    (going,) = batch.frames.values()
    assert [number for _, _, number in going.checkpoint_acks] == [1]
    assert [row[3] for row in batch.changes.checkpoint_upserts] == ["one"]
    lab.commit(batch)
    worker.finish(id, S.FAILED)
    lab.settle()
    assert lab.engine.cluster.instances[id].checkpoint == "one"
    assert lab.tables.instance(id).checkpoint == "one"


def test_checkpoints_of_one_batch_are_one_row_and_old_numbers_are_passed_over() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    for number, data in ((1, "one"), (3, "three"), (2, "two")):
        worker.checkpoint(id, number, data)
    lab.settle()
    assert lab.tables.checkpoints[id][1] == "three"
    assert worker.checkpoints == [1, 3, 2], "an older one need not be kept either"


@pytest.mark.parametrize("recovered", [False, True])
def test_the_next_attempts_first_checkpoint_is_newer_than_the_last_ones_tenth(recovered: bool) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(retry=retrying(3, 0))
    worker.checkpoint(id, 10, "ten")
    worker.finish(id, S.FAILED)
    lab.settle()
    if recovered:
        lab.recover()
        worker.hello()
        lab.settle()
    worker.checkpoint(id, 1, "again")
    lab.settle()
    assert lab.tables.checkpoints[id][1] == "again"


def test_what_an_attempt_said_of_itself_goes_with_it() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    worker.frame(progress=[Progress(id, worker.held[id], percent=50.0, message="half")])
    worker.finish(id, S.FAILED)
    lab.settle()
    instance = lab.engine.cluster.instances[id]
    assert (instance.percent, instance.progress_message) == (None, "")
