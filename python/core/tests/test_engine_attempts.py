"""The life of an attempt: start, timeouts, retries, cancel in every state, results late, twice and from strangers."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT, UNKNOWN_TASK
from taskyard_core.engine.events import Cancel, Hello, Progress, Refused, Result, WorkerFrame
from taskyard_core.records import TaskState

S = TaskState
MINUTE = 60_000


def acks(lab: Lab, worker: str, *results: Result) -> list[int]:
    """Reports results outside the stream and returns the outcomes."""
    reply = object()
    fake = lab.workers[worker]
    lab.handle(WorkerFrame(fake.id, fake.epoch, results=results, reply=reply))
    lab.settle()
    return [ack.outcome for ack in lab.answers[id(reply)]]


# Start acknowledgement.


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
    assert "5 workers in a row" in lab.get(id).error_message
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


# Timeouts.


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


# Retries.


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


# Cancel in every state.


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


# Results.


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


# Retries by hand.


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


# Rows that are read while things move on.


def test_a_cancel_with_a_stale_row_meets_the_end_that_is_not_committed_yet() -> None:
    """The end is in the commit in flight: SQL still says that the task runs."""
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id, output_json="1")
    in_flight = lab.seal()
    c = lab.engine.cluster
    c.pin(id)
    stale = lab.stored(id)
    assert stale is not None
    assert stale.state == S.ASSIGNED
    lab.commit(in_flight)
    lab.add("other")
    lab.settle()
    lab.handle(Cancel("reply", id, "late", stale))
    (answer,) = [value for reply, value in c.batch.answers if reply == "reply"]
    assert answer.reason == "ALREADY_ENDED"
    lab.settle()
    c.unpin(id)
    assert (lab.state(id), lab.get(id).output_json) == (S.SUCCESS, "1")
    assert id not in c.instances
    assert c.kept == {}


def test_two_cancels_with_the_same_row_end_a_spilled_task_once(small_head: None) -> None:
    lab = Lab()
    ids = [lab.add() for _ in range(30)]
    c = lab.engine.cluster
    assert ids[-1] not in c.instances
    for _ in range(2):
        c.pin(ids[-1])
    rows = [lab.stored(ids[-1]), lab.stored(ids[-1])]
    for row in rows:
        lab.handle(Cancel("reply", ids[-1], "twice", row))
    assert lab.engine.cluster.waiting_count() == 29
    lab.settle()
    for _ in range(2):
        c.unpin(ids[-1])
    assert lab.state(ids[-1]) == S.CANCELLED
    assert not c.pins


@pytest.fixture
def small_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_LIMIT", 8)


def test_a_lease_and_a_run_timeout_that_end_in_one_leap_leave_the_retrys_delay_alone() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(run_ms=42_000, retry=retrying(3, 30_000))
    worker.start(id)
    lab.settle()
    lab.jump(100_000)
    assert (lab.state(id), lab.get(id).error_kind) == (S.PENDING, "WORKER_LOST")
    assert lab.get(id).not_before == lab.now + 30_000


def test_cancel_and_retry_in_one_millisecond_leave_one_entry_in_the_queue() -> None:
    lab = Lab()
    id = lab.add()
    for _ in range(3):
        lab.cancel(id)
        lab.retry(id)
    (queue,) = lab.engine.cluster.queues.values()
    live = [entry for entry in queue.entries() if entry[0] == entry[2].order_key]
    assert len(live) == len(queue) == 1


def test_a_pinned_task_that_spills_is_still_found(small_head: None) -> None:
    lab = Lab()
    id = lab.add(priority=10)
    c = lab.engine.cluster
    c.pin(id)
    for _ in range(20):
        lab.add()
    assert id not in c.instances
    found = c.find(id)
    assert found is not None
    assert found.state == S.QUEUED
    c.unpin(id)
    assert c.find(id) is None
