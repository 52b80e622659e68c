"""WorkflowService: workflows are stored, runs are started, looked at and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1 import workflows_pb2_grpc
from taskyard_core.engine.events import StartRuns
from taskyard_core.records import RUN_COLUMNS, Row
from taskyard_scheduler.egress.outcomes import start_outcomes
from taskyard_scheduler.egress.pauses import pause_message
from taskyard_scheduler.egress.runs import run_from_row, step_from_instance, steps_of
from taskyard_scheduler.filters import RUN_FIELDS, WORKFLOW_FIELDS, parse_filter
from taskyard_scheduler.ingress.merging import merge_definitions
from taskyard_scheduler.ingress.named import require_run, require_workflow
from taskyard_scheduler.ingress.runs import read_runs
from taskyard_scheduler.ingress.workflows import content_hash, read_source, read_workflow
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.bulk_calls import BulkRunCalls
from taskyard_scheduler.services.checks import check_runs
from taskyard_scheduler.services.counting import RunCounts
from taskyard_scheduler.services.known import look_up
from taskyard_scheduler.services.lookups import no_run, stored_run
from taskyard_scheduler.services.paging import read_name_page, read_time_page
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_scheduler.services.run_hand_calls import RunHandCalls
from taskyard_scheduler.services.variable_calls import VariableCalls
from taskyard_scheduler.services.workflow_heads import WorkflowDeletion, no_workflow, put_head, refuse_deleted
from taskyard_service.errors import NotFound, Unavailable
from taskyard_service.identity import current_identity

REASON_LIMIT = 1_000
LARGE_STEPS = 500
"""A workflow of more steps is checked beside the event loop: 100,000 of them take seconds."""
_ENDED_AT = RUN_COLUMNS.index("ended_at")
_REVISION = RUN_COLUMNS.index("revision")
_WORKFLOW = RUN_COLUMNS.index("workflow")
_VERSION = RUN_COLUMNS.index("version")


class WorkflowService(
    VariableCalls, RunHandCalls, BulkRunCalls, RunCounts, WorkflowDeletion, workflows_pb2_grpc.WorkflowServiceServicer
):
    """Calls of clients on workflows, runs and variables. The interceptors have checked token and role."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def ApplyWorkflow(self, request: pb.ApplyWorkflowRequest, context: Any) -> pb.ApplyWorkflowResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        if not request.validate_only:
            first = await first_answer(leader, tenant, request.request_id, request, pb.ApplyWorkflowResponse)
            if first is not None:
                return first
        definitions = leader.definitions.tasks(tenant)
        if len(request.workflow.steps) > LARGE_STEPS:
            plan = await asyncio.to_thread(read_workflow, tenant, request.workflow, definitions)
        else:
            plan = read_workflow(tenant, request.workflow, definitions)
        source = read_source(request) or leader.definitions.head(tenant, request.workflow.name)[0]
        workflow = merge_definitions(request.workflow, definitions)
        workflow.ClearField("source")
        digest = content_hash(workflow)
        version, known = leader.definitions.newest(tenant, workflow.name)
        deleted = leader.definitions.is_deleted(tenant, workflow.name)
        if known == digest and version and not deleted:
            return await _unchanged(leader, tenant, request, version, source)
        workflow.version = version + 1  # nothing is awaited until it is taken: two calls must not make the same one
        if request.validate_only:
            workflow.ClearField("create_time")
            workflow.source = source
            return pb.ApplyWorkflowResponse(workflow=workflow, changed=True)
        workflow.create_time.FromMilliseconds(leader.clock.now())
        row = (
            tenant, workflow.name, workflow.version, workflow.SerializeToString(), digest, leader.clock.now(),
        )  # fmt: skip
        leader.definitions.take_workflow(row, replace(plan, version=workflow.version))
        leader.engine.cluster.batch.changes.workflow_inserts.append(row)
        _put_source(leader, tenant, workflow.name, source)
        workflow.source = source
        answer = pb.ApplyWorkflowResponse(workflow=workflow, changed=True)
        return await kept_answer(leader, tenant, request.request_id, request, answer)

    async def GetWorkflow(self, request: pb.GetWorkflowRequest, context: Any) -> pb.GetWorkflowResponse:
        require_workflow(request.name)
        leader = self._scheduler.leader()
        tenant = current_identity().tenant
        row = await leader.store.get_workflow(tenant, request.name, request.version)
        if row is None or (not request.version and leader.definitions.is_deleted(tenant, request.name)):
            raise no_workflow(request.name, request.version)
        return pb.GetWorkflowResponse(workflow=_stored(leader, row))

    async def ListWorkflows(self, request: pb.ListWorkflowsRequest, context: Any) -> pb.ListWorkflowsResponse:
        leader = self._scheduler.leader()
        page = read_name_page(request, "name", "workflows")
        where = parse_filter(request.filter, WORKFLOW_FIELDS)
        rows = await leader.store.list_workflows(current_identity().tenant, where, page.after, page.size + 1)
        found = [_stored(leader, row) for row in rows[: page.size]]
        for workflow in found:
            del workflow.steps[:]
        token = page.next_token(len(rows), found[-1].name if found else "")
        return pb.ListWorkflowsResponse(workflows=found, next_page_token=token)

    async def StartRuns(self, request: pb.StartRunsRequest, context: Any) -> pb.StartRunsResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        await leader.make_way()
        for run in request.runs:
            if run.version:
                await leader.definitions.fetch(tenant, run.workflow, run.version)
        variables = leader.definitions.variables(tenant)
        runs = read_runs(request, lambda name, version: leader.definitions.find(tenant, name, version), variables)
        if request.validate_only:
            return check_runs(leader, tenant, request, refuse_deleted(leader, tenant, runs))
        leader.admit(len(runs))
        known = await look_up(leader, "run", tenant, runs)
        runs = refuse_deleted(leader, tenant, runs, known)  # and nothing is awaited until it is taken in
        outcomes = await leader.ask(StartRuns(leader.future(), tenant, runs, known, request.atomic))
        self._scheduler.count_submissions(outcomes)
        return start_outcomes(request, outcomes)

    async def GetRun(self, request: pb.GetRunRequest, context: Any) -> pb.GetRunResponse:
        require_run(request.run_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        row = await stored_run(leader, tenant, request.run_id)
        return pb.GetRunResponse(run=_run(leader, row), steps=await _steps(leader, tenant, row))

    async def ListRuns(self, request: pb.ListRunsRequest, context: Any) -> pb.ListRunsResponse:
        leader = self._scheduler.leader()
        page = read_time_page(request, "runs")
        where = parse_filter(request.filter, RUN_FIELDS)
        rows = await leader.store.list_runs(
            current_identity().tenant, where, page.after, page.size + 1, newest_first=page.newest_first
        )
        runs = [_run(leader, row) for row in rows[: page.size]]
        return pb.ListRunsResponse(runs=runs, next_page_token=page.next_token(rows, RUN_COLUMNS))

    async def WatchRun(self, request: pb.WatchRunRequest, context: Any) -> AsyncIterator[pb.WatchRunResponse]:
        require_run(request.run_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        watch = leader.watches.open([request.run_id])
        try:
            row = await stored_run(leader, tenant, request.run_id)
            after = request.after_revision
            steps = await _steps(leader, tenant, row, after or -1)
            plan = await leader.definitions.fetch(tenant, row[_WORKFLOW], row[_VERSION])
            yield pb.WatchRunResponse(run=_run(leader, row), steps=steps, revision=max(row[_REVISION], after))
            while row[_ENDED_AT] is None:
                await watch.wait()
                changed, runs = watch.take()
                parts = [step_from_instance(instance, changed_row, plan) for instance, changed_row in changed]
                if runs and runs[0][_REVISION] >= row[_REVISION]:
                    row = runs[0]
                if parts or runs:
                    yield pb.WatchRunResponse(run=_run(leader, row), steps=parts, revision=max(watch.revision, after))
                if watch.ended is not None and row[_ENDED_AT] is None:
                    raise Unavailable(watch.ended, "this scheduler does not lead any more: resume the watch")
        finally:
            leader.watches.close(watch)


async def _unchanged(
    leader: Leader, tenant: str, request: pb.ApplyWorkflowRequest, version: int, source: str
) -> pb.ApplyWorkflowResponse:
    """Answers with a version that is known; one that another call has just made is committed first, as is its set."""
    name = request.workflow.name
    put = not request.validate_only and _put_source(leader, tenant, name, source)
    if put:
        await leader.committed()
    row = await leader.store.get_workflow(tenant, name, version)
    if row is None:
        await leader.committed()
        row = await leader.store.get_workflow(tenant, name, version)
    if row is None:
        raise NotFound(
            "WORKFLOW_NOT_FOUND", f"version {version} of workflow {name[:200]!r} could not be stored: try again"
        )
    workflow = pb.Workflow.FromString(row[3])
    workflow.source = source
    return pb.ApplyWorkflowResponse(workflow=workflow, changed=False)


def _stored(leader: Leader, row: Row) -> pb.Workflow:
    """Returns a version as clients see it."""
    workflow = pb.Workflow.FromString(row[3])
    workflow.source, _ = leader.definitions.head(row[0], row[1])
    return workflow


def _put_source(leader: Leader, tenant: str, name: str, source: str) -> bool:
    """Puts a workflow into a set, unless it is in it; tells whether there is something to commit."""
    present, deleted_version = leader.definitions.head(tenant, name)
    if source != present:
        put_head(leader, tenant, name, source, deleted_version)
    return source != present


def _run(leader: Leader, row: Row) -> pb.Run:
    """Returns a run as committed; how far a live one has come is counted in memory."""
    run = run_from_row(row)
    live = leader.engine.cluster.runs.get(run.run_id)
    if live is not None and row[_ENDED_AT] is None:
        run.steps_ended = live.steps_ended
        pause = leader.engine.cluster.pauses.of_run(live.tenant, live.workflow, live.id)
        if pause is not None:
            run.pause.CopyFrom(pause_message(pause))
    return run


async def _steps(leader: Leader, tenant: str, row: Row, after: int = -1) -> list[pb.RunStep]:
    plan = await leader.definitions.fetch(tenant, row[_WORKFLOW], row[_VERSION])
    if plan is None:
        raise no_run(row[1])
    return list(steps_of(row, plan, await leader.store.run_instances(tenant, row[1]), after=after))
