"""TaskService, the call that submits a task once for each worker that matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.events import Accepted, NewTask, Outcome, Refused, Submit
from taskyard_core.policy_codec import dump_policy
from taskyard_core.records import Row
from taskyard_scheduler.ingress.tasks import read_broadcast
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.repeats import first_answer, row_of
from taskyard_service.errors import FailedPrecondition, NotFound
from taskyard_service.identity import current_identity

WAIT_MS = 24 * 3_600_000
"""How long a copy without a queued timeout waits for its worker, which may never come back."""
SHOWN = 100


class BroadcastCalls:
    """BroadcastTask. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def BroadcastTask(self, request: pb.BroadcastTaskRequest, context: Any) -> pb.BroadcastTaskResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.BroadcastTaskResponse)
        if first is not None:
            return first
        task = read_broadcast(request, leader.definitions.tasks(tenant))
        if isinstance(task, Refused):
            raise NotFound(task.reason, task.message)
        workers, left_out = _audience(leader, tenant, task)
        leader.admit(len(workers))
        outcomes = await self._submit(leader, tenant, request, workers, task, left_out)
        self._scheduler.count_submissions(outcomes)
        return _answer(workers, outcomes, left_out)

    async def _submit(
        self,
        leader: Leader,
        tenant: str,
        request: pb.BroadcastTaskRequest,
        workers: Sequence[str],
        task: NewTask,
        left_out: Sequence[str],
    ) -> Sequence[Outcome]:
        def remember(outcomes: Sequence[Outcome]) -> Row | None:
            if any(isinstance(outcome, Refused) for outcome in outcomes):
                return None
            return row_of(leader, tenant, request.request_id, request, _answer(workers, outcomes, left_out))

        copies = [_copy(task, worker) for worker in workers]
        outcomes: Sequence[Outcome] = await leader.ask(Submit(leader.future(), tenant, copies, atomic=True), remember)
        refused = next((outcome for outcome in outcomes if isinstance(outcome, Refused)), None)
        if refused is not None:
            raise FailedPrecondition(refused.reason, refused.message)
        return outcomes


def _audience(leader: Leader, tenant: str, task: NewTask) -> tuple[list[str], list[str]]:
    """Returns the workers that get a copy, and those that match and get none.

    Raises:
        FailedPrecondition: No worker takes the task now.
    """
    workers, left_out, reason = leader.engine.audience(tenant, task, leader.clock.now())
    if workers:
        return workers, left_out
    why = reason.message if reason is not None else f"{', '.join(left_out[:5])} would match, but takes no tasks now"
    raise FailedPrecondition("NO_WORKER_MATCHES", f"no worker gets a copy: {why}")


def _copy(task: NewTask, worker_id: str) -> NewTask:
    policy = replace(task.policy, worker=worker_id, queued_ms=task.policy.queued_ms or WAIT_MS)
    return replace(task, policy=policy, policy_json=dump_policy(policy))


def _answer(workers: Sequence[str], outcomes: Sequence[Outcome], left_out: Sequence[str]) -> pb.BroadcastTaskResponse:
    answer = pb.BroadcastTaskResponse(left_out_worker_ids=left_out[:SHOWN])
    for worker_id, outcome in zip(workers, outcomes, strict=True):
        if isinstance(outcome, Accepted):
            answer.copies.add(worker_id=worker_id, task_id=outcome.id)
    return answer
