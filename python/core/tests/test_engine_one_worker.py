"""Tasks that one worker alone may run: they wait for it, however it comes, goes and changes."""

from __future__ import annotations

from enginekit import TENANT, Lab, task

from taskyard_core.records import TaskState

S = TaskState


def test_it_goes_to_its_worker_however_busy_that_is() -> None:
    lab = Lab()
    first = lab.worker("w1", slots=1)
    blocking = lab.add()
    lab.worker("w2")
    id = lab.add(worker="w1")
    assert (lab.state(id), lab.why(id)[0]) == (S.QUEUED, "WORKERS_BUSY")
    first.finish(blocking)
    lab.settle()
    assert id in first.held


def test_it_waits_for_a_worker_that_is_not_there_yet() -> None:
    lab = Lab()
    lab.worker("w1")
    id = lab.add(worker="w2")
    assert lab.why(id) == ["WORKER_AWAY"]
    assert id in lab.worker("w2").held, "it joins a class that there was already"


def test_it_waits_for_a_worker_that_is_away() -> None:
    lab = Lab()
    first = lab.worker("w1")
    lab.worker("w2")
    first.leave()
    lab.settle()
    id = lab.add(worker="w1")
    assert lab.why(id) == ["WORKER_AWAY"]
    lab.recover()
    assert lab.why(id) == ["WORKER_AWAY"]
    first.connect()
    lab.settle()
    assert id in first.held


def test_a_worker_that_offers_another_type_is_waited_for() -> None:
    lab = Lab()
    worker = lab.worker("w1", "other")
    id = lab.add(worker="w1")
    assert lab.why(id) == ["NO_WORKER_FOR_TYPE"]
    lab.worker("w2", "noop", "other")
    assert lab.why(id) == ["WORKER_AWAY"]
    worker.registration = lab.workers["w2"].registration
    worker.drop_stream()
    worker.connect()
    lab.settle()
    assert id in worker.held, "it moved to a class that there was already"


def test_the_audience_of_a_task_is_who_would_take_it() -> None:
    lab = Lab()
    for name, gpus in (("w1", 1), ("w2", 2), ("w3", 2)):
        lab.worker(name, gpus=gpus, slots=1)
    lab.worker("other tenant", tenant="another", gpus=9)
    lab.workers["w3"].drop_stream()
    lab.add()
    assert lab.engine.audience(TENANT, task(gpus=2), lab.now) == (["w2"], ["w3"], None)
    well, others, reason = lab.engine.audience(TENANT, task(gpus=5), lab.now)
    assert (well, others, reason and reason.code) == ([], [], "RESOURCES_NEVER_FIT")
    well, others, reason = lab.engine.audience(TENANT, task(selector="zone=x"), lab.now)
    assert (well, others, reason and reason.code) == ([], [], "NO_WORKER_MATCHES")
