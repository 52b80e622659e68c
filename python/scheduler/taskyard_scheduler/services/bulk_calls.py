"""The calls that act on all that match a filter, a page at a time. What is done with one is in `hand_calls`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.engine.events import Cancel, Mark, Prioritize, Refused, Requeue, Retry
from taskyard_core.records import INSTANCE_COLUMNS, RUN_COLUMNS, SKIPPED, SUCCESS, Row, RunState, TaskState
from taskyard_core.violations import InvalidInput, Violation
from taskyard_scheduler.egress.outcomes import put_refusal
from taskyard_scheduler.filters import RUN_FIELDS, TASK_FIELDS, parse_filter
from taskyard_scheduler.ingress.findings import outside
from taskyard_scheduler.ingress.pages import Page, read_page
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.hand_calls import REASON_LIMIT, Make, act_on
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_scheduler.services.run_hand_calls import cancel_run, retry_run
from taskyard_scheduler.store.port import Condition
from taskyard_service.errors import NotFound, ServiceError
from taskyard_service.identity import current_identity

TASKS_PAGE = 500
RUNS_PAGE = 100
_ID = INSTANCE_COLUMNS.index("id")
_STATE = INSTANCE_COLUMNS.index("state")
_RUN_ID = RUN_COLUMNS.index("id")
_RUN_STATE = RUN_COLUMNS.index("state")
_OVER = Refused("ALREADY_ENDED", "it was cancelled before: there is nothing to stop")
Outcome = TypeVar("Outcome")
Response = TypeVar("Response", bound=Message)


class BulkTaskCalls:
    """BulkTasks. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def BulkTasks(self, request: tasks_pb2.BulkTasksRequest, context: Any) -> tasks_pb2.BulkTasksResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        make = _task_action(request)
        where = _filter(request.filter, parse_filter(request.filter, TASK_FIELDS), 'task_id != ""')
        if request.validate_only:
            return tasks_pb2.BulkTasksResponse(matched=await leader.store.count_records("instance", tenant, where))
        page = _page(request.page_size, request.page_token, f"tasks\0{request.filter}\0{request.action}", TASKS_PAGE)
        first = await first_answer(leader, tenant, request.request_id, request, tasks_pb2.BulkTasksResponse)
        if first is not None:
            return first
        rows = await leader.store.list_instances(tenant, where, page.after, page.size + 1, newest_first=True)
        ids = [row[_ID] for row in rows[: page.size]]
        over = _stopped(request.action, rows, _STATE, TaskState.CANCELLED)

        async def act(id: str) -> TaskState | Refused:
            return _OVER if id in over else await act_on(leader, tenant, id, make(id))

        response = tasks_pb2.BulkTasksResponse(next_page_token=_next(page, rows, ids))
        for id, outcome in zip(ids, await _all(ids, act), strict=True):
            told = response.outcomes.add(task_id=id)
            if isinstance(outcome, Refused):
                put_refusal(told.refusal, outcome)
            else:
                told.status = tasks_pb2.TaskStatus.ValueType(outcome)
        return await _answer(leader, tenant, request, response)


class BulkRunCalls:
    """BulkRuns. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def BulkRuns(self, request: workflows_pb2.BulkRunsRequest, context: Any) -> workflows_pb2.BulkRunsResponse:
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        make = _run_action(request, leader, tenant)
        where = _filter(request.filter, parse_filter(request.filter, RUN_FIELDS), 'run_id != ""')
        if request.validate_only:
            return workflows_pb2.BulkRunsResponse(matched=await leader.store.count_records("run", tenant, where))
        page = _page(request.page_size, request.page_token, f"runs\0{request.filter}\0{request.action}", RUNS_PAGE)
        first = await first_answer(leader, tenant, request.request_id, request, workflows_pb2.BulkRunsResponse)
        if first is not None:
            return first
        rows = await leader.store.list_runs(tenant, where, page.after, page.size + 1, newest_first=True)
        ids = [row[_RUN_ID] for row in rows[: page.size]]
        over = _stopped(request.action, rows, _RUN_STATE, RunState.CANCELLED)

        async def act(id: str) -> int | Refused:
            return _OVER if id in over else await make(id)

        response = workflows_pb2.BulkRunsResponse(next_page_token=_next(page, rows, ids))
        for id, outcome in zip(ids, await _all(ids, act), strict=True):
            told = response.outcomes.add(run_id=id)
            if isinstance(outcome, Refused):
                put_refusal(told.refusal, outcome)
            else:
                told.state = workflows_pb2.RunState.ValueType(outcome)
        return await _answer(leader, tenant, request, response)


def _task_action(request: tasks_pb2.BulkTasksRequest) -> Callable[[str], Make]:
    """Returns what makes the event of an instance.

    Raises:
        InvalidInput: No action is given, or its priority is none.
    """
    action, reason = request.action, request.reason[:REASON_LIMIT]
    if action == tasks_pb2.BULK_ACTION_PRIORITIZE and (wrong := outside(request.priority, 1, 10)):
        raise InvalidInput([Violation("priority", wrong)])
    actions: dict[int, Callable[[str], Make]] = {
        tasks_pb2.BULK_ACTION_CANCEL: lambda id: lambda reply, row: Cancel(reply, id, reason, row),
        tasks_pb2.BULK_ACTION_TERMINATE: lambda id: lambda reply, row: Cancel(reply, id, reason, row, kill=True),
        tasks_pb2.BULK_ACTION_RETRY: lambda id: lambda reply, row: Retry(reply, id, row),
        tasks_pb2.BULK_ACTION_REQUEUE: lambda id: lambda reply, row: Requeue(reply, id, row),
        tasks_pb2.BULK_ACTION_PRIORITIZE: lambda id: lambda reply, row: Prioritize(reply, id, request.priority, row),
        tasks_pb2.BULK_ACTION_MARK_SUCCESS: lambda id: lambda reply, row: Mark(reply, id, SUCCESS, "", reason, row),
        tasks_pb2.BULK_ACTION_MARK_SKIPPED: lambda id: lambda reply, row: Mark(reply, id, SKIPPED, "", reason, row),
    }
    _check_action(action, actions.keys())
    return actions[action]


def _run_action(
    request: workflows_pb2.BulkRunsRequest, leader: Leader, tenant: str
) -> Callable[[str], Awaitable[int | Refused]]:
    """Returns what acts on a run.

    Raises:
        InvalidInput: No action that runs have is given.
    """

    async def stop(id: str) -> int | Refused:
        kill = request.action == tasks_pb2.BULK_ACTION_TERMINATE
        return await cancel_run(leader, tenant, id, request.reason, kill=kill)

    async def again(id: str) -> int | Refused:
        outcome = await retry_run(leader, tenant, id, ())
        return outcome if isinstance(outcome, Refused) else outcome[0]

    actions = {
        tasks_pb2.BULK_ACTION_CANCEL: stop,
        tasks_pb2.BULK_ACTION_TERMINATE: stop,
        tasks_pb2.BULK_ACTION_RETRY: again,
    }
    _check_action(request.action, actions.keys())
    return actions[request.action]


def _stopped(action: int, rows: Sequence[Row], state: int, cancelled: int) -> set[str]:
    """Returns the ids of what was cancelled before it was to be stopped: a person counts what they have done.

    The call for one answers such a repeat with its state, as if it had done it.
    """
    if action not in (tasks_pb2.BULK_ACTION_CANCEL, tasks_pb2.BULK_ACTION_TERMINATE):
        return set()
    return {row[_ID] for row in rows if row[state] == cancelled}


def _check_action(action: int, actions: Iterable[int]) -> None:
    if action not in actions:
        known = [tasks_pb2.BulkAction.Name(tasks_pb2.BulkAction.ValueType(each)) for each in actions]
        names = ", ".join(name.removeprefix("BULK_ACTION_") for name in known)
        said = "no action is given" if not action else f"{action} is no action of this call"
        raise InvalidInput([Violation("action", f"{said}; choose one of {names}")])


def _filter(text: str, where: Sequence[Condition], everything: str) -> Sequence[Condition]:
    if not where:
        said = f"{text!r} asks for nothing, so it would be everything; write `{everything}` if that is what you want"
        raise InvalidInput([Violation("filter", said)])
    return where


def _page(size: int, token: str, scope: str, default: int) -> Page:
    return read_page(size, token, orders=("create_time desc",), scope=f"bulk\0{scope}", default=default)


def _next(page: Page, rows: Sequence[Any], ids: Sequence[str]) -> str:
    return page.next_token(ids[-1]) if len(rows) > page.size else ""


async def _all(ids: Sequence[str], act: Callable[[str], Awaitable[Outcome | Refused]]) -> list[Outcome | Refused]:
    """Acts on each, all of them at once, so that they share a commit; what is refused refuses only itself.

    Raises:
        ServiceError: The call as a whole cannot go on, as when this scheduler leads no more.
    """
    failed: list[ServiceError] = []

    async def one(id: str) -> Outcome | Refused:
        try:
            return await act(id)
        except NotFound as error:  # deleted since it was matched
            return Refused(error.reason, error.message)
        except ServiceError as error:
            failed.append(error)
            return Refused(error.reason, error.message)

    async with asyncio.TaskGroup() as group:
        acting = [group.create_task(one(id), name=f"bulk {id}") for id in ids]
    if failed:
        raise failed[0]
    return [each.result() for each in acting]


async def _answer(leader: Leader, tenant: str, request: Any, response: Response) -> Response:
    """Keeps the answer to a page that has a request id."""
    return await kept_answer(leader, tenant, request.request_id, request, response) if request.request_id else response
