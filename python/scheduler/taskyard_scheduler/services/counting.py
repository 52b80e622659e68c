"""The calls that count what a list would list, in all and by the values of a field."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.violations import InvalidInput, Violation, cut, suggestion
from taskyard_scheduler.filters import RUN_FIELDS, RUN_GROUPS, TASK_FIELDS, TASK_GROUPS, Fields, FieldSpec, parse_filter
from taskyard_scheduler.scheduler import Scheduler
from taskyard_service.identity import current_identity

GROUPS_LIMIT = 1_000
Request = tasks_pb2.CountTasksRequest | workflows_pb2.CountRunsRequest
Response = TypeVar("Response", tasks_pb2.CountTasksResponse, workflows_pb2.CountRunsResponse)


class TaskCounts:
    """CountTasks. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def CountTasks(self, request: tasks_pb2.CountTasksRequest, context: Any) -> tasks_pb2.CountTasksResponse:
        response = tasks_pb2.CountTasksResponse()
        return await _count(self._scheduler, "instance", request, (TASK_FIELDS, TASK_GROUPS), response)


class RunCounts:
    """CountRuns. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def CountRuns(self, request: workflows_pb2.CountRunsRequest, context: Any) -> workflows_pb2.CountRunsResponse:
        response = workflows_pb2.CountRunsResponse()
        return await _count(self._scheduler, "run", request, (RUN_FIELDS, RUN_GROUPS), response)


async def _count(
    scheduler: Scheduler,
    kind: Literal["instance", "run"],
    request: Request,
    known: tuple[Fields, Fields],
    response: Response,
) -> Response:
    """Counts into a response. `known`: the fields that a filter has, and those that are counted by."""
    tenant, store = current_identity().tenant, scheduler.leader().store
    fields, groups = known
    where = parse_filter(request.filter, fields)
    if not request.group_by:
        response.count = await store.count_records(kind, tenant, where)
        return response
    by = _group_field(request.group_by, groups)
    found = await store.count_groups(kind, tenant, where, by.column, GROUPS_LIMIT)
    for value, count in found.largest:
        response.groups.add(value=_word(by, value), count=count)
    response.count = found.count
    response.other = found.count - sum(count for _, count in found.largest)
    return response


def _group_field(name: str, groups: Fields) -> FieldSpec:
    """Returns the field that is counted by.

    Raises:
        InvalidInput: There is none of that name.
    """
    if name not in groups:
        hint = suggestion(name, groups)
        said = f"{cut(name)} is no field to count by; choose one of {', '.join(groups)}.{hint}"
        raise InvalidInput([Violation("group_by", said)])
    return groups[name]


def _word(field: FieldSpec, value: str | int) -> str:
    """Returns a value as a filter has it; an enum's number that a newer scheduler stored stays one."""
    return next((name for name, number in (field.names or {}).items() if number == value), str(value))
