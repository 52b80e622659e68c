"""WorkflowService, what is said of a workflow over its versions: the set it belongs to, and that it is deleted."""

from __future__ import annotations

from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.records import drop_key
from taskyard_scheduler.ingress.named import require_workflow
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_service.errors import FailedPrecondition, NotFound
from taskyard_service.identity import current_identity


class WorkflowDeletion:
    """DeleteWorkflow. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def DeleteWorkflow(self, request: pb.DeleteWorkflowRequest, context: Any) -> pb.DeleteWorkflowResponse:
        require_workflow(request.name)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.DeleteWorkflowResponse)
        if first is not None:
            return first
        version, _ = leader.definitions.newest(tenant, request.name)
        if not version or leader.definitions.is_deleted(tenant, request.name):
            raise no_workflow(request.name)
        _require_unused(leader, tenant, request.name)
        put_head(leader, tenant, request.name, leader.definitions.head(tenant, request.name)[0], version)
        answer = pb.DeleteWorkflowResponse(name=request.name, version=version)
        return await kept_answer(leader, tenant, request.request_id, request, answer)


def no_workflow(name: str, version: int = 0) -> NotFound:
    """Returns the error of a workflow that is not there."""
    what = f"version {version} of workflow" if version else "workflow"
    return NotFound("WORKFLOW_NOT_FOUND", f"there is no {what} {name[:200]!r}", metadata={"name": name[:200]})


def _require_unused(leader: Leader, tenant: str, name: str) -> None:
    """Refuses a workflow whose runs have not all ended: what would become of them is not for a deletion to decide."""
    live = sum(1 for run in leader.engine.cluster.runs.values() if run.workflow == name and run.tenant == tenant)
    if live:
        runs = "1 run of it has" if live == 1 else f"{live:,} runs of it have"
        raise FailedPrecondition(
            "IN_USE",
            f"workflow {name[:200]!r} cannot be deleted: {runs} not ended; wait, or cancel them first",
            metadata={"name": name[:200], "runs": str(live)},
        )


def put_head(leader: Leader, tenant: str, name: str, source: str, deleted_version: int) -> None:
    """Keeps what is said of a workflow in memory and has it written with the next commit."""
    row = (tenant, name, source, deleted_version, leader.clock.now())
    leader.definitions.put_head(row)
    upserts = leader.engine.cluster.batch.changes.workflow_head_upserts
    drop_key(upserts, (tenant, name))
    upserts.append(row)
