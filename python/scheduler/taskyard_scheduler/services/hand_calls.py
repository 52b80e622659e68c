"""TaskService, the calls by which a person acts on one instance, and that by which its result comes from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.engine import Event
from taskyard_core.engine.events import Cancel, Complete, Mark, Prioritize, Refused, Reply, Requeue, Retry
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.records import RUN_COLUMNS, Instance, TaskState
from taskyard_core.violations import InvalidInput, Violation
from taskyard_scheduler.ingress.findings import outside
from taskyard_scheduler.ingress.marks import read_completion, read_mark
from taskyard_scheduler.ingress.named import require_task
from taskyard_scheduler.leader import Leader, Remember
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.lookups import held, kept_run
from taskyard_scheduler.services.repeats import first_answer, remembering
from taskyard_service.errors import FailedPrecondition
from taskyard_service.identity import current_identity

REASON_LIMIT = 1_000
Answer = TypeVar("Answer", bound=Message)
Make = Callable[[Reply, Instance], Event]


class _About(Protocol):
    """A request about one instance; `task_id` may be told otherwise."""

    request_id: str
    task_id: str


class HandCalls:
    """Calls on one instance. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def CancelTask(self, request: pb.CancelTaskRequest, context: Any) -> pb.CancelTaskResponse:
        kill = is_terminate(request.mode)
        reason = request.reason[:REASON_LIMIT]
        return await self._act(
            request, pb.CancelTaskResponse, lambda reply, row: Cancel(reply, request.task_id, reason, row, kill)
        )

    async def RequeueTask(self, request: pb.RequeueTaskRequest, context: Any) -> pb.RequeueTaskResponse:
        return await self._act(request, pb.RequeueTaskResponse, lambda reply, row: Requeue(reply, request.task_id, row))

    async def PrioritizeTask(self, request: pb.PrioritizeTaskRequest, context: Any) -> pb.PrioritizeTaskResponse:
        require_task(request.task_id)
        wrong = outside(request.priority, 1, 10)
        if wrong is not None:
            raise InvalidInput([Violation("priority", wrong)])
        return await self._act(
            request,
            pb.PrioritizeTaskResponse,
            lambda reply, row: Prioritize(reply, request.task_id, request.priority, row),
        )

    async def RetryTask(self, request: pb.RetryTaskRequest, context: Any) -> pb.RetryTaskResponse:
        return await self._act(request, pb.RetryTaskResponse, lambda reply, row: Retry(reply, request.task_id, row))

    async def MarkTask(self, request: pb.MarkTaskRequest, context: Any) -> pb.MarkTaskResponse:
        require_task(request.task_id)
        state = read_mark(request.marked_as, request.output_json)
        reason = request.reason[:REASON_LIMIT]
        return await self._act(
            request,
            pb.MarkTaskResponse,
            lambda reply, row: Mark(reply, request.task_id, state, request.output_json, reason, row),
        )

    async def CompleteTask(self, request: pb.CompleteTaskRequest, context: Any) -> pb.CompleteTaskResponse:
        task_id, token, message = read_completion(request)

        def make(reply: Reply, row: Instance) -> Complete:
            return Complete(
                reply, task_id, token, request.status, request.output_json, message, request.error_kind, row
            )

        return await self._act(request, pb.CompleteTaskResponse, make, task_id)

    async def _act(self, request: Any, answer: Callable[..., Answer], make: Make, task_id: str = "") -> Answer:
        """Has the engine act on an instance, once for each request id.

        Args:
            request: Names the instance, unless `task_id` does.
            answer: The response's type; it has a `status`.
            make: Makes the event of its reply and the instance, as SQL has it or as it is in memory.
            task_id: The instance.
        """
        about: _About = request
        task_id = task_id or about.task_id
        require_task(task_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, about.request_id, request, answer)
        if first is not None:
            return first
        remember = remembering(leader, tenant, request, lambda state: answer(status=int(state)))
        state = await act_on(leader, tenant, task_id, make, remember)
        if isinstance(state, Refused):
            raise FailedPrecondition(state.reason, state.message, metadata={"task_id": task_id})
        return answer(status=int(state))


async def act_on(
    leader: Leader, tenant: str, task_id: str, make: Make, remember: Remember | None = None
) -> TaskState | Refused:
    """Has the engine act on an instance; returns how it stands then, or why nothing was done.

    Args:
        leader: The present term.
        tenant: Whose instance it is.
        task_id: Which.
        make: As for `HandCalls`.
        remember: Makes of the answer the row that makes a repeat recognisable, written in the same commit.

    Raises:
        NotFound: There is none of that id.
    """
    async with held(leader, tenant, task_id) as instance, kept_run(leader, instance.run_id):
        event = make(None, instance)
        if isinstance(event, Retry | Mark):
            await _add_run(leader, tenant, instance, event)
        event.reply = leader.future()  # type: ignore[union-attr]  # what people ask for has one; before, nobody would answer
        state: TaskState | Refused = await leader.ask(event, remember)
    return state


def is_terminate(mode: int) -> bool:
    """Tells whether something is to be stopped without grace.

    Raises:
        InvalidInput: There is no such mode.
    """
    if mode not in pb.StopMode.values():
        names = ", ".join(name.removeprefix("STOP_MODE_") for name in pb.StopMode.keys()[1:])
        raise InvalidInput([Violation("mode", f"{mode} is no way to stop; choose one of {names}")])
    return mode == pb.STOP_MODE_TERMINATE


async def _add_run(leader: Leader, tenant: str, instance: Instance, event: Retry | Mark) -> None:
    """Adds what a retry or a mark needs to know of a step's run that is not in memory."""
    if not instance.run_id or instance.run_id in leader.engine.cluster.runs:
        return
    row = await leader.store.get_run(tenant, instance.run_id)
    if row is None:
        return
    values = dict(zip(RUN_COLUMNS, row, strict=True))
    await leader.definitions.fetch(tenant, values["workflow"], values["version"])
    steps = await leader.store.run_instances(tenant, instance.run_id)
    event.run_row = row
    event.run_instances = [instance_from_row(step) for step in steps]
