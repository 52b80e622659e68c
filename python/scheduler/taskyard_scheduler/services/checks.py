"""Answers of calls that only ask what would become of tasks and runs: nothing is made, nothing is committed."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.engine.events import NewRun, NewTask, Refused
from taskyard_core.engine.explain import Prospect
from taskyard_core.records import instance_row
from taskyard_scheduler.egress.explain import wait_reasons
from taskyard_scheduler.egress.instances import instance_from_row
from taskyard_scheduler.egress.outcomes import put_refusal
from taskyard_scheduler.egress.runs import run_from_row
from taskyard_scheduler.leader import Leader

WORKERS_SHOWN = 100


def check_tasks(
    leader: Leader, tenant: str, request: tasks_pb2.SubmitTasksRequest, tasks: Sequence[NewTask | Refused]
) -> tasks_pb2.SubmitTasksResponse:
    """Returns for each task what would become of it, or why it would be refused."""
    response = tasks_pb2.SubmitTasksResponse()
    for item, task in zip(request.tasks, tasks, strict=True):
        outcome = response.outcomes.add(request_id=item.request_id)
        if isinstance(task, Refused):
            put_refusal(outcome.refusal, task)
        else:
            _put(outcome.check, leader.engine.prospect(tenant, task, leader.clock.now()))
    return response


def check_runs(
    leader: Leader, tenant: str, request: workflows_pb2.StartRunsRequest, runs: Sequence[NewRun | Refused]
) -> workflows_pb2.StartRunsResponse:
    """Returns for each run what would become of it, or why it would be refused."""
    response = workflows_pb2.StartRunsResponse()
    for item, run in zip(request.runs, runs, strict=True):
        outcome = response.outcomes.add(request_id=item.request_id)
        if isinstance(run, Refused):
            put_refusal(outcome.refusal, run)
            continue
        found = leader.engine.prospect_run(tenant, run, leader.clock.now())
        if isinstance(found, Refused):
            put_refusal(outcome.refusal, found)
            continue
        row, steps = found
        check = outcome.check
        check.run.CopyFrom(run_from_row(row))
        check.run.ClearField("run_id")
        plan = leader.engine.cluster.workflows[tenant, run.workflow, run.version]
        for step, prospect in zip(plan.steps, steps, strict=True):
            _put(check.steps.add(step_id=step.id).check, prospect)
    return response


def _put(check: tasks_pb2.TaskCheck, found: Prospect) -> None:
    check.task.CopyFrom(instance_from_row(instance_row(found.instance)))
    check.task.ClearField("task_id")
    check.worker_ids.extend(worker.id for worker in found.workers[:WORKERS_SHOWN])
    check.reasons.extend(wait_reasons(found.reasons))
