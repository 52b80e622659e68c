"""Runs through the engine: trigger rules, templates, fan-out, cancel, and retries that reopen them."""

from __future__ import annotations

import json

import pytest
from enginekit import TENANT, Lab, StepSpec, retrying

from taskyard_core.engine.events import NewRun, Retry, StartRuns
from taskyard_core.records import RunState, TaskState

S = TaskState
R = RunState
ONCE = {"retry": retrying(1)}


def lab_with(*steps: StepSpec, slots: int = 50, output: object = None) -> Lab:
    lab = Lab()
    lab.plan("wf", steps, output=output)
    lab.worker(slots=slots)
    return lab


def end(lab: Lab, run: str, step: str, status: int = S.SUCCESS, output: object = None) -> None:
    text = "" if output is None else json.dumps(output)
    lab.workers["w1"].finish(lab.step(run, step), status, output_json=text)
    lab.settle()


@pytest.mark.parametrize(
    ("rule", "ends", "becomes"),
    [
        ("all_success", "SS", "ASSIGNED"),
        ("all_success", "SF", "SKIPPED"),
        ("all_success", "FS", "SKIPPED"),
        ("all_done", "SF", "ASSIGNED"),
        ("all_done", "FF", "ASSIGNED"),
        ("one_success", "FS", "ASSIGNED"),
        ("one_success", "FF", "SKIPPED"),
        ("one_failed", "SF", "ASSIGNED"),
        ("one_failed", "SS", "SKIPPED"),
        ("none_failed", "SS", "ASSIGNED"),
        ("none_failed", "SF", "SKIPPED"),
        ("all_done", "SC", "ASSIGNED"),
        ("one_failed", "SC", "SKIPPED"),
    ],
)
def test_trigger_rules(rule: str, ends: str, becomes: str) -> None:
    lab = lab_with(("a", [], ONCE), ("b", [], ONCE), ("c", ["a", "b"], {"rule": rule}))
    run = lab.start_run("wf")
    for step, how in zip("ab", ends, strict=True):
        if how == "C":
            lab.cancel(lab.step(run, step))
        end(lab, run, step, {"S": S.SUCCESS, "F": S.FAILED, "C": S.CANCELLED}[how])
    assert lab.steps(run)["c"] == TaskState[becomes]


@pytest.mark.parametrize(("rule", "first"), [("one_success", S.SUCCESS), ("one_failed", S.FAILED)])
def test_rules_that_need_not_wait_for_all(rule: str, first: int) -> None:
    lab = lab_with(("a", [], ONCE), ("b", [], ONCE), ("c", ["a", "b"], {"rule": rule}))
    run = lab.start_run("wf")
    end(lab, run, "a", first)
    assert lab.steps(run)["c"] == S.ASSIGNED


def test_a_skip_goes_down_the_line_and_says_why() -> None:
    lab = lab_with(("a", [], ONCE), ("b", ["a"], {}), ("c", ["b"], {}), ("d", ["c"], {"rule": "all_done"}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    assert lab.steps(run) == {"a": S.FAILED, "b": S.SKIPPED, "c": S.SKIPPED, "d": S.ASSIGNED}
    assert lab.get(lab.step(run, "b")).error_kind == "UPSTREAM_FAILED"
    end(lab, run, "d")
    assert lab.run_state(run) == R.SUCCEEDED, "its last step succeeded"


def test_a_result_its_successors_and_the_runs_end_share_a_commit() -> None:
    lab = lab_with(("a", [], {}), ("b", ["a"], {}))
    run = lab.start_run("wf")
    before = lab.tables.revision
    end(lab, run, "a")
    assert lab.tables.revision == before + 1
    assert lab.steps(run) == {"a": S.SUCCESS, "b": S.ASSIGNED}
    end(lab, run, "b")
    assert lab.tables.revision == before + 2
    assert (lab.run(run).state, lab.run(run).steps_ended, lab.run(run).steps_total) == (R.SUCCEEDED, 2, 2)


def test_templates_find_inputs_outputs_and_the_run() -> None:
    lab = lab_with(
        ("a", [], {"params": {"who": "${inputs.name}", "run": "${run.id}"}}),
        ("b", ["a"], {"input": {"n": "${steps.a.output.n}", "text": "got ${steps.a.output.n}"}}),
        output={"sum": "${steps.b.output}"},
    )
    run = lab.start_run("wf", inputs_json='{"name": "Ada"}')
    assert json.loads(lab.get(lab.step(run, "a")).params_json) == {"who": "Ada", "run": run}
    end(lab, run, "a", output={"n": 7})
    assert json.loads(lab.get(lab.step(run, "b")).input_json) == {"n": 7, "text": "got 7"}
    end(lab, run, "b", output=[1])
    assert json.loads(lab.run(run).output_json) == {"sum": [1]}


def test_a_template_without_value_fails_its_step_and_names_the_reference() -> None:
    lab = lab_with(
        ("a", [], {}), ("b", ["a"], {"params": {"x": "${steps.a.output.missing}"}}), ("c", ["b"], {"rule": "all_done"})
    )
    run = lab.start_run("wf")
    end(lab, run, "a", output={"n": 1})
    step = lab.get(lab.step(run, "b"))
    assert (step.state, step.error_kind, step.attempt) == (S.FAILED, "TEMPLATE_ERROR", 0)
    assert step.error_message.startswith("steps.b.params.x: ${steps.a.output.missing}: there is no key 'missing'")
    assert lab.steps(run)["c"] == S.ASSIGNED
    refused = lab.retry(step.id)
    assert refused.reason == "NEVER_RAN"
    assert "start a new run" in refused.message


def test_a_root_whose_template_fails_ends_the_run_at_once() -> None:
    lab = lab_with(("a", [], {"params": {"x": "${inputs.none}"}}), ("b", ["a"], {}))
    run = lab.start_run("wf")
    assert lab.steps(run) == {"a": S.FAILED, "b": S.SKIPPED}
    assert (lab.run_state(run), lab.run(run).error_message) == (R.FAILED, "step 'a' failed")


def test_an_output_that_cannot_be_made_is_told() -> None:
    lab = lab_with(("a", [], {}), output="${steps.a.output.gone}")
    run = lab.start_run("wf")
    end(lab, run, "a", output={})
    assert lab.run_state(run) == R.SUCCEEDED
    assert "output could not be made: output: ${steps.a.output.gone}: " in lab.run(run).error_message


def test_fan_out_and_fan_in_of_a_thousand() -> None:
    middle: list[StepSpec] = [(f"m{n}", ["root"], {}) for n in range(1_000)]
    lab = lab_with(("root", [], {}), *middle, ("leaf", [step for step, _, _ in middle], {}), slots=300)
    run = lab.start_run("wf")
    end(lab, run, "root")
    worker = lab.workers["w1"]
    rounds = 0
    while lab.run_state(run) == R.RUNNING:
        for id in list(worker.held):
            worker.finish(id)
        lab.settle()
        rounds += 1
    assert lab.run_state(run) == R.SUCCEEDED
    assert rounds == 5
    assert len(lab.tables.steps(run)) == 1_002
    assert lab.engine.cluster.live_count() == 0


def test_a_runs_priority_is_its_steps() -> None:
    lab = lab_with(("a", [], {"priority": 7}), ("b", [], {}))
    assert {i.priority for i in lab.tables.steps(lab.start_run("wf", priority=2))} == {2}
    assert {i.step_id: i.priority for i in lab.tables.steps(lab.start_run("wf"))} == {"a": 7, "b": 5}


def test_failures_are_counted_in_the_runs_message() -> None:
    lab = lab_with(("a", [], ONCE), ("b", [], ONCE), ("c", ["a", "b"], {}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    end(lab, run, "b", S.FAILED)
    assert lab.run(run).error_message == "step 'a' failed, and 1 more"


# Cancel.


def test_cancel_of_a_run_stops_what_runs_and_starts_nothing() -> None:
    lab = lab_with(("a", [], {}), ("b", [], {}), ("c", ["a"], {"rule": "all_done"}), slots=1)
    run = lab.start_run("wf")
    assert lab.cancel_run(run, "changed my mind") == R.CANCELLING
    assert lab.steps(run) == {"a": S.CANCELLING, "b": S.CANCELLED}
    assert lab.cancel_run(run) == R.CANCELLING
    end(lab, run, "a", S.CANCELLED)
    assert lab.run_state(run) == R.CANCELLED
    assert lab.steps(run) == {"a": S.CANCELLED, "b": S.CANCELLED}
    assert lab.run(run).cancel_reason == "changed my mind"
    assert lab.cancel_run(run).reason == "ALREADY_ENDED"


def test_cancel_of_a_run_that_nobody_works_on_ends_it_at_once() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", ["a"], {})])
    run = lab.start_run("wf")
    assert lab.cancel_run(run) == R.CANCELLED


def test_a_success_that_crosses_the_runs_cancel_is_kept() -> None:
    lab = lab_with(("a", [], {}), ("b", ["a"], {}))
    run = lab.start_run("wf")
    lab.cancel_run(run)
    end(lab, run, "a", S.SUCCESS)
    assert (lab.steps(run), lab.run_state(run)) == ({"a": S.SUCCESS}, R.CANCELLED)


def test_a_run_being_cancelled_survives_a_new_leader() -> None:
    lab = lab_with(("a", [], {}), ("c", [], {}), ("b", ["a"], {}))
    run = lab.start_run("wf")
    lab.cancel_run(run)
    end(lab, run, "a", S.SUCCESS)
    lab.recover()
    worker = lab.workers["w1"]
    worker.hello()
    worker.finish(lab.step(run, "c"), S.CANCELLED)
    lab.settle()
    assert lab.run_state(run) == R.CANCELLED
    assert lab.steps(run) == {"a": S.SUCCESS, "c": S.CANCELLED}


def test_cancel_of_a_run_reaches_steps_that_wait_in_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_LIMIT", 8)
    lab = Lab()
    lab.plan("wf", [(f"s{n}", [], {}) for n in range(30)])
    run = lab.start_run("wf")
    assert len(lab.engine.cluster.instances) < 30
    lab.cancel_run(run)
    assert set(lab.steps(run).values()) == {S.CANCELLED}
    assert lab.run_state(run) == R.CANCELLED
    lab.worker(slots=50)
    assert not lab.workers["w1"].held


# Retries by hand.


def test_retry_of_a_step_in_a_live_run() -> None:
    lab = lab_with(("a", [], ONCE), ("other", [], {}), ("b", ["a"], {}), ("c", ["b"], {}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    assert lab.steps(run) == {"a": S.FAILED, "other": S.ASSIGNED, "b": S.SKIPPED, "c": S.SKIPPED}
    lab.retry(lab.step(run, "a"))
    assert lab.steps(run) == {"a": S.ASSIGNED, "other": S.ASSIGNED}
    end(lab, run, "a")
    end(lab, run, "b")
    end(lab, run, "c")
    end(lab, run, "other")
    assert lab.run_state(run) == R.SUCCEEDED


@pytest.mark.parametrize("recovered", [False, True])
def test_retry_of_a_step_in_an_ended_run(recovered: bool) -> None:
    lab = lab_with(
        ("a", [], {}), ("b", ["a"], {**ONCE, "params": {"x": "${steps.a.output.v}"}}), ("c", ["b"], {}),
        output="${steps.a.output.v}",
    )  # fmt: skip
    run = lab.start_run("wf")
    end(lab, run, "a", output={"v": "kept"})
    end(lab, run, "b", S.FAILED)
    assert (lab.run_state(run), lab.steps(run)["c"]) == (R.FAILED, S.SKIPPED)
    if recovered:
        lab.recover()
        lab.workers["w1"].hello()
    assert lab.retry(lab.step(run, "b")) == S.QUEUED
    assert (lab.run_state(run), lab.run(run).ended_at, lab.run(run).error_message) == (R.RUNNING, None, "")
    assert lab.steps(run) == {"a": S.SUCCESS, "b": S.ASSIGNED}
    end(lab, run, "b")
    end(lab, run, "c")
    assert (lab.run_state(run), json.loads(lab.run(run).output_json)) == (R.SUCCEEDED, "kept")


def test_a_succeeded_run_goes_on_when_a_step_that_did_not_matter_is_retried() -> None:
    lab = lab_with(("a", [], ONCE), ("b", ["a"], {"rule": "all_done"}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    end(lab, run, "b")
    assert lab.run_state(run) == R.SUCCEEDED
    lab.retry(lab.step(run, "a"))
    assert lab.run_state(run) == R.RUNNING
    end(lab, run, "a")
    assert (lab.run_state(run), lab.steps(run)["b"]) == (R.SUCCEEDED, S.SUCCESS)


@pytest.mark.parametrize("recovered", ["no", "before the retry", "after the retry", "both"])
def test_retry_in_a_cancelled_run_lets_what_never_began_begin(recovered: str) -> None:
    lab = lab_with(("a", [], {}), ("b", [], {}), ("x", ["b"], {}), ("y", ["a", "x"], {}), ("z", ["a"], {}))
    run = lab.start_run("wf")
    end(lab, run, "b")
    assert lab.steps(run)["x"] == S.ASSIGNED
    lab.cancel_run(run)
    end(lab, run, "x", S.SUCCESS)
    end(lab, run, "a", S.CANCELLED)
    assert lab.steps(run) == {"a": S.CANCELLED, "b": S.SUCCESS, "x": S.SUCCESS}
    assert lab.run_state(run) == R.CANCELLED
    if recovered in ("before the retry", "both"):
        lab.recover()
        lab.workers["w1"].hello()
    lab.retry(lab.step(run, "a"))
    if recovered in ("after the retry", "both"):
        lab.recover()
        lab.workers["w1"].hello()
        lab.settle()
    for step in ("a", "y", "z"):
        end(lab, run, step)
    assert lab.run_state(run) == R.SUCCEEDED


def test_retry_in_a_cancelled_run_starts_other_steps_whose_upstream_is_done() -> None:
    """A success crossed the cancel: what follows it never began, and begins now."""
    lab = lab_with(("a", [], {}), ("b", [], {}), ("after_b", ["b"], {}))
    run = lab.start_run("wf")
    lab.cancel_run(run)
    end(lab, run, "b", S.SUCCESS)
    end(lab, run, "a", S.CANCELLED)
    lab.retry(lab.step(run, "a"))
    assert lab.steps(run) == {"a": S.ASSIGNED, "b": S.SUCCESS, "after_b": S.ASSIGNED}
    lab.recover()
    lab.workers["w1"].hello()
    end(lab, run, "a")
    end(lab, run, "after_b")
    assert lab.run_state(run) == R.SUCCEEDED


def test_a_retry_with_stale_rows_meets_the_end_of_its_run_in_memory() -> None:
    lab = lab_with(("a", [], ONCE), ("b", [], {}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    c, id = lab.engine.cluster, lab.step(run, "a")
    lab.workers["w1"].finish(lab.step(run, "b"))
    in_flight = lab.seal()
    c.pin(id)
    c.pin(run)
    assert run not in c.runs
    event = Retry("reply", id, lab.stored(id), lab.tables.run_row(run), lab.tables.steps(run))
    lab.commit(in_flight)
    lab.add("other")
    lab.settle()
    lab.handle(event)
    lab.settle()
    c.unpin(id)
    c.unpin(run)
    assert lab.steps(run) == {"a": S.ASSIGNED, "b": S.SUCCESS}, "b's success, which the rows did not show, is kept"
    end(lab, run, "a")
    assert lab.run_state(run) == R.SUCCEEDED


def test_a_step_and_one_above_it_may_both_be_retried_and_run_side_by_side() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", [], {}), ("c", ["a", "b"], {"rule": "all_done"})])
    worker = lab.worker()
    run = lab.start_run("wf")
    a, b = worker.held
    worker.finish(a)
    worker.finish(b, S.FAILED, error_kind="NON_RETRYABLE")
    lab.settle()
    [c] = worker.held
    worker.finish(c, S.FAILED, error_kind="NON_RETRYABLE")
    lab.settle()
    assert lab.retry(b) == S.QUEUED
    assert lab.retry(c) == S.QUEUED
    assert set(worker.held) == {b, c}
    worker.finish(c)
    lab.settle()
    assert lab.run_state(run) == R.RUNNING
    worker.finish(b)
    lab.settle()
    assert lab.run_state(run) == R.SUCCEEDED


@pytest.mark.parametrize("recovered", [False, True])
def test_a_step_that_ran_is_retried_although_its_rule_would_not_let_it_begin_now(recovered: bool) -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", ["a"], {})])
    worker = lab.worker()
    run = lab.start_run("wf")
    [a] = worker.held
    worker.finish(a)
    batch = lab.seal()  # the run goes on from a success that the database does not take
    lab.engine.drop_refused(batch, "instance_updates", (TENANT, a), "no")
    lab.commit(batch)
    lab.settle()
    assert lab.steps(run)["a"] == S.FAILED
    [b] = worker.held
    lab.cancel_run(run)
    worker.finish(b, S.CANCELLED)
    lab.settle()
    assert lab.run_state(run) == R.CANCELLED
    if recovered:
        lab.recover()
        worker = lab.worker("w2")
    assert lab.retry(b) == S.QUEUED
    worker.finish(b)
    lab.settle()
    assert lab.steps(run)["b"] == S.SUCCESS
    assert lab.run_state(run) in (R.SUCCEEDED, R.FAILED)


def test_a_step_that_a_retry_above_it_has_undone_is_not_retried_by_who_read_its_row_before() -> None:
    lab = lab_with(("a", [], ONCE), ("c", ["a"], {"rule": "all_done"}), ("z", ["c"], {"rule": "all_done"}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    a, c = lab.step(run, "a"), lab.step(run, "c")
    lab.cancel(c)
    end(lab, run, "c", S.CANCELLED)
    lab.engine.cluster.pin(c)
    row = lab.tables.instance(c)
    assert lab.retry(a) == S.QUEUED
    refused = lab.ask(Retry(object(), c, row))
    assert (refused.reason, "a step before it was retried" in refused.message) == ("NOT_ENDED", True)
    lab.engine.cluster.unpin(c)
    end(lab, run, "a")
    assert lab.step(run, "c") != c
    end(lab, run, "c")
    end(lab, run, "z")
    assert lab.run_state(run) == R.SUCCEEDED


def test_what_cannot_be_retried_in_a_run() -> None:
    lab = lab_with(("a", [], ONCE), ("b", ["a"], {}), ("c", [], {}))
    run = lab.start_run("wf")
    end(lab, run, "a", S.FAILED)
    assert lab.retry(lab.step(run, "b")).reason == "NEVER_RAN"
    lab.cancel_run(run)
    assert lab.retry(lab.step(run, "a")).reason == "RUN_CANCELLING"


def test_runs_recover_in_the_middle() -> None:
    lab = lab_with(("a", [], {}), ("b", ["a"], {"params": {"x": "${steps.a.output.v}"}}), ("c", ["b"], {}))
    run = lab.start_run("wf")
    end(lab, run, "a", output={"v": 1})
    lab.recover()
    lab.workers["w1"].hello()
    end(lab, run, "b")
    lab.recover()
    lab.workers["w1"].hello()
    end(lab, run, "c")
    assert lab.run_state(run) == R.SUCCEEDED


def test_a_repeated_start_gives_the_first_run() -> None:
    lab = lab_with(("a", [], {}))
    new = NewRun("wf", 1, request_id="r", request_hash=b"h")
    first, again = lab.ask(StartRuns(object(), "default", [new, new]))
    assert (again.id, again.repeated) == (first.id, True)
    assert len(lab.tables.runs) == 1
