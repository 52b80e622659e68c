"""Results from outside: the handler has ended, its slot is free, and somebody completes the attempt by its token."""

from __future__ import annotations

from typing import Any

import pytest
from enginekit import FakeWorker, Lab, retrying

from taskyard_core.engine.attempts import DEFER_MS, MAX_DEFER_MS
from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT
from taskyard_core.records import RunState, TaskState

S = TaskState


def deferred(lab: Lab, wait_ms: int = 0, **parts: Any) -> tuple[FakeWorker, str, str]:
    """Returns a worker of one slot, a task that waits for its result, and the token of its attempt."""
    worker = lab.worker(slots=1)
    id = lab.add(**parts)
    token = worker.held[id]
    worker.start(id)
    worker.finish(id, S.DEFERRED, defer_ms=wait_ms)
    lab.settle()
    assert worker.acks[-1].outcome == RECORDED
    assert lab.state(id) == S.DEFERRED
    return worker, id, token


def test_its_slot_is_free_and_its_result_comes_by_token() -> None:
    lab = Lab()
    worker, id, token = deferred(lab)
    other = lab.add()
    assert list(worker.held) == [other]
    lab.wait(5_000)
    assert lab.complete(id, token, S.SUCCESS, '{"approved": true}') == S.SUCCESS
    assert (lab.state(id), lab.get(id).output_json) == (S.SUCCESS, '{"approved": true}')
    assert lab.get(id).duration_ms == 5_000, "the attempt lasted until its result came"
    assert lab.complete(id, token).reason == "STALE_ATTEMPT"


@pytest.mark.parametrize(("wait_ms", "waited"), [(0, DEFER_MS), (90_000, 90_000), (MAX_DEFER_MS * 9, MAX_DEFER_MS)])
def test_the_wait_has_an_end(wait_ms: int, waited: int) -> None:
    lab = Lab()
    _, id, _ = deferred(lab, wait_ms, retry=retrying(1))
    lab.jump(waited - 1)
    assert lab.state(id) == S.DEFERRED
    lab.jump(1)
    assert lab.state(id) == S.TIMEOUT
    assert "did not come from outside within" in lab.get(id).error_message


def test_a_failure_from_outside_is_retried_with_another_token() -> None:
    lab = Lab()
    worker, id, token = deferred(lab, retry=retrying(2, 0))
    assert lab.complete(id, token, S.FAILED, error_message="refused") == S.QUEUED
    assert lab.complete(id, token).reason == "STALE_ATTEMPT"
    assert (lab.get(id).attempt, worker.held[id] != token) == (2, True)
    assert lab.tables.attempts[id, 1]["error_message"] == "refused"


def test_a_failure_that_is_final_is_not_retried() -> None:
    lab = Lab()
    _, id, token = deferred(lab, retry=retrying(5))
    assert lab.complete(id, token, S.FAILED, error_message="no", error_kind="NON_RETRYABLE") == S.FAILED


def test_the_wait_outlives_the_leader_and_the_worker() -> None:
    lab = Lab()
    worker, id, token = deferred(lab, 3_600_000)
    lab.wait(1_000)
    lab.recover()
    worker.connect()
    lab.settle()
    assert (lab.state(id), lab.why(id)) == (S.DEFERRED, ["DEFERRED"])
    worker.leave()
    lab.settle()
    lab.wait(100_000)
    assert lab.state(id) == S.DEFERRED
    lab.recover()
    lab.jump(3_600_000 - 102_000)
    assert lab.state(id) == S.DEFERRED
    assert lab.complete(id, token) == S.SUCCESS


def test_a_result_that_is_quicker_than_the_handlers_end_counts() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    token = worker.held[id]
    worker.start(id)
    assert lab.complete(id, token, S.SUCCESS, "1") == S.SUCCESS
    assert worker.cancels[-1].reason == "fenced"
    worker.held[id] = token
    worker.finish(id, S.DEFERRED)
    lab.settle()
    assert (worker.acks[-1].outcome, lab.state(id)) == (STALE_ATTEMPT, S.SUCCESS)


def test_an_exclusive_handler_must_have_ended() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(exclusive=True)
    token = worker.held[id]
    worker.start(id)
    assert lab.complete(id, token).reason == "NOT_DEFERRED"
    worker.finish(id, S.DEFERRED)
    lab.settle()
    assert lab.complete(id, token) == S.SUCCESS


def test_it_is_cancelled_marked_or_given_back_at_once() -> None:
    lab = Lab()
    _, first, _ = deferred(lab)
    assert lab.cancel(first) == S.CANCELLED
    _, second, token = deferred(lab)
    assert lab.mark(second, S.SUCCESS, "1") == S.SUCCESS
    assert lab.complete(second, token).reason == "STALE_ATTEMPT"
    for exclusive in (False, True):
        worker, third, token = deferred(lab, exclusive=exclusive)
        assert lab.requeue(third) == S.QUEUED
        assert (lab.get(third).attempt, worker.held[third] != token) == (2, True)
        worker.finish(third)
        lab.settle()


def test_one_that_is_being_stopped_is_not_deferred() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    token = worker.held[id]
    worker.start(id)
    lab.cancel(id)
    assert lab.complete(id, token).reason == "CANCELLING"
    worker.finish(id, S.DEFERRED)
    lab.settle()
    assert lab.state(id) == S.CANCELLED


def test_the_total_timeout_ends_the_wait() -> None:
    lab = Lab()
    _, id, _ = deferred(lab, total_ms=60_000)
    lab.wait(60_001)
    assert lab.state(id) == S.TIMEOUT


def test_a_step_waits_and_its_run_goes_on_with_the_result() -> None:
    lab = Lab()
    worker = lab.worker()
    lab.plan("flow", [("ask", (), {}), ("act", ("ask",), {"params": {"by": "${steps.ask.output.by}"}})])
    run = lab.start_run("flow")
    id = lab.step(run, "ask")
    token = worker.held[id]
    worker.finish(id, S.DEFERRED)
    lab.settle()
    lab.recover()
    worker.connect()
    lab.settle()
    lab.complete(id, token, S.SUCCESS, '{"by": "ann"}')
    act = lab.step(run, "act")
    assert lab.get(act).params_json == '{"by": "ann"}'
    worker.finish(act)
    lab.settle()
    assert lab.run_state(run) == RunState.SUCCEEDED


def test_an_unknown_token_changes_nothing() -> None:
    lab = Lab()
    _, id, token = deferred(lab)
    assert lab.complete("nothing", token).reason == "NOT_FOUND"
    assert lab.complete(id, "guessed").reason == "STALE_ATTEMPT"
    assert lab.state(id) == S.DEFERRED
