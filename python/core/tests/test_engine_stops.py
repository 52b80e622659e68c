"""An order to stop reaches the worker on the stream that it has, whatever its hello says of the attempt."""

from __future__ import annotations

from enginekit import Lab

from taskyard_core.engine.events import Hello


def test_an_exclusive_attempt_that_a_hello_does_not_list_is_told_to_stop_when_it_was_cancelled() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(exclusive=True)
    worker.drop_stream()
    lab.cancel(id)
    worker.stream = object()
    lab.handle(Hello(worker.id, worker.epoch, worker.stream, []))
    lab.settle()
    assert [(order.task_id, order.reason) for order in worker.cancels] == [(id, "cancelled")]
