"""A person says how an instance or a step has ended, whatever it is; its run goes on from there."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.attempts import MARKED_KIND
from taskyard_core.engine.effects import STALE_ATTEMPT
from taskyard_core.records import CANCELLED, FAILED, RunState, TaskState

S = TaskState
R = RunState


def failed(lab: Lab) -> str:
    """Returns a task that has failed."""
    worker = lab.worker()
    id = lab.add(retry=retrying(1))
    worker.start(id)
    worker.finish(id, S.FAILED, error_message="no luck")
    lab.settle()
    assert lab.state(id) == S.FAILED
    return id


@pytest.mark.parametrize("state", [S.SUCCESS, S.SKIPPED])
def test_what_waits_ends_at_once(state: TaskState) -> None:
    lab = Lab()
    ids = [lab.add() for _ in range(2)]
    assert lab.mark(ids[0], state, reason="by decree") == state
    row = lab.get(ids[0])
    assert (row.error_kind, row.error_message, row.ended_at) == (MARKED_KIND, "by decree", lab.now)
    worker = lab.worker()
    assert list(worker.held) == [ids[1]]


def test_a_failed_task_becomes_a_success_with_an_output_and_keeps_its_attempt() -> None:
    lab = Lab()
    id = failed(lab)
    assert lab.mark(id, S.SUCCESS, '{"v": 7}') == S.SUCCESS
    assert lab.get(id).output_json == '{"v": 7}'
    kept = lab.tables.attempts[id, 1]
    assert (kept["status"], kept["error_message"]) == (FAILED, "no luck")
    assert lab.mark(id, S.SKIPPED).reason == "ALREADY_SUCCEEDED"


@pytest.mark.parametrize("state", [S.SUCCESS, S.SKIPPED])
@pytest.mark.parametrize("told", [S.CANCELLED, S.FAILED])
def test_what_runs_is_told_to_stop_first(state: TaskState, told: TaskState) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(3))
    worker.start(id)
    output = '"x"' if state == S.SUCCESS else ""
    assert lab.mark(id, state, output, "enough seen") == S.CANCELLING
    assert worker.cancels[-1].reason == "cancelled"
    assert lab.mark(id, state).reason == "CANCELLING"
    worker.finish(id, told)
    lab.settle()
    row = lab.get(id)
    assert (row.state, row.output_json, row.error_kind, row.error_message) == (
        state,
        output,
        MARKED_KIND,
        "enough seen",
    )
    assert lab.tables.attempts[id, 1]["status"] == CANCELLED


def test_a_mark_that_waits_for_its_worker_outlives_the_leader() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.mark(id, S.SUCCESS, '{"v": 1}', "so be it")
    lab.recover()
    worker.connect()
    lab.settle()
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert (lab.state(id), lab.get(id).output_json) == (S.SUCCESS, '{"v": 1}')


def test_a_real_success_counts_more_than_a_mark() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.mark(id, S.SKIPPED)
    worker.finish(id, output_json="5")
    lab.settle()
    assert (lab.state(id), lab.get(id).output_json, lab.get(id).error_kind) == (S.SUCCESS, "5", "")


def test_a_cancel_takes_the_place_of_a_mark() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.mark(id, S.SUCCESS, "5")
    assert lab.cancel(id, "after all not") == S.CANCELLING
    worker.finish(id, S.CANCELLED)
    lab.settle()
    assert (lab.state(id), lab.get(id).output_json) == (S.CANCELLED, "")


def test_a_worker_that_is_lost_confirms_a_mark() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.mark(id, S.SUCCESS, "5")
    worker.drop_stream()
    lab.wait(lab.limits.lease_ms + 1)
    assert lab.state(id) == S.SUCCESS
    worker.hello()
    worker.held[id] = worker.held.get(id) or "late"
    worker.finish(id, S.FAILED)
    lab.settle()
    assert worker.acks[-1].outcome == STALE_ATTEMPT


def chain(lab: Lab, **more: object) -> str:
    lab.plan(
        "flow", [("a", (), {"retry": retrying(1)}), ("b", ("a",), {"params": {"x": "${steps.a.output.v}"}, **more})]
    )
    return lab.start_run("flow")


def test_a_run_that_failed_goes_on_from_a_step_marked_as_a_success() -> None:
    lab = Lab()
    worker = lab.worker()
    run = chain(lab)
    worker.finish(lab.step(run, "a"), S.FAILED)
    lab.settle()
    assert lab.run_state(run) == R.FAILED
    assert lab.steps(run) == {"a": S.FAILED, "b": S.SKIPPED}
    lab.mark(lab.step(run, "a"), S.SUCCESS, '{"v": "given"}')
    assert (lab.run_state(run), lab.state(lab.step(run, "b"))) == (R.RUNNING, S.ASSIGNED)
    assert lab.get(lab.step(run, "b")).params_json == '{"x": "given"}'
    worker.finish(lab.step(run, "b"))
    lab.settle()
    assert lab.run_state(run) == R.SUCCEEDED


def test_what_follows_a_skipped_step_goes_by_its_trigger_rule() -> None:
    lab = Lab()
    lab.worker()
    run = chain(lab, rule="none_failed", params={})
    lab.mark_step(run, "a", S.SKIPPED)
    lab.workers["w1"].finish(lab.step(run, "a"), S.CANCELLED)
    lab.settle()
    assert lab.steps(run) == {"a": S.SKIPPED, "b": S.ASSIGNED}


def test_a_step_that_has_not_begun_ends_and_the_run_with_it() -> None:
    lab = Lab()
    lab.worker()
    run = chain(lab)
    marked = lab.mark_step(run, "b", S.SUCCESS, "1", "done by hand")
    assert (marked.state, marked.run_state, lab.state(marked.task_id)) == (S.SUCCESS, R.RUNNING, S.SUCCESS)
    assert lab.get(marked.task_id).error_message == "done by hand"
    lab.workers["w1"].finish(lab.step(run, "a"), output_json='{"v": 1}')
    lab.settle()
    assert lab.run_state(run) == R.SUCCEEDED


@pytest.mark.parametrize("recovered", [False, True])
def test_a_step_of_a_cancelled_run_that_never_began_lets_the_run_go_on(recovered: bool) -> None:
    lab = Lab()
    worker = lab.worker()
    lab.plan("flow", [("a", (), {}), ("b", ("a",), {}), ("c", (), {})])
    run = lab.start_run("flow")
    lab.cancel_run(run)
    for step in ("a", "c"):
        worker.finish(lab.step(run, step), S.CANCELLED)
    lab.settle()
    assert lab.run_state(run) == R.CANCELLED
    if recovered:
        lab.recover()
    marked = lab.mark_step(run, "b", S.SUCCESS)
    assert marked.state == S.SUCCESS
    assert lab.run_state(run) == R.FAILED, "c was cancelled, and nobody has run it again"
    assert lab.steps(run) == {"a": S.CANCELLED, "b": S.SUCCESS, "c": S.CANCELLED}


def test_a_step_is_marked_by_its_task_or_by_its_run_alike() -> None:
    lab = Lab()
    worker = lab.worker()
    runs = [chain(lab) for _ in range(2)]
    lab.plan("flow", [("a", (), {"retry": retrying(1)}), ("b", ("a",), {})])
    for run in runs:
        worker.finish(lab.step(run, "a"), S.FAILED)
    lab.settle()
    lab.mark(lab.step(runs[0], "a"), S.SUCCESS, '{"v": "1"}')
    lab.mark_step(runs[1], "a", S.SUCCESS, '{"v": "1"}')
    assert lab.steps(runs[0]) == lab.steps(runs[1]) == {"a": S.SUCCESS, "b": S.ASSIGNED}


def test_a_marked_step_runs_again_when_a_person_wants_it() -> None:
    lab = Lab()
    worker = lab.worker()
    run = chain(lab)
    lab.mark_step(run, "b", S.SKIPPED)
    worker.finish(lab.step(run, "a"), output_json='{"v": "1"}')
    lab.settle()
    assert lab.run_state(run) == R.SUCCEEDED
    lab.retry_run(run, "b")
    assert (lab.state(lab.step(run, "b")), lab.get(lab.step(run, "b")).error_kind) == (S.ASSIGNED, "")


def test_a_mark_that_makes_no_sense_is_refused() -> None:
    lab = Lab()
    worker = lab.worker()
    assert lab.mark("nothing", S.SUCCESS).reason == "NOT_FOUND"
    run = chain(lab)
    assert lab.mark_step(run, "nowhere", S.SUCCESS).reason == "UNKNOWN_STEP"
    lab.cancel_run(run)
    assert lab.mark_step(run, "b", S.SUCCESS).reason == "RUN_CANCELLING"
    assert lab.mark(lab.step(run, "a"), S.SUCCESS).reason == "CANCELLING"
    worker.finish(lab.step(run, "a"), S.CANCELLED)
    lab.settle()
    skipped = lab.add()
    lab.mark(skipped, S.SKIPPED)
    worker.finish(skipped, S.CANCELLED)
    lab.settle()
    assert lab.mark(skipped, S.SKIPPED).reason == "ALREADY_SKIPPED"
    assert lab.mark(skipped, S.SUCCESS) == S.SUCCESS


def test_a_step_that_begins_anew_is_marked_by_its_run_only() -> None:
    lab = Lab()
    worker = lab.worker()
    run = chain(lab)
    worker.finish(lab.step(run, "a"), S.FAILED)
    lab.settle()
    skipped = lab.step(run, "b")
    stale = lab.tables.instance(skipped)
    lab.retry(lab.step(run, "a"))
    lab.tables.instances[skipped] = dict.fromkeys(lab.tables.instances[lab.step(run, "a")], None)
    lab.tables.instances.pop(skipped)
    lab.stored = lambda id: stale  # type: ignore[method-assign]  # the row was read before the retry
    assert lab.mark(skipped, S.SUCCESS).reason == "NOT_ENDED"
