"""Tasks and runs that are due later, and those that expire before they have started."""

from __future__ import annotations

import pytest
from enginekit import START_MS, Lab, retrying, task

from taskyard_core.engine.events import NewRun, Refused, When
from taskyard_core.records import RunState, TaskState

S = TaskState
HOUR = 3_600_000


def codes(lab: Lab, id: str) -> list[str]:
    return [reason.code for reason in lab.engine.explain(id, lab.now) or ()]


@pytest.mark.parametrize("when", [When(start_at=START_MS + 5_000), When(delay_ms=5_000)])
def test_a_task_is_queued_when_its_time_comes_and_not_before(when: When) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(when=when)
    lab.wait(4_999)
    assert lab.state(id) == S.PENDING
    assert codes(lab, id) == ["NOT_DUE"]
    lab.wait(1)
    assert lab.state(id) == S.ASSIGNED
    worker.start(id)
    worker.finish(id)
    lab.settle()
    assert lab.state(id) == S.SUCCESS
    assert lab.get(id).created_at == START_MS
    assert lab.get(id).queued_at == START_MS + 5_000


@pytest.mark.parametrize("when", [When(start_at=START_MS), When(start_at=1), When(delay_ms=0), When()])
def test_a_time_that_has_come_is_no_wait(when: When) -> None:
    lab = Lab()
    lab.worker()
    assert lab.state(lab.add(when=when)) == S.ASSIGNED


def test_the_place_in_the_queue_counts_from_the_time_that_it_is_due() -> None:
    lab = Lab()
    late = lab.add(when=When(delay_ms=5_000))
    lab.wait(1_000)
    early = lab.add()
    lab.wait(4_000)
    worker = lab.worker(slots=1)
    assert list(worker.held) == [early]
    assert lab.state(late) == S.QUEUED


def test_a_task_that_is_due_later_can_be_cancelled() -> None:
    lab = Lab()
    id = lab.add(when=When(delay_ms=5_000))
    assert lab.cancel(id) == S.CANCELLED
    lab.wait(10_000)
    assert lab.state(id) == S.CANCELLED


def test_a_new_leader_keeps_the_time_however_far_it_is() -> None:
    lab = Lab()
    id = lab.add(when=When(delay_ms=48 * HOUR))
    lab.recover()
    lab.wait(48 * HOUR - 1)
    assert lab.state(id) == S.PENDING
    lab.recover()
    lab.worker()
    lab.wait(1)
    assert lab.state(id) == S.ASSIGNED


def test_the_total_timeout_counts_the_wait_for_the_time() -> None:
    lab = Lab()
    id = lab.add(when=When(delay_ms=5_000), total_ms=3_000)
    lab.wait(3_000)
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "TOTAL_TIMEOUT")


@pytest.mark.parametrize("delay", [0, 500, 5_000])
def test_what_waits_when_it_expires_ends(delay: int) -> None:
    lab = Lab()
    id = lab.add(when=When(delay_ms=delay, expire_at=START_MS + 1_000))
    lab.wait(999)
    assert lab.state(id) in (S.QUEUED, S.PENDING)
    lab.wait(1)
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "EXPIRED")


def test_what_has_expired_goes_to_no_worker() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(when=When(expire_at=START_MS))
    assert not worker.received
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "EXPIRED")


def test_what_has_started_does_not_expire() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(when=When(expire_at=START_MS + 1_000), retry=retrying(2, 2_000))
    worker.start(id)
    lab.wait(1_500)
    assert lab.state(id) == S.RUNNING
    worker.finish(id, S.FAILED)
    lab.settle()
    assert lab.state(id) == S.PENDING
    lab.wait(2_000)
    assert lab.state(id) == S.ASSIGNED, "a retry is not bound by it"


def test_what_was_sent_and_never_started_expires() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(when=When(expire_at=START_MS + 1_000))
    assert lab.state(id) == S.ASSIGNED
    lab.wait(2_000)
    assert lab.state(id) == S.ASSIGNED, "it may be starting"
    worker.finish(id, 12)  # REJECTED
    lab.settle()
    assert (lab.state(id), lab.get(id).error_kind) == (S.TIMEOUT, "EXPIRED")


def test_a_new_leader_knows_the_expiry() -> None:
    lab = Lab()
    queued = lab.add(when=When(expire_at=START_MS + 1_000))
    pending = lab.add(when=When(delay_ms=5_000, expire_at=START_MS + 1_000))
    lab.recover()
    lab.wait(1_000)
    assert {lab.get(id).error_kind for id in (queued, pending)} == {"EXPIRED"}


def test_what_has_expired_cannot_be_retried() -> None:
    lab = Lab()
    id = lab.add(when=When(expire_at=START_MS + 1_000))
    lab.wait(1_000)
    assert lab.retry(id).reason == "EXPIRED"


def test_a_failed_task_is_retried_though_its_expiry_has_passed() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(when=When(expire_at=START_MS + 1_000), retry=retrying(1))
    worker.start(id)
    worker.finish(id, S.FAILED)
    lab.wait(2_000)
    assert lab.retry(id) == S.QUEUED
    lab.settle()
    assert lab.state(id) == S.ASSIGNED


def test_tasks_that_expire_wait_in_a_queue_that_is_in_memory_as_a_whole() -> None:
    lab = Lab()
    lab.add()
    lab.add(when=When(expire_at=START_MS + HOUR))
    assert sorted(queue.deadlines for queue in lab.engine.cluster.queues.values()) == [False, True]


# Runs.


def chain() -> Lab:
    lab = Lab()
    lab.plan("flow", [("a", (), {}), ("b", ("a",), {})])
    return lab


def run_state(lab: Lab, id: str) -> RunState:
    return RunState(lab.tables.runs[id]["state"])


def test_a_run_begins_when_its_time_comes() -> None:
    lab = chain()
    worker = lab.worker()
    id = lab.start_run("flow", when=When(delay_ms=5_000))
    assert run_state(lab, id) == RunState.PENDING
    reasons = lab.engine.explain_step(id, "a", lab.now) or []
    assert [reason.code for reason in reasons] == ["NOT_DUE"]
    lab.wait(4_999)
    assert not lab.tables.steps(id)
    lab.wait(1)
    assert run_state(lab, id) == RunState.RUNNING
    [step] = lab.tables.steps(id)
    worker.finish(step.id)
    lab.settle()
    [second] = [each for each in lab.tables.steps(id) if each.step_id == "b"]
    worker.finish(second.id)
    lab.settle()
    assert run_state(lab, id) == RunState.SUCCEEDED


def test_a_run_that_is_due_later_can_be_cancelled() -> None:
    lab = chain()
    id = lab.start_run("flow", when=When(delay_ms=5_000))
    assert lab.cancel_run(id) == RunState.CANCELLED
    lab.wait(10_000)
    assert run_state(lab, id) == RunState.CANCELLED
    assert lab.tables.runs[id]["steps_ended"] == 2
    assert not lab.tables.steps(id)
    assert not lab.engine.cluster.runs


def test_a_new_leader_begins_a_run_at_its_time() -> None:
    lab = chain()
    id = lab.start_run("flow", when=When(delay_ms=5_000))
    lab.recover()
    assert run_state(lab, id) == RunState.PENDING
    lab.wait(5_000)
    assert run_state(lab, id) == RunState.RUNNING
    assert len(lab.tables.steps(id)) == 1


def test_the_first_steps_of_a_run_expire_and_the_others_do_not() -> None:
    lab = chain()
    worker = lab.worker()
    id = lab.start_run("flow", when=When(expire_at=START_MS + 1_000))
    [first] = lab.tables.steps(id)
    worker.start(first.id)
    lab.wait(500)
    worker.drop_stream()
    late = lab.start_run("flow", when=When(expire_at=START_MS + 1_000))
    lab.wait(500)
    [step] = [each for each in lab.tables.steps(late) if each.step_id == "a"]
    assert (step.state, step.error_kind) == (S.TIMEOUT, "EXPIRED")
    assert run_state(lab, late) == RunState.FAILED
    worker.hello()
    worker.finish(first.id)
    lab.settle()
    [second] = [each for each in lab.tables.steps(id) if each.step_id == "b"]
    assert second.expire_at is None
    assert second.state == S.ASSIGNED


def test_the_time_that_a_run_stands_for_is_the_time_that_it_is_due() -> None:
    lab = Lab()
    lab.plan("flow", [("a", (), {"params": {"at": "${trigger.time}"}})])
    lab.start_run("flow", when=When(delay_ms=5_000))
    lab.wait(5_000)
    [step] = lab.tables.instances.values()
    assert "22:13:25" in step["params_json"]


def test_tags_go_from_a_run_to_its_steps() -> None:
    lab = chain()
    id = lab.start_run("flow", tags="\nnightly\n")
    assert [step.tags for step in lab.tables.steps(id)] == ["\nnightly\n"]
    assert lab.tables.runs[id]["tags"] == "\nnightly\n"


# Looking without doing.


def test_what_would_become_of_a_task_is_told_and_nothing_is_made() -> None:
    lab = Lab()

    def look(**parts: object) -> tuple[list[str], list[str]]:
        found = lab.engine.prospect("default", task(**parts), lab.now)  # type: ignore[arg-type]
        return [worker.id for worker in found.workers], [reason.code for reason in found.reasons]

    assert look() == ([], ["NO_WORKER_FOR_TYPE"])
    worker = lab.worker("w1", slots=1)
    assert look() == (["w1"], [])
    assert look(selector="zone=a") == ([], ["NO_WORKER_MATCHES"])
    assert look(gpus=1) == ([], ["RESOURCES_NEVER_FIT"])
    assert look(when=When(delay_ms=5)) == (["w1"], ["NOT_DUE"])
    lab.add()
    assert look() == (["w1"], ["WORKERS_BUSY", "BEHIND_OTHERS"])
    worker.drop_stream()
    assert look() == ([], ["WORKERS_UNHEALTHY"])
    assert len(lab.tables.instances) == 1


def test_what_would_become_of_a_run_shows_what_is_not_known_yet_as_it_was_written() -> None:
    lab = Lab()
    first = {"params": {"p": "${inputs.x} of ${run.attempt}"}}
    lab.plan("flow", [("a", (), first), ("b", ("a",), {"input": {"y": "${steps.a.output.y}"}})], inputs=[("x", None)])
    found = lab.engine.prospect_run("default", NewRun("flow", 1, inputs_json='{"x": 7}'), lab.now)
    assert not isinstance(found, Refused)
    row, steps = found
    assert row[1]
    assert steps[0].instance.params_json == '{"p": "7 of ${run.attempt}"}'
    assert steps[1].instance.input_json == '{"y": "${steps.a.output.y}"}'
    assert not lab.tables.runs
    assert not lab.engine.cluster.runs
    nothing = lab.engine.prospect_run("default", NewRun("flow", 1), lab.now)
    assert isinstance(nothing, Refused)
    assert nothing.message.startswith("steps.a.params.p: ${inputs.x}: ")
