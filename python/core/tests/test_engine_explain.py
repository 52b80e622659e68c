"""Every waiting instance can say why: each code of the contract's WaitReason is shown here by a real situation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from enginekit import Lab, retrying, task

from taskyard_core.engine.events import Progress, Submit, When
from taskyard_core.engine.explain import asked
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.pauses import PauseScope
from taskyard_core.records import Policy, TaskState

Situation = Callable[[], tuple[Lab, str]]


def nobody_offers() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker("w", "other")
    return lab, lab.add("rare")


def nobody_matches() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker(labels={"zone": "a"})
    return lab, lab.add(selector="zone=b")


def all_unhealthy() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker().drop_stream()
    return lab, lab.add()


def all_busy() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker(slots=1)
    lab.add()
    return lab, lab.add()


def resources_short() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker(gpus=1)
    lab.add(gpus=1)
    return lab, lab.add(gpus=1)


def resources_never() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker(gpus=1)
    return lab, lab.add(gpus=2)


def behind_others() -> tuple[Lab, str]:
    lab, _ = all_busy()
    return lab, lab.add()


def in_a_pause() -> tuple[Lab, str]:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(3, 9_000))
    worker.finish(id, 3)
    lab.settle()
    return lab, id


def not_started() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    return lab, lab.add()


def running() -> tuple[Lab, str]:
    lab, id = not_started()
    lab.workers["w1"].start(id)
    lab.wait(1_500)
    return lab, id


def cancelling() -> tuple[Lab, str]:
    lab, id = running()
    lab.cancel(id)
    return lab, id


def unconfirmed() -> tuple[Lab, str]:
    lab, id = cancelling()
    worker = lab.workers["w1"]
    worker.frame(progress=[Progress(id, worker.held[id], cancel_unconfirmed=True)])
    return lab, id


def silent() -> tuple[Lab, str]:
    lab, id = running()
    lab.wait(31_000)
    return lab, id


def taken_over() -> tuple[Lab, str]:
    lab, id = running()
    lab.settle()
    lab.recover()
    return lab, id


def lease_pending() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    id = lab.add(exclusive=True)
    lab.wait(6_000)
    return lab, id


def not_due() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    return lab, lab.add(when=When(delay_ms=5_000))


def in_the_commit() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    lab.handle(Submit("reply", "default", [task()]))
    return lab, next(iter(lab.engine.cluster.new))


def held_back() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    lab.pause(PauseScope.TASK_TYPE, "noop", "the disk is being changed")
    return lab, lab.add()


def deferred() -> tuple[Lab, str]:
    lab, id = running()
    lab.workers["w1"].finish(id, TaskState.DEFERRED)
    lab.settle()
    return lab, id


def its_worker_is_away() -> tuple[Lab, str]:
    lab = Lab()
    lab.worker()
    return lab, lab.add(worker="w7")


@pytest.mark.parametrize(
    ("code", "situation"),
    [
        ("NO_WORKER_FOR_TYPE", nobody_offers),
        ("NO_WORKER_MATCHES", nobody_matches),
        ("WORKERS_UNHEALTHY", all_unhealthy),
        ("WORKERS_BUSY", all_busy),
        ("RESOURCES_SHORT", resources_short),
        ("RESOURCES_NEVER_FIT", resources_never),
        ("BEHIND_OTHERS", behind_others),
        ("NOT_DUE", not_due),
        ("RETRY_DELAY", in_a_pause),
        ("START_PENDING", not_started),
        ("RUNNING", running),
        ("CANCEL_PENDING", cancelling),
        ("CANCEL_UNCONFIRMED", unconfirmed),
        ("WORKER_SILENT", silent),
        ("TAKEOVER_GRACE", taken_over),
        ("LEASE_PENDING", lease_pending),
        ("COMMIT_PENDING", in_the_commit),
        ("PAUSED", held_back),
        ("DEFERRED", deferred),
        ("WORKER_AWAY", its_worker_is_away),
    ],
)
def test_each_code(code: str, situation: Situation) -> None:
    lab, id = situation()
    reasons = lab.engine.explain(id, lab.now)
    assert reasons
    assert code in [reason.code for reason in reasons]
    for reason in reasons:
        assert len(reason.message) > 20
        assert all(isinstance(value, str) for value in reason.variables.values())


def test_a_step_that_has_no_instance_names_what_it_waits_for() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("b", [], {}), ("c", ["a", "b"], {})])
    run = lab.start_run("wf")
    (reason,) = lab.engine.explain_step(run, "c", lab.now) or []
    assert (reason.code, reason.variables) == ("UPSTREAM_RUNNING", {"steps": "a,b"})
    assert "waits for 2 steps before it: a, b" in reason.message
    lab.worker()
    lab.cancel_run(run)
    assert lab.engine.explain_step("gone", "c", lab.now) is None


def test_a_step_of_a_run_being_cancelled() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("c", ["a"], {})])
    lab.worker()
    run = lab.start_run("wf")
    lab.cancel_run(run)
    (reason,) = lab.engine.explain_step(run, "c", lab.now) or []
    assert reason.code == "CANCEL_PENDING"


def test_the_words_hold_the_facts() -> None:
    lab, id = all_busy()
    busy = (lab.engine.explain(id, lab.now) or [])[0]
    assert busy.message == "1 matching worker takes no more now: 1 of 1 slots are in use"
    lab, id = in_a_pause()
    pause = (lab.engine.explain(id, lab.now) or [])[0]
    assert pause.message == "attempt 1 failed (HANDLER_ERROR); the next one is due in 9 s"
    lab, id = nobody_matches()
    assert "'zone=b'" in (lab.engine.explain(id, lab.now) or [])[0].message


def test_a_leader_reckons_nobodys_silence_from_before_it() -> None:
    lab, id = taken_over()
    worker = lab.engine.cluster.fleet.workers["w1"]
    assert not worker.heard
    lab.wait(31_000)
    (reason,) = [each for each in lab.engine.explain(id, lab.now) or [] if each.code == "WORKER_SILENT"]
    assert "has not reported in the 31 s of this leader" in reason.message
    lab, id = silent()
    (reason,) = [each for each in lab.engine.explain(id, lab.now) or [] if each.code == "WORKER_SILENT"]
    assert "was last heard of 32.5 s ago" in reason.message


def test_one_is_one_and_more_are_more() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {}), ("c", ["a"], {})])
    (reason,) = lab.engine.explain_step(lab.start_run("wf"), "c", lab.now) or []
    assert reason.message == "waits for 1 step before it: a"
    lab = Lab()
    workers = [lab.worker(id, slots=1) for id in ("w1", "w2")]
    ids = [lab.add() for _ in range(4)]
    busy, place = lab.engine.explain(ids[-1], lab.now) or []
    assert busy.message == "2 matching workers take no more now: 2 of 2 slots are in use"
    assert place.message == "2 tasks of its kind wait, and older or more urgent ones go first"
    for worker in workers:
        worker.drop_stream()
    assert (
        "2 workers would match, but none of them takes it now"
        in (lab.engine.explain(ids[-1], lab.now) or [])[0].message
    )


@pytest.mark.parametrize(
    ("policy", "amounts"),
    [
        (Policy(), ""),
        (Policy(cpu_millis=500), "0.5 cores"),
        (Policy(cpu_millis=1_000), "1 core"),
        (Policy(cpu_millis=1_000_000), "1000 cores"),
        (Policy(memory_mb=2_048), "2048 MiB"),
        (Policy(gpus=1), "1 GPU"),
        (Policy(gpus=2), "2 GPUs"),
        (Policy(cpu_millis=1, memory_mb=1, gpus=1), "0.001 cores, 1 MiB, 1 GPU"),
    ],
)
def test_resources_are_told_in_the_units_in_which_they_are_asked_for(policy: Policy, amounts: str) -> None:
    assert asked(policy) == amounts


def test_resources_that_are_short_are_told_as_data_too() -> None:
    lab, id = resources_short()
    (reason,) = lab.engine.explain(id, lab.now) or []
    assert reason.variables["asks"] in reason.message


def test_a_type_that_was_handed_back_is_said_to_be() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add("x")
    worker.finish(id, 12, error_kind="UNKNOWN_TASK_TYPE")
    lab.settle()
    (reason,) = lab.engine.explain(id, lab.now) or []
    assert "w1 (handed the type back as unknown)" in reason.message


def test_what_has_ended_or_is_not_in_memory_has_no_reasons() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.finish(id)
    lab.settle()
    assert lab.engine.explain(id, lab.now) is None


def test_what_waits_in_sql_only_can_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_LIMIT", 4)
    lab = Lab()
    ids = [lab.add() for _ in range(9)]
    assert lab.engine.explain(ids[-1], lab.now) is None
    stored = instance_from_row(lab.tables.row(ids[-1]))
    assert [reason.code for reason in lab.engine.explain_stored(stored, lab.now)] == ["NO_WORKER_FOR_TYPE"]


def test_explaining_changes_nothing() -> None:
    lab, id = behind_others()
    before = lab.tables.revision
    for _ in range(3):
        lab.engine.explain(id, lab.now)
    assert not lab.seal().changes.revision
    assert lab.tables.revision == before
