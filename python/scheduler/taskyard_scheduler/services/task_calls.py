"""TaskService, the calls on instances: submit, get, list, cancel, retry, explain."""

from __future__ import annotations

from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.events import Refused, Submit
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import ENDED, INSTANCE_COLUMNS
from taskyard_scheduler.egress.explain import explain_ended, explain_live
from taskyard_scheduler.egress.instances import attempts_of, brief
from taskyard_scheduler.egress.instances import instance_from_row as task_from_row
from taskyard_scheduler.egress.outcomes import submit_outcomes
from taskyard_scheduler.filters import TASK_FIELDS, parse_filter
from taskyard_scheduler.ingress.named import require_definition, require_task
from taskyard_scheduler.ingress.tasks import read_tasks, read_trigger
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.checks import check_tasks
from taskyard_scheduler.services.known import look_up
from taskyard_scheduler.services.lookups import stored_instance
from taskyard_scheduler.services.paging import read_time_page
from taskyard_service.errors import FailedPrecondition, NotFound
from taskyard_service.identity import current_identity

REASON_LIMIT = 1_000


class TaskCalls:
    """Calls on instances. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def SubmitTasks(self, request: pb.SubmitTasksRequest, context: Any) -> pb.SubmitTasksResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        await leader.make_way()
        tasks = read_tasks(request, leader.definitions.tasks(tenant))
        if request.validate_only:
            return check_tasks(leader, tenant, request, tasks)
        leader.admit(len(tasks))
        known = await look_up(leader, "instance", tenant, tasks)
        outcomes = await leader.ask(Submit(leader.future(), tenant, tasks, known, request.atomic))
        self._scheduler.count_submissions(outcomes)
        return submit_outcomes(request, outcomes)

    async def TriggerTask(self, request: pb.TriggerTaskRequest, context: Any) -> pb.TriggerTaskResponse:
        require_definition(request.name)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        definition = leader.definitions.tasks(tenant).get(request.name)
        if definition is None:
            raise NotFound("DEFINITION_NOT_FOUND", f"there is no task definition {request.name[:200]!r}")
        leader.admit(1)
        task = read_trigger(request, definition)
        known = await look_up(leader, "instance", tenant, [task])
        (outcome,) = await leader.ask(Submit(leader.future(), tenant, [task], known))
        if isinstance(outcome, Refused):
            raise FailedPrecondition(outcome.reason, outcome.message)
        return pb.TriggerTaskResponse(task_id=outcome.id)

    async def GetTask(self, request: pb.GetTaskRequest, context: Any) -> pb.GetTaskResponse:
        require_task(request.task_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        row = await stored_instance(leader, tenant, request.task_id)
        earlier = await leader.store.get_attempts(tenant, request.task_id)
        live = leader.engine.cluster.instances.get(request.task_id)
        return pb.GetTaskResponse(task=task_from_row(row, live), attempts=attempts_of(row, earlier))

    async def ListTasks(self, request: pb.ListTasksRequest, context: Any) -> pb.ListTasksResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        page = read_time_page(request, "tasks")
        where = parse_filter(request.filter, TASK_FIELDS)
        rows = await leader.store.list_instances(
            tenant, where, page.after, page.size + 1, newest_first=page.newest_first
        )
        live = leader.engine.cluster.instances
        tasks = [brief(task_from_row(row, live.get(row[1]))) for row in rows[: page.size]]
        return pb.ListTasksResponse(tasks=tasks, next_page_token=page.next_token(rows, INSTANCE_COLUMNS))

    async def ExplainTask(self, request: pb.ExplainTaskRequest, context: Any) -> pb.ExplainTaskResponse:
        require_task(request.task_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        live = leader.engine.cluster.instances.get(request.task_id)
        if live is not None and live.tenant == tenant and live.phase != ENDED:
            reasons = leader.engine.explain(request.task_id, leader.clock.now()) or []
            return explain_live(live.state, reasons, live.policy)
        row = await stored_instance(leader, tenant, request.task_id)
        instance = instance_from_row(row)
        if instance.phase == ENDED:
            return explain_ended(row, instance.policy)
        reasons = leader.engine.explain_stored(instance, leader.clock.now())
        return explain_live(instance.state, reasons, instance.policy)
