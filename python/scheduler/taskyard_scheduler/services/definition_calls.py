"""TaskService, the calls on definitions: create, get, list, update, delete."""

from __future__ import annotations

from itertools import islice
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.names import check_name
from taskyard_core.records import drop_key
from taskyard_scheduler.egress.definitions import definition_values
from taskyard_scheduler.filters import DEFINITION_FIELDS, matches, parse_filter
from taskyard_scheduler.ingress.definitions import read_definition
from taskyard_scheduler.ingress.named import require_definition
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.paging import read_name_page
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_service.errors import AlreadyExists, FieldViolation, InvalidArgument, NotFound
from taskyard_service.identity import current_identity


class DefinitionCalls:
    """Calls on task definitions. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def CreateTaskDefinition(
        self, request: pb.CreateTaskDefinitionRequest, context: Any
    ) -> pb.CreateTaskDefinitionResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.CreateTaskDefinitionResponse)
        if first is not None:
            return first
        definition = read_definition(request.definition)
        if definition.name in leader.definitions.tasks(tenant):
            raise AlreadyExists(
                "DEFINITION_EXISTS", f"there is a task definition {definition.name!r} already: update it instead"
            )
        definition.number = leader.definitions.last_number + 1
        _stamp(definition.create_time, leader)
        answer = pb.CreateTaskDefinitionResponse(definition=_put(leader, tenant, definition))
        return await kept_answer(leader, tenant, request.request_id, request, answer)

    async def UpdateTaskDefinition(
        self, request: pb.UpdateTaskDefinitionRequest, context: Any
    ) -> pb.UpdateTaskDefinitionResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.UpdateTaskDefinitionResponse)
        if first is not None:
            return first
        definition = read_definition(request.definition)
        known = _find(leader, tenant, definition.name)
        definition.number = known.number
        definition.create_time.CopyFrom(known.create_time)
        answer = pb.UpdateTaskDefinitionResponse(definition=_put(leader, tenant, definition))
        return await kept_answer(leader, tenant, request.request_id, request, answer)

    async def DeleteTaskDefinition(
        self, request: pb.DeleteTaskDefinitionRequest, context: Any
    ) -> pb.DeleteTaskDefinitionResponse:
        require_definition(request.name)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.DeleteTaskDefinitionResponse)
        if first is not None:
            return first
        _find(leader, tenant, request.name)
        leader.definitions.drop_task(tenant, request.name)
        changes = leader.engine.cluster.batch.changes
        key = (tenant, request.name)
        drop_key(changes.task_definition_upserts, key)  # deletes are written first
        drop_key(changes.task_definition_deletes, key)
        changes.task_definition_deletes.append(key)
        return await kept_answer(leader, tenant, request.request_id, request, pb.DeleteTaskDefinitionResponse())

    async def GetTaskDefinition(
        self, request: pb.GetTaskDefinitionRequest, context: Any
    ) -> pb.GetTaskDefinitionResponse:
        require_definition(request.name)
        leader = self._scheduler.leader()
        return pb.GetTaskDefinitionResponse(definition=_find(leader, current_identity().tenant, request.name))

    async def ListTaskDefinitions(
        self, request: pb.ListTaskDefinitionsRequest, context: Any
    ) -> pb.ListTaskDefinitionsResponse:
        leader = self._scheduler.leader()
        page = read_name_page(request, "name", "definitions")
        where = parse_filter(request.filter, DEFINITION_FIELDS)
        known = leader.definitions.tasks(current_identity().tenant)
        beyond = (known[name] for name in sorted(known) if name > page.after)
        matching = (each for each in beyond if matches(where, definition_values(each)))
        found = list(islice(matching, page.size + 1))
        shown = found[: page.size]
        token = page.next_token(len(found), shown[-1].name if shown else "")
        return pb.ListTaskDefinitionsResponse(definitions=shown, next_page_token=token)


def _find(leader: Leader, tenant: str, name: str) -> pb.TaskDefinition:
    wrong = check_name(name)
    if wrong is not None:
        raise InvalidArgument([FieldViolation("name", wrong)])
    found = leader.definitions.tasks(tenant).get(name)
    if found is None:
        raise NotFound("DEFINITION_NOT_FOUND", f"there is no task definition {name!r}", metadata={"name": name})
    return found


def _stamp(time: Timestamp, leader: Leader) -> None:
    time.FromMilliseconds(leader.clock.now())


def _put(leader: Leader, tenant: str, definition: pb.TaskDefinition) -> pb.TaskDefinition:
    """Keeps a definition in memory and has it written with the next commit."""
    _stamp(definition.update_time, leader)
    leader.definitions.put_task(tenant, definition)
    created = definition.create_time.ToMilliseconds()
    row = (
        tenant, definition.name, definition.number, definition.SerializeToString(), created, leader.clock.now(),
    )  # fmt: skip
    upserts = leader.engine.cluster.batch.changes.task_definition_upserts
    drop_key(upserts, row[:2])
    upserts.append(row)
    return definition
