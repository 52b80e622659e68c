"""What is held back by hand is sent to nobody, says so, and goes on at its old place."""

from __future__ import annotations

import pytest
from enginekit import TENANT, Lab, retrying

from taskyard_core import ready
from taskyard_core.pauses import PauseScope
from taskyard_core.records import RunState, TaskState

S = TaskState
P = PauseScope


def flow(lab: Lab, name: str = "flow") -> str:
    lab.plan(name, [("a", (), {}), ("b", ("a",), {})])
    return lab.start_run(name)


@pytest.mark.parametrize(("scope", "name"), [(P.QUEUE, "noop"), (P.TASK_TYPE, "noop"), (P.TENANT, ""), (P.ALL, "")])
@pytest.mark.parametrize("recovered", [False, True])
def test_what_is_held_back_waits_and_goes_on_in_order(scope: PauseScope, name: str, recovered: bool) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    running = lab.add()
    assert lab.pause(scope, name, "repairs").reason == "repairs"
    ids = [lab.add() for _ in range(3)]
    worker.finish(running)
    lab.settle()
    assert lab.state(running) == S.SUCCESS, "what runs ends"
    if recovered:
        lab.recover()
        worker.connect()
    assert worker.held == {}
    assert [lab.why(id)[0] for id in ids] == ["PAUSED"] * 3
    [reason] = lab.engine.explain(ids[0], lab.now) or []
    assert "paused by ann" in reason.message
    assert reason.message.endswith("ago: repairs")
    assert lab.resume(scope, name).reason == "repairs"
    order = []
    for _ in ids:
        [held] = worker.held
        order.append(held)
        worker.finish(held)
        lab.settle()
    assert order == ids
    assert lab.tables.pauses == {}


def test_only_what_is_meant_is_held_back() -> None:
    lab = Lab()
    lab.pause(P.TASK_TYPE, "other")
    lab.pause(P.QUEUE, "noop#1")
    lab.pause(P.TENANT, tenant="another")
    lab.pause(P.WORKFLOW, "other flow")
    worker = lab.worker()
    run = flow(lab)
    id = lab.add()
    assert set(worker.held) == {id, lab.step(run, "a")}


@pytest.mark.parametrize("scope", [P.WORKFLOW, P.RUN])
@pytest.mark.parametrize("recovered", [False, True])
def test_steps_wait_while_others_of_their_queue_go_on(scope: PauseScope, recovered: bool) -> None:
    lab = Lab()
    run = flow(lab)
    lab.pause(scope, "flow" if scope == P.WORKFLOW else run, "look at it first")
    other = lab.add()
    worker = lab.worker()
    assert set(worker.held) == {other}
    if recovered:
        lab.recover()
        worker.connect()
        lab.settle()
    assert lab.why(lab.step(run, "a")) == ["PAUSED"]
    assert [r.code for r in lab.engine.explain_step(run, "b", lab.now) or []] == ["UPSTREAM_RUNNING", "PAUSED"]
    [queue] = lab.engine.cluster.queues.values()
    assert (len(queue), queue.held_count) == (1, 1)
    lab.resume(scope, "flow" if scope == P.WORKFLOW else run)
    assert lab.step(run, "a") in worker.held
    assert (len(queue), queue.held_count) == (0, 0)


def test_pauses_add_up() -> None:
    lab = Lab()
    worker = lab.worker()
    run = flow(lab)
    worker.finish(lab.step(run, "a"))
    lab.pause(P.RUN, run)
    lab.pause(P.WORKFLOW, "flow")
    lab.pause(P.TASK_TYPE, "noop")
    lab.settle()
    reasons = lab.engine.explain(lab.step(run, "b"), lab.now) or []
    assert [reason.variables["scope"] for reason in reasons] == ["TASK_TYPE", "WORKFLOW", "RUN"], "each is told"
    for scope, name in ((P.TASK_TYPE, "noop"), (P.RUN, run)):
        lab.resume(scope, name)
        assert worker.held == {}
    lab.resume(P.WORKFLOW, "flow")
    assert list(worker.held) == [lab.step(run, "b")]


def test_the_pause_of_a_run_ends_with_it() -> None:
    lab = Lab()
    worker = lab.worker()
    run = flow(lab)
    lab.pause(P.RUN, run)
    assert len(lab.tables.pauses) == 1
    lab.cancel_run(run)
    worker.finish(lab.step(run, "a"), S.CANCELLED)
    lab.settle()
    assert lab.run_state(run) == RunState.CANCELLED
    assert lab.tables.pauses == {}
    assert lab.pause(P.RUN, run).reason == "NOT_FOUND"


def test_a_run_of_another_tenant_cannot_be_paused() -> None:
    lab = Lab()
    run = flow(lab)
    assert lab.pause(P.RUN, run, tenant="another").reason == "NOT_FOUND"
    assert lab.resume(P.RUN, run, tenant="another").reason == "NOT_PAUSED"


def test_a_second_pause_changes_the_reason_and_not_the_time() -> None:
    lab = Lab()
    first = lab.pause(P.TENANT, reason="one")
    lab.wait(5_000)
    second = lab.pause(P.TENANT, reason="two")
    assert (second.reason, second.created_at) == ("two", first.created_at)
    assert list(lab.tables.pauses.values()) == [second.row()]
    lab.resume(P.TENANT)
    assert lab.resume(P.TENANT).reason == "NOT_PAUSED"


def test_timeouts_of_what_is_held_back_go_on() -> None:
    lab = Lab()
    run_paused = flow(lab)
    lab.plan("quick", [("a", (), {"queued_ms": 5_000})])
    quick = lab.start_run("quick")
    lab.pause(P.WORKFLOW, "quick")
    lab.pause(P.TASK_TYPE, "b")
    queued = lab.add("b", queued_ms=4_000)
    lab.worker()
    lab.wait(6_000)
    assert lab.state(queued) == S.TIMEOUT
    assert lab.state(lab.step(quick, "a")) == S.TIMEOUT
    assert lab.run_state(run_paused) == RunState.RUNNING


def test_a_retry_of_what_is_held_back_waits() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(2, 1_000))
    lab.pause(P.TASK_TYPE, "noop")
    worker.finish(id, S.FAILED)
    lab.settle()
    lab.wait(2_000)
    assert (lab.state(id), lab.why(id)) == (S.QUEUED, ["PAUSED"])
    lab.resume(P.TASK_TYPE, "noop")
    assert id in worker.held


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("scope", [P.WORKFLOW, P.RUN])
@pytest.mark.parametrize("paused_first", [False, True])
def test_what_does_not_fit_into_memory_comes_back_from_sql(
    monkeypatch: pytest.MonkeyPatch, scope: PauseScope, paused_first: bool, cancelled: bool
) -> None:
    monkeypatch.setattr(ready, "HEAD_LIMIT", 4)
    lab = Lab()
    lab.plan("wide", [(f"s{n:02}", (), {}) for n in range(20)])
    if paused_first and scope == P.WORKFLOW:
        lab.pause(scope, "wide")
    run = lab.start_run("wide")
    name = "wide" if scope == P.WORKFLOW else run
    lab.pause(scope, name)
    worker = lab.worker(slots=50)
    other = lab.add()
    lab.settle()
    assert list(worker.held) == [other], "it is found behind all that is held back"
    [queue] = lab.engine.cluster.queues.values()
    assert len(queue.held) <= 4
    assert (queue.held_count, len(queue), lab.engine.cluster.live_count()) == (20, 20, 21)
    if cancelled:
        lab.cancel_run(run)
        assert lab.run_state(run) == RunState.CANCELLED
        assert set(lab.steps(run).values()) == {S.CANCELLED}
        return
    lab.resume(scope, name)
    assert len(worker.held) == 21
    assert queue.held_count == 0


def test_what_is_held_back_with_its_run_can_be_cancelled_and_given_another_place() -> None:
    lab = Lab()
    lab.plan("flow", [("a", (), {}), ("b", (), {})])
    run = lab.start_run("flow")
    lab.pause(P.RUN, run)
    worker = lab.worker(slots=1)
    first, second = lab.step(run, "a"), lab.step(run, "b")
    assert lab.prioritize(second, 1) == S.QUEUED
    assert lab.cancel(first) == S.CANCELLED
    lab.resume(P.RUN, run)
    assert list(worker.held) == [second]
    [queue] = lab.engine.cluster.queues.values()
    assert (len(queue), queue.held_count) == (0, 0)


def test_a_check_says_that_it_would_be_held_back() -> None:
    from enginekit import task

    lab = Lab()
    lab.worker()
    lab.pause(P.TENANT, reason="holiday")
    found = lab.engine.prospect(TENANT, task(), lab.now)
    assert [reason.code for reason in found.reasons] == ["PAUSED"]
    assert [worker.id for worker in found.workers] == ["w1"]
