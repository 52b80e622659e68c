"""Runs and their steps as clients see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.records import (
    CANCELLED,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    PENDING,
    RUN_COLUMNS,
    SKIPPED,
    Instance,
    Row,
    RunState,
)
from taskyard_core.tags import load_tags
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.egress.values import put_error, put_time

_RUN: Final = len(RUN_COLUMNS)
_STEP_ID: Final = INSTANCE_COLUMNS.index("step_id")
_REVISION: Final = INSTANCE_COLUMNS.index("revision")
_RUN_STATE: Final = RUN_COLUMNS.index("state")
_RUN_REVISION: Final = RUN_COLUMNS.index("revision")
_UNMADE: Final = {
    RunState.PENDING: PENDING,
    RunState.RUNNING: PENDING,
    RunState.CANCELLING: CANCELLED,
    RunState.CANCELLED: CANCELLED,
}


def run_from_row(row: Row) -> pb.Run:
    """Returns a run as its row (RUN_COLUMNS) says."""
    (
        _, id, workflow, version, inputs_json, _, _, _, _, created_at, start_at, expire_at, tags, variables_json,
        state, output_json, error_message, ended_at,
        steps_total, steps_ended, _, revision,
    ) = row[:_RUN]  # fmt: skip
    run = pb.Run(
        run_id=id,
        workflow=workflow,
        version=version,
        state=state,
        inputs_json=inputs_json,
        output_json=output_json,
        error_message=error_message,
        revision=revision,
        steps_total=steps_total,
        steps_ended=steps_ended,
        tags=load_tags(tags),
        variables_json=variables_json or "",
    )
    put_time(run.create_time, created_at)
    if start_at is not None and state == RunState.PENDING:
        put_time(run.schedule_time, start_at)
    if expire_at is not None:
        put_time(run.expire_time, expire_at)
    if ended_at is not None:
        put_time(run.end_time, ended_at)
    return run


def steps_of(
    run_row: Row, plan: WorkflowVersion, instance_rows: Iterable[Row], *, after: int = -1
) -> Iterator[pb.RunStep]:
    """Yields the steps of a run in the workflow's order.

    Args:
        run_row: RUN_COLUMNS.
        plan: The version that the run started with.
        instance_rows: INSTANCE_COLUMNS of the steps' instances, in no order.
        after: Only those that are newer than this revision. A step that has no instance changes with its run.
    """
    made = {row[_STEP_ID]: row for row in instance_rows}
    unmade = _UNMADE.get(run_row[_RUN_STATE], SKIPPED)
    for place, step in enumerate(plan.steps):
        row = made.get(step.id)
        if row is None:
            if run_row[_RUN_REVISION] > after:
                yield _unmade_step(plan, place, unmade)
        elif row[_REVISION] > after:
            yield step_from_row(row, plan)


def step_from_row(row: Row, plan: WorkflowVersion | None = None) -> pb.RunStep:
    """Returns the step that an instance was made for.

    Args:
        row: INSTANCE_COLUMNS.
        plan: The run's version of its workflow; without it the step's `needs` are left out.
    """
    value = dict(zip(INSTANCE_COLUMNS, row, strict=False))
    step = pb.RunStep(
        step_id=value["step_id"],
        task_id=value["id"],
        status=value["state"],
        task_type=value["task_type"],
        needs=_needs(plan, plan.graph.index.get(value["step_id"])) if plan is not None else (),
        worker_id=value["worker_id"],
        attempt=value["attempt"],
    )
    put_error(step, value["state"], value["error_kind"], value["error_message"])
    if value["started_at"] is not None:
        put_time(step.start_time, value["started_at"])
    if value["ended_at"] is not None:
        put_time(step.end_time, value["ended_at"])
    return step


def step_from_instance(instance: Instance, row: Row, plan: WorkflowVersion | None = None) -> pb.RunStep:
    """Returns the step that an instance was made for, as it was committed.

    Args:
        instance: The instance; only what never changes is taken from it.
        row: Its INSTANCE_UPDATE row of the commit, or its INSTANCE_COLUMNS row.
        plan: The run's version of its workflow; without it the step's `needs` are left out.
    """
    if len(row) >= len(INSTANCE_COLUMNS):
        return step_from_row(row, plan)
    value = dict(zip(INSTANCE_UPDATE, row, strict=True))
    whole = tuple(value[name] if name in value else getattr(instance, name) for name in INSTANCE_COLUMNS)
    return step_from_row(whole, plan)


def _unmade_step(plan: WorkflowVersion, place: int, status: int) -> pb.RunStep:
    step = plan.steps[place]
    return pb.RunStep(
        step_id=step.id,
        status=status,  # type: ignore[arg-type]  # the numbers are those of the enum
        task_type=step.task_type,
        needs=_needs(plan, place),
    )


def _needs(plan: WorkflowVersion, place: int | None) -> list[str]:
    return [] if place is None else [plan.graph.ids[above] for above in plan.graph.upstream[place]]
