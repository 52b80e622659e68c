"""Rows that are read, and deadlines that end, while things move on."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine.events import Cancel
from taskyard_core.records import TaskState

S = TaskState


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
