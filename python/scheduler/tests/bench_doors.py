"""Prints what one item costs at the scheduler's doors, in microseconds of processor time. A script, not a test.

python python/scheduler/tests/bench_doors.py
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

from store_rows import NOW, instance

from taskyard.v1 import tasks_pb2, workers_pb2, workflows_pb2
from taskyard_core.engine.effects import Ack, Assign, Outgoing
from taskyard_core.engine.events import Accepted
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import Instance, TaskState, instance_update_row
from taskyard_scheduler.egress.assignments import frame
from taskyard_scheduler.egress.instances import instance_snapshot
from taskyard_scheduler.egress.outcomes import submit_outcomes
from taskyard_scheduler.ingress.results import read_frame
from taskyard_scheduler.ingress.runs import read_runs
from taskyard_scheduler.ingress.tasks import read_tasks
from taskyard_scheduler.ingress.workflows import read_workflow

ITEMS = 500
ROUNDS = 40
TASK, TOKEN = "018f3b5e-7c1a-7abc-9def-0123456789ab", "0123456789abcdef012345"


def show(name: str, budget_us: float | None, once: Callable[[], object]) -> None:
    best = min(timeit.repeat(once, number=5, repeat=ROUNDS, timer=time.process_time))
    budget = "" if budget_us is None else f"   budget {budget_us:g}"
    print(f"{name:<48}{best / 5 / ITEMS * 1e6:7.2f} us{budget}")  # noqa: T201 - that is its purpose


def submissions(**given: Any) -> tasks_pb2.SubmitTasksRequest:
    request = tasks_pb2.SubmitTasksRequest()
    for number in range(ITEMS):
        request.tasks.add(request_id=f"{number:032x}", **given)
    return request


def ingress() -> None:
    definitions = {"d": tasks_pb2.TaskDefinition(name="d", task_type="x", params={"a": "1"})}
    for name, budget, request in (
        ("request id and type", 5, submissions(task_type="noop")),
        ("and one parameter", 5, submissions(task_type="noop", params={"n": "1"})),
        ("and a small input", 5, submissions(task_type="noop", input_json='{"n": 1}')),
        ("and a definition and a parameter", None, submissions(task_name="d", params={"n": "1"})),
    ):
        show(f"read_tasks: {name}", budget, lambda request=request: read_tasks(request, definitions))  # type: ignore[misc]
    flow = workflows_pb2.Workflow(name="w", steps=[workflows_pb2.WorkflowStep(id="a", task_type="x")])
    flow.inputs.add(name="text")
    flow.inputs.add(name="n", default_json="3")
    plan = read_workflow("default", flow, {})
    runs = workflows_pb2.StartRunsRequest()
    for number in range(ITEMS):
        runs.runs.add(request_id=f"{number:032x}", workflow="w", inputs_json='{"text":"hi"}')
    show("read_runs: an input and a default", 50, lambda: read_runs(runs, lambda name, version: plan, {}))
    for output in ("", '{"result": 12}'):
        told = workers_pb2.AssignTaskRequest()
        for number in range(ITEMS):
            told.results.add(task_id=TASK, attempt_token=TOKEN, status=2, output_json=output, duration_ms=number)
        show(f"read_frame: success with {output or 'nothing'}", 2.5, lambda told=told: read_frame("w", 1, told, None))  # type: ignore[misc]


def instances(**columns: Any) -> list[Instance]:
    given = {"params_json": "", "task_name": "", "attempt": 1, "token": TOKEN, **columns}
    return [instance_from_row(instance(**given)) for _ in range(ITEMS)]


def egress() -> None:
    plain = Outgoing("w", [Assign(each, TOKEN) for each in instances()])
    show("frame: a plain assignment", 3, lambda: frame(plain, 60_000, 10_000))
    fuller = Outgoing("w", [Assign(each, TOKEN) for each in instances(params_json='{"n":"1"}')])
    show("frame: an assignment with a parameter", None, lambda: frame(fuller, 60_000, 10_000))
    acks = Outgoing("w", acks=[Ack(TASK, TOKEN, 1)] * ITEMS)
    show("frame: an acknowledgement", None, lambda: frame(acks, 60_000, 10_000))
    ended = instances(state=TaskState.SUCCESS, worker_id="w", assigned_at=NOW, started_at=NOW, ended_at=NOW)
    pairs = [(each, instance_update_row(each)) for each in ended]
    show("instance_snapshot: an ended task", None, lambda: [instance_snapshot(each, row) for each, row in pairs])
    request, outcomes = submissions(task_type="noop"), [Accepted(TASK)] * ITEMS
    show("submit_outcomes: an accepted task", None, lambda: submit_outcomes(request, outcomes))


if __name__ == "__main__":
    ingress()
    egress()
