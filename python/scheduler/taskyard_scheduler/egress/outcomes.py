"""Outcomes of submissions and starts. Hot path: messages are made where they are to stay."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.engine.events import Accepted, Outcome, Refused


def submit_outcomes(
    request: tasks_pb2.SubmitTasksRequest, outcomes: Sequence[Outcome]
) -> tasks_pb2.SubmitTasksResponse:
    """Returns the answer to a submission."""
    response = tasks_pb2.SubmitTasksResponse()
    add = response.outcomes.add
    for item, outcome in zip(request.tasks, outcomes, strict=True):
        told = add()
        if item.request_id:
            told.request_id = item.request_id
        if isinstance(outcome, Accepted):
            told.task_id = outcome.id
            if outcome.repeated:
                told.repeated_request = True
        else:
            put_refusal(told.refusal, outcome)
    return response


def start_outcomes(
    request: workflows_pb2.StartRunsRequest, outcomes: Sequence[Outcome]
) -> workflows_pb2.StartRunsResponse:
    """Returns the answer to starts of runs."""
    response = workflows_pb2.StartRunsResponse()
    add = response.outcomes.add
    for item, outcome in zip(request.runs, outcomes, strict=True):
        told = add()
        if item.request_id:
            told.request_id = item.request_id
        if isinstance(outcome, Accepted):
            told.run_id = outcome.id
            if outcome.repeated:
                told.repeated_request = True
        else:
            put_refusal(told.refusal, outcome)
    return response


def put_refusal(target: tasks_pb2.Refusal, refused: Refused) -> None:
    """Says in a message why an item was refused."""
    target.reason = refused.reason
    target.message = refused.message
    for each in refused.violations:
        target.violations.add(field=each.field, description=each.description)
