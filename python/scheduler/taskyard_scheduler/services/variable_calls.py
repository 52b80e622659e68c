"""WorkflowService, the calls on variables: set, get, list, delete."""

from __future__ import annotations

from itertools import islice
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.records import drop_key
from taskyard_scheduler.filters import VARIABLE_FIELDS, matches, parse_filter
from taskyard_scheduler.ingress.variables import read_variable, variable_name_fault
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.paging import read_name_page
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_service.errors import FieldViolation, InvalidArgument, NotFound
from taskyard_service.identity import current_identity


class VariableCalls:
    """Calls on variables. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def SetVariable(self, request: pb.SetVariableRequest, context: Any) -> pb.SetVariableResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.SetVariableResponse)
        if first is not None:
            return first
        variable = read_variable(request.variable)
        now = leader.clock.now()
        variable.update_time.FromMilliseconds(now)
        leader.definitions.put_variable(tenant, variable)
        upserts = leader.engine.cluster.batch.changes.variable_upserts
        drop_key(upserts, (tenant, variable.name))
        upserts.append((tenant, variable.name, variable.SerializeToString(), now))
        answer = pb.SetVariableResponse(variable=variable)
        return await kept_answer(leader, tenant, request.request_id, request, answer)

    async def GetVariable(self, request: pb.GetVariableRequest, context: Any) -> pb.GetVariableResponse:
        leader = self._scheduler.leader()
        return pb.GetVariableResponse(variable=_find(leader, current_identity().tenant, request.name))

    async def ListVariables(self, request: pb.ListVariablesRequest, context: Any) -> pb.ListVariablesResponse:
        leader = self._scheduler.leader()
        page = read_name_page(request, "name", "variables")
        where = parse_filter(request.filter, VARIABLE_FIELDS)
        known = leader.definitions.variables(current_identity().tenant)
        beyond = (known[name] for name in sorted(known) if name > page.after)
        matching = (each for each in beyond if matches(where, _values(each)))
        found = list(islice(matching, page.size + 1))
        shown = found[: page.size]
        token = page.next_token(len(found), shown[-1].name if shown else "")
        return pb.ListVariablesResponse(variables=shown, next_page_token=token)

    async def DeleteVariable(self, request: pb.DeleteVariableRequest, context: Any) -> pb.DeleteVariableResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.DeleteVariableResponse)
        if first is not None:
            return first
        _find(leader, tenant, request.name)
        leader.definitions.drop_variable(tenant, request.name)
        changes = leader.engine.cluster.batch.changes
        key = (tenant, request.name)
        drop_key(changes.variable_upserts, key)  # deletes are written first
        drop_key(changes.variable_deletes, key)
        changes.variable_deletes.append(key)
        return await kept_answer(leader, tenant, request.request_id, request, pb.DeleteVariableResponse())


def _find(leader: Leader, tenant: str, name: str) -> pb.Variable:
    wrong = variable_name_fault(name)
    if wrong is not None:
        raise InvalidArgument([FieldViolation("name", wrong)])
    found = leader.definitions.variables(tenant).get(name)
    if found is None:
        raise NotFound("VARIABLE_NOT_FOUND", f"there is no variable {name!r}", metadata={"name": name})
    return found


def _values(variable: pb.Variable) -> dict[str, str | int | None]:
    return {"name": variable.name, "updated_at": variable.update_time.ToMilliseconds()}
