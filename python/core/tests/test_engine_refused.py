"""Rows that the database does not take: who is told, what is stored instead, and that all else goes on."""

from __future__ import annotations

import pytest
from enginekit import TENANT, Lab, task

from taskyard_core.engine.events import Accepted, CancelRun, NewRun, StartRuns, Submit
from taskyard_core.records import INSTANCE_COLUMNS, RUN_COLUMNS, RunState, TaskState

S = TaskState
HASH = b"0" * 16
OTHER = b"1" * 16


def test_a_refused_insert_refuses_only_its_caller() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    lab.handle(Submit("one", TENANT, [task(request_id="r", request_hash=HASH, idempotency_key="k")]))
    lab.handle(Submit("two", TENANT, [task("b")]))
    batch = lab.seal()
    bad = batch.changes.instance_inserts[0][1]
    lab.engine.drop_refused(batch, "instance_inserts", (TENANT, bad), "request_id is taken")
    lab.commit(batch)
    outcomes = [value[0] for _, value in batch.answers]
    assert outcomes[0].reason == "NOT_STORABLE"
    assert isinstance(outcomes[1], Accepted)
    assert bad not in lab.tables.instances
    assert bad not in worker.held
    assert list(worker.held) == [outcomes[1].id]
    lab.settle()
    lab.wait(4_000)
    assert lab.engine.cluster.live_count() == 1
    again = lab.submit(task(request_id="r", request_hash=OTHER, idempotency_key="k"))[0]
    assert isinstance(again, Accepted), "the refused submission left something behind"


def test_a_refused_insert_gives_its_credit_back() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    lab.handle(Submit("one", TENANT, [task()]))
    batch = lab.seal()
    bad = batch.changes.instance_inserts[0][1]
    lab.engine.drop_refused(batch, "instance_inserts", (TENANT, bad), "no")
    lab.commit(batch)
    lab.settle()
    id = lab.add()
    assert id in worker.held


def test_a_refused_insert_of_a_waiting_task_leaves_its_queue() -> None:
    lab = Lab()
    lab.handle(Submit("one", TENANT, [task()]))
    batch = lab.seal()
    bad = batch.changes.instance_inserts[0][1]
    lab.engine.drop_refused(batch, "instance_inserts", (TENANT, bad), "no")
    lab.commit(batch)
    assert lab.engine.cluster.waiting_count() == 0
    assert lab.engine.cluster.live_count() == 0


def test_a_step_that_the_database_refuses_fails_and_its_run_ends() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {"params": {"x": "1"}}), ("b", ["a"], {})])
    lab.handle(StartRuns("run", TENANT, [NewRun("wf", 1)]))
    batch = lab.seal()
    bad = batch.changes.instance_inserts[0][1]
    lab.engine.drop_refused(batch, "instance_inserts", (TENANT, bad), "string too long")
    lab.commit(batch)
    lab.settle()
    run = batch.answers[0][1][0].id
    assert lab.steps(run) == {"a": S.FAILED, "b": S.SKIPPED}
    assert "string too long" in lab.get(bad).error_message
    assert lab.run_state(run).name == "FAILED"


def test_why_a_step_was_skipped_outlives_a_refusal() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", ["a"], {}), ("c", ["b"], {"rule": "one_failed"})])
    worker = lab.worker()
    run = lab.start_run("wf")
    [step] = worker.held
    worker.finish(step, S.FAILED, error_kind="NON_RETRYABLE")
    batch = lab.seal()
    skipped = dict(zip(INSTANCE_COLUMNS, batch.changes.instance_inserts[0], strict=True))
    assert (skipped["step_id"], skipped["error_kind"]) == ("b", "UPSTREAM_FAILED")
    for _ in range(2):
        lab.engine.drop_refused(batch, "instance_inserts", (TENANT, skipped["id"]), "no")
    lab.commit(batch)
    again = lab.seal()
    assert [row[1] for row in again.changes.instance_inserts] == [skipped["id"]]
    lab.commit(again)
    lab.settle()
    assert (lab.get(skipped["id"]).state, lab.get(skipped["id"]).error_kind) == (S.SKIPPED, "UPSTREAM_FAILED")
    before = lab.steps(run)
    lab.recover()
    lab.settle()
    assert lab.steps(run) == before, "who recovers sees the same run"


def test_a_step_that_is_refused_without_its_text_too_is_left_out() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {"params": {"x": "1"}})])
    lab.handle(StartRuns("run", TENANT, [NewRun("wf", 1)]))
    for _ in range(2):
        batch = lab.seal()
        [row] = batch.changes.instance_inserts
        lab.engine.drop_refused(batch, "instance_inserts", (TENANT, row[1]), "id is taken")
        lab.commit(batch)
    lab.settle()
    assert lab.tables.instances == {}
    assert lab.engine.cluster.live_count() == 0


def test_a_refused_run_refuses_only_its_caller_and_leaves_nothing_behind() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", [], {"queued_ms": 1_000}), ("c", ["b"], {"rule": "all_done"})])
    worker = lab.worker(slots=1)
    runs = [NewRun("wf", 1, request_id="r", request_hash=HASH, idempotency_key="k"), NewRun("wf", 1)]
    lab.handle(StartRuns("runs", TENANT, runs))
    batch = lab.seal()
    bad, good = (row[1] for row in batch.changes.run_inserts)
    lab.handle(StartRuns("repeat", TENANT, runs[:1]))
    lab.now += 1_000  # the commit takes so long that `b` times out, and `c` is made in the next batch
    lab.engine.tick(lab.now)
    lab.engine.drop_refused(batch, "run_inserts", (TENANT, bad), "inputs are too long")
    lab.commit(batch)
    lab.settle()
    first, second = batch.answers[0][1]
    assert (first.reason, first.message) == ("NOT_STORABLE", "the database did not take the run: inputs are too long")
    assert second == Accepted(good)
    assert lab.answers[id("repeat")][0].reason == "NOT_STORABLE"
    assert list(lab.tables.runs) == [good]
    assert {values["run_id"] for values in lab.tables.instances.values()} == {good}
    assert len(worker.held) == 1, "the slot of the refused run's step is free again"
    assert lab.steps(good).keys() == {"a", "b", "c"}
    lab.cancel_run(good)
    for held in list(worker.held):
        worker.finish(held, S.CANCELLED)
    lab.settle()
    assert (lab.engine.cluster.waiting_count(), lab.engine.cluster.live_count()) == (0, 0)
    again = lab.ask(StartRuns(object(), TENANT, [NewRun("wf", 1, request_id="r", request_hash=OTHER)]))[0]
    assert isinstance(again, Accepted), "the refused start left something behind"


def test_a_refused_run_that_has_ended_already_is_refused_as_well() -> None:
    lab = Lab()
    lab.plan("empty", [])
    lab.handle(StartRuns("run", TENANT, [NewRun("empty", 1)]))
    batch = lab.seal()
    (row,) = batch.changes.run_inserts
    lab.engine.drop_refused(batch, "run_inserts", (TENANT, row[1]), "no")
    assert batch.answers[0][1][0].reason == "NOT_STORABLE"
    assert (batch.changes.run_inserts, batch.touched_runs) == ([], [])
    assert lab.engine.cluster.find_run(row[1]) is None


def test_a_result_that_the_database_refuses_ends_without_its_text() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id, S.SUCCESS, output_json='"x"', metadata_json='{"a": "b"}')
    batch = lab.seal()
    lab.engine.drop_refused(batch, "instance_updates", (TENANT, id), "incorrect string value \u2603")
    lab.commit(batch)
    assert lab.state(id) == S.FAILED
    assert lab.get(id).error_kind == "RESULT_NOT_STORABLE"
    assert lab.get(id).output_json == lab.get(id).metadata_json == ""
    assert lab.get(id).error_message.endswith("incorrect string value ?")
    shown = [row for instance, row in batch.touched if instance.id == id]
    assert shown == batch.changes.instance_updates, "watchers see what is committed"
    assert ("instance", int(S.SUCCESS), int(S.FAILED)) in lab.moves
    assert not worker.spool, "the worker need not tell it again: it would be refused again"


def test_any_other_refused_row_is_left_out() -> None:
    lab = Lab()
    lab.make_worker("w").register()
    lab.engine.cluster.batch.changes.request_inserts.append((TENANT, "r", "m", HASH, b"", 0))
    batch = lab.seal()
    lab.engine.drop_refused(batch, "request_inserts", (TENANT, "r"), "request_id is taken")
    assert batch.changes.request_inserts == []


# Changes that the database does not take.


def test_a_runs_output_that_the_database_refuses_is_left_out_and_the_run_ends() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {})], output={"all": "${steps.a.output}"})
    worker = lab.worker()
    run = lab.start_run("wf")
    [step] = worker.held
    worker.finish(step, output_json='"much"')
    batch = lab.seal()
    lab.engine.drop_refused(batch, "run_updates", (TENANT, run), "it takes 17 MB")
    lab.commit(batch)
    stored = lab.tables.runs[run]
    assert (stored["state"], stored["output_json"]) == (RunState.SUCCEEDED, "")
    assert stored["error_message"] == "the database did not take the run's output: it takes 17 MB"
    told = dict(zip(RUN_COLUMNS, batch.touched_runs[0], strict=True))
    assert (told["output_json"], told["error_message"]) == ("", stored["error_message"]), "watchers see what is stored"
    assert not lab.engine.cluster.runs


@pytest.mark.parametrize("kind", ["instance_updates", "run_updates"])
def test_what_is_refused_without_its_text_too_is_left_out_and_all_else_goes_on(kind: str) -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {})])
    worker = lab.worker()
    run = lab.start_run("wf")
    [step] = worker.held
    other = lab.add()
    worker.finish(step)
    worker.finish(other)
    batch = lab.seal()
    bad = step if kind == "instance_updates" else run
    for _ in range(2):  # somebody has deleted its row
        assert getattr(batch.changes, kind)
        lab.engine.drop_refused(batch, kind, (TENANT, bad), "there is no such row")
    assert bad not in [row[1] for row in getattr(batch.changes, kind)]
    assert bad not in [instance.id for instance, _ in batch.touched] + [row[1] for row in batch.touched_runs]
    lab.commit(batch)
    assert lab.get(other).state == S.SUCCESS
    assert not worker.held
    assert not worker.spool
    assert lab.engine.cluster.live_count() == 0


def test_a_cancel_whose_reason_is_refused_is_a_cancel() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {})])
    worker = lab.worker()
    run = lab.start_run("wf")
    lab.handle(CancelRun("cancel", run, "a reason that nobody can store"))
    batch = lab.seal()
    lab.engine.drop_refused(batch, "run_updates", (TENANT, run), "no")
    lab.commit(batch)
    assert (lab.tables.runs[run]["state"], lab.tables.runs[run]["cancel_reason"]) == (RunState.CANCELLING, "")
    [step] = worker.held
    worker.finish(step, S.CANCELLED)
    lab.settle()
    assert lab.run_state(run) == RunState.CANCELLED
