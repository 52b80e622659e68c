"""What has ended stays in memory while somebody reads its rows: nothing may take it for what still runs."""

from __future__ import annotations

from enginekit import Lab, retrying

from taskyard_core.records import TaskState


def test_a_worker_that_comes_back_with_what_has_ended_is_told_to_stop_though_that_is_pinned() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(1))
    worker.start(id)
    worker.drop_stream()
    lab.engine.cluster.pin(id)
    lab.wait(lab.limits.lease_ms + 1)
    assert lab.state(id) == TaskState.FAILED
    worker.hello()
    lab.settle()
    assert [(order.task_id, order.reason) for order in worker.cancels] == [(id, "fenced")]
    assert not worker.held
