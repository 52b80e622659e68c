"""WorkflowService, what is said of a workflow over its versions: the set it belongs to, and that it is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.engine.events import Known, NewRun, Refused
from taskyard_core.engine.submit import recognise
from taskyard_core.records import drop_key
from taskyard_core.violations import cut
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
        which = f"""'workflow == "{name[:200]}" && state in [PENDING, RUNNING, CANCELLING]'"""
        raise FailedPrecondition(
            "IN_USE",
            f"workflow {name[:200]!r} cannot be deleted: {runs} not ended; wait "
            f"(`taskyard runs --filter {which}` lists them), or cancel them first: "
            f"`taskyard cancel --runs --filter {which}`",
            metadata={"name": name[:200], "runs": str(live)},
        )


def refuse_deleted(
    leader: Leader, tenant: str, runs: Sequence[NewRun | Refused], known: Known | None = None
) -> list[NewRun | Refused]:
    """Returns starts without those of deleted versions; a repeat of one that was made before is answered as before.

    Args:
        leader: The present term.
        tenant: Whose they are.
        runs: As they were read.
        known: What SQL knows of their request ids and keys; None where a repeat counts for nothing.
    """
    definitions, c = leader.definitions, leader.engine.cluster
    found: list[NewRun | Refused] = []
    for place, run in enumerate(runs):
        if isinstance(run, NewRun) and run.version <= definitions.head(tenant, run.workflow)[1]:
            if known is None or recognise(c, tenant, run, known) is None:
                found.append(_deleted(leader, tenant, run, place))
                continue
        found.append(run)
    return found


def _deleted(leader: Leader, tenant: str, run: NewRun, place: int) -> Refused:
    name, newest = cut(run.workflow), leader.definitions.newest(tenant, run.workflow)[0]
    if leader.definitions.is_deleted(tenant, run.workflow):
        said = f"workflow: there is no workflow {name}: it was deleted; apply it again, or name one that exists"
    else:
        said = f"version: workflow {name} has no version {run.version}: it was deleted; 0 means its newest, {newest}"
    return Refused("DEFINITION_NOT_FOUND", f"runs[{place}].{said}")


def put_head(leader: Leader, tenant: str, name: str, source: str, deleted_version: int) -> None:
    """Keeps what is said of a workflow in memory and has it written with the next commit."""
    row = (tenant, name, source, deleted_version, leader.clock.now())
    leader.definitions.put_head(row)
    upserts = leader.engine.cluster.batch.changes.workflow_head_upserts
    drop_key(upserts, (tenant, name))
    upserts.append(row)
