"""A run is taken up again: from some steps with all below them, or from everything that ended badly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from enginekit import FakeWorker, Lab, retrying

from taskyard_core.engine.events import Refused, When
from taskyard_core.records import RunState, TaskState

S = TaskState


def diamond(**spec: Any) -> tuple[Lab, FakeWorker]:
    """Two steps after `a`, and `d` after both; each passes on what it was given."""
    lab = Lab()
    read = {"input": {"from": "${steps.a.output.n}"}}
    lab.plan("flow", [
        ("a", (), dict(spec)), ("b", ("a",), read), ("c", ("a",), dict(spec)),
        ("d", ("b", "c"), {"input": {"b": "${steps.b.output.n}"}}),
    ])  # fmt: skip
    return lab, lab.worker(slots=10)


def steps(lab: Lab, run: str) -> dict[str, Any]:
    return {step.step_id: step for step in lab.tables.steps(run)}


def finish(lab: Lab, worker: FakeWorker, run: str, step: str, status: int = S.SUCCESS, n: int = 1) -> None:
    id = steps(lab, run)[step].id
    worker.start(id)
    worker.finish(id, status, output_json=json.dumps({"n": n}) if status == S.SUCCESS else "")
    lab.settle()


def whole(lab: Lab, worker: FakeWorker) -> str:
    """Returns a run that has succeeded."""
    run = lab.start_run("flow")
    for step in ("a", "b", "c", "d"):
        finish(lab, worker, run, step)
    assert state(lab, run) == RunState.SUCCEEDED
    return run


def state(lab: Lab, run: str) -> RunState:
    return RunState(lab.tables.runs[run]["state"])


def standing(lab: Lab, run: str) -> dict[str, str]:
    return {id: S(step.state).name for id, step in sorted(steps(lab, run).items())}


@pytest.mark.parametrize("recovered", [False, True])
def test_a_step_and_everything_below_it_run_again_with_new_input(recovered: bool) -> None:
    lab, worker = diamond()
    run = whole(lab, worker)
    before = steps(lab, run)
    assert lab.retry_run(run, "a") == (RunState.RUNNING, ["a", "b", "c", "d"])
    assert standing(lab, run) == {"a": "ASSIGNED", "b": "PENDING", "c": "PENDING", "d": "PENDING"}
    if recovered:
        lab.recover()
        worker.connect()
        lab.settle()
    finish(lab, worker, run, "a", n=2)
    assert json.loads(steps(lab, run)["b"].input_json) == {"from": 2}
    finish(lab, worker, run, "b", n=7)
    if recovered:
        lab.recover()
        worker.connect()
        lab.settle()
    finish(lab, worker, run, "c")
    assert json.loads(steps(lab, run)["d"].input_json) == {"b": 7}
    finish(lab, worker, run, "d")
    assert state(lab, run) == RunState.SUCCEEDED
    after = steps(lab, run)
    assert {id: step.id for id, step in after.items()} == {id: step.id for id, step in before.items()}
    assert {step.attempt for step in after.values()} == {2}
    assert len(lab.tables.attempts) == 4, "the first attempts are kept"


def test_steps_beside_it_keep_what_they_did() -> None:
    lab, worker = diamond()
    run = whole(lab, worker)
    assert lab.retry_run(run, "c") == (RunState.RUNNING, ["c", "d"])
    assert standing(lab, run) == {"a": "SUCCESS", "b": "SUCCESS", "c": "ASSIGNED", "d": "PENDING"}
    finish(lab, worker, run, "c")
    finish(lab, worker, run, "d")
    assert state(lab, run) == RunState.SUCCEEDED
    assert [step.attempt for _, step in sorted(steps(lab, run).items())] == [1, 1, 2, 2]


def test_without_steps_all_that_ended_badly_runs_again_and_what_waited_for_it() -> None:
    lab, worker = diamond(retry=retrying(1))
    run = lab.start_run("flow")
    finish(lab, worker, run, "a")
    finish(lab, worker, run, "c", S.FAILED)
    finish(lab, worker, run, "b")
    assert standing(lab, run) == {"a": "SUCCESS", "b": "SUCCESS", "c": "FAILED", "d": "SKIPPED"}
    assert lab.retry_run(run) == (RunState.RUNNING, ["c", "d"])
    finish(lab, worker, run, "c")
    finish(lab, worker, run, "d")
    assert state(lab, run) == RunState.SUCCEEDED


def test_a_run_that_was_cancelled_goes_on() -> None:
    lab, worker = diamond()
    run = lab.start_run("flow")
    finish(lab, worker, run, "a")
    lab.cancel_run(run, kill=True)
    assert state(lab, run) == RunState.CANCELLED
    state_now, again = lab.retry_run(run)
    assert (state_now, sorted(again)) == (RunState.RUNNING, ["b", "c", "d"])
    for step in ("b", "c", "d"):
        finish(lab, worker, run, step)
    assert state(lab, run) == RunState.SUCCEEDED


def test_a_step_that_ran_and_is_skipped_now_says_so() -> None:
    lab, worker = diamond(retry=retrying(1))
    run = whole(lab, worker)
    lab.retry_run(run, "a")
    finish(lab, worker, run, "a", S.FAILED)
    assert standing(lab, run) == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "d": "SKIPPED"}
    assert {step.error_kind for id, step in steps(lab, run).items() if id != "a"} == {"UPSTREAM_FAILED"}
    assert {step.output_json for step in steps(lab, run).values()} == {""}
    assert state(lab, run) == RunState.FAILED
    lab.retry_run(run)
    for step in ("a", "b", "c", "d"):
        finish(lab, worker, run, step)
    assert state(lab, run) == RunState.SUCCEEDED


def test_a_cancel_while_steps_wait_to_run_again_ends_them() -> None:
    lab, worker = diamond()
    run = whole(lab, worker)
    lab.retry_run(run, "a")
    assert lab.cancel_run(run) == RunState.CANCELLING
    worker.finish(steps(lab, run)["a"].id, S.CANCELLED)
    lab.settle()
    assert state(lab, run) == RunState.CANCELLED
    assert set(standing(lab, run).values()) == {"CANCELLED"}
    assert not lab.engine.cluster.instances


def test_a_template_that_finds_nothing_any_more_fails_its_step() -> None:
    lab, worker = diamond()
    run = whole(lab, worker)
    lab.retry_run(run, "a")
    id = steps(lab, run)["a"].id
    worker.start(id)
    worker.finish(id, S.SUCCESS, output_json="{}")
    lab.settle()
    failed = steps(lab, run)["b"]
    assert (failed.state, failed.error_kind, failed.attempt) == (S.FAILED, "TEMPLATE_ERROR", 1)
    finish(lab, worker, run, "c")
    assert state(lab, run) == RunState.FAILED


def test_the_total_timeout_of_a_step_counts_from_when_it_runs_anew() -> None:
    lab, worker = diamond(total_ms=5_000)
    run = whole(lab, worker)
    lab.wait(60_000)
    worker.beat()
    lab.retry_run(run, "c")
    lab.wait(4_000)
    assert standing(lab, run)["c"] in ("ASSIGNED", "RUNNING")
    lab.wait(1_000)
    assert standing(lab, run)["c"] != "SUCCESS"
    assert lab.get(steps(lab, run)["c"].id).error_kind == "TOTAL_TIMEOUT"


def test_a_step_that_waits_to_run_again_says_for_what() -> None:
    lab, worker = diamond()
    run = whole(lab, worker)
    lab.retry_run(run, "a")
    [reason] = lab.engine.explain(steps(lab, run)["d"].id, lab.now) or []
    assert reason.code == "UPSTREAM_RUNNING"
    assert reason.variables == {"steps": "b,c"}
    assert lab.requeue(steps(lab, run)["d"].id).reason == "RUN_NOT_RUNNING"


def refused(answer: Any) -> str:
    assert isinstance(answer, Refused), answer
    return answer.reason


def test_what_cannot_run_again_now_is_refused_and_nothing_changes() -> None:
    lab, worker = diamond()
    run = lab.start_run("flow")
    assert refused(lab.retry_run(run)) == "NOTHING_TO_RETRY"
    assert refused(lab.retry_run(run, "a")) == "STEP_NOT_ENDED"
    assert refused(lab.retry_run(run, "x")) == "UNKNOWN_STEP"
    finish(lab, worker, run, "a")
    assert refused(lab.retry_run(run, "a")) == "STEP_NOT_ENDED", "b and c run"
    assert standing(lab, run) == {"a": "SUCCESS", "b": "ASSIGNED", "c": "ASSIGNED"}
    lab.cancel_run(run)
    assert refused(lab.retry_run(run)) == "RUN_CANCELLING"
    later = lab.start_run("flow", when=When(delay_ms=1_000))
    assert refused(lab.retry_run(later)) == "RUN_PENDING"


@pytest.mark.parametrize("from_steps", [(), ("c",)])
def test_what_a_cancel_kept_from_beginning_begins(from_steps: tuple[str, ...]) -> None:
    lab, worker = diamond()
    run = lab.start_run("flow", when=When(delay_ms=1_000))
    lab.cancel_run(run)
    assert not steps(lab, run)
    state_now, again = lab.retry_run(run, *from_steps)
    assert (state_now, sorted(again)) == (RunState.RUNNING, ["a", "b", "c", "d"])
    lab.recover()
    worker.connect()
    lab.settle()
    for step in ("a", "b", "c", "d"):
        finish(lab, worker, run, step)
    assert state(lab, run) == RunState.SUCCEEDED
