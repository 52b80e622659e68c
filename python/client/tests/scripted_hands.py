"""What the scripted server answers to what people do by hand: marks, pauses, results from outside, broadcasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from scripted_faults import Fault

from taskyard.v1 import fleet_pb2, tasks_pb2, workflows_pb2
from taskyard.v1.pauses_pb2 import Pause, PauseScope

if TYPE_CHECKING:
    from scripted_server import Model

TaskStatus = tasks_pb2.TaskStatus
Context = grpc.aio.ServicerContext[Any, Any]

_MARKED = {
    tasks_pb2.MarkedAs.MARKED_AS_SUCCESS: TaskStatus.TASK_STATUS_SUCCESS,
    tasks_pb2.MarkedAs.MARKED_AS_SKIPPED: TaskStatus.TASK_STATUS_SKIPPED,
}


async def no(context: Context, code: grpc.StatusCode, message: str, reason: str) -> AssertionError:
    await Fault(code, message, reason).show(context)
    return AssertionError("the call has ended")


class Held:
    """Pauses by scope and name."""

    def __init__(self) -> None:
        self.pauses: dict[tuple[int, str], Pause] = {}

    def add(self, scope: PauseScope.ValueType, name: str, reason: str) -> Pause:
        made = self.pauses[scope, name] = Pause(scope=scope, name=name, reason=reason, paused_by="ann")
        made.create_time.FromSeconds(1_700_000_000)
        return made

    async def take(self, scope: PauseScope.ValueType, name: str, context: Context) -> Pause:
        found = self.pauses.pop((scope, name), None)
        if found is None:
            what = PauseScope.Name(scope).removeprefix("PAUSE_SCOPE_")
            message = f"{what} {name!r} is not paused by itself"
            raise await no(context, grpc.StatusCode.FAILED_PRECONDITION, message, "NOT_PAUSED")
        return found


class HandTasks:
    """A task is completed with its id, a dot and `good`; after `again` another attempt follows, `stale` is over."""

    model: Model

    async def MarkTask(self, request: tasks_pb2.MarkTaskRequest, context: Context) -> Any:
        task = self.model.tasks.get(request.task_id)
        if task is None:
            raise await no(context, grpc.StatusCode.NOT_FOUND, f"there is no task {request.task_id}", "TASK_NOT_FOUND")
        if task.status == TaskStatus.TASK_STATUS_SUCCESS:
            raise await no(context, grpc.StatusCode.FAILED_PRECONDITION, "the task has succeeded", "ALREADY_SUCCEEDED")
        if task.status == TaskStatus.TASK_STATUS_RUNNING:
            return tasks_pb2.MarkTaskResponse(status=TaskStatus.TASK_STATUS_CANCELLING)
        await self.model.end(task.task_id, status=_MARKED[request.marked_as], output=request.output_json)
        return tasks_pb2.MarkTaskResponse(status=task.status)

    async def CompleteTask(self, request: tasks_pb2.CompleteTaskRequest, context: Context) -> Any:
        task_id, _, token = request.token.partition(".")
        task = self.model.tasks.get(task_id)
        if task is None:
            raise await no(context, grpc.StatusCode.NOT_FOUND, "there is no task of that token", "TASK_NOT_FOUND")
        if token == "again":
            return tasks_pb2.CompleteTaskResponse(status=TaskStatus.TASK_STATUS_PENDING)
        if token != "good":
            raise await no(context, grpc.StatusCode.FAILED_PRECONDITION, "the token's attempt is over", "STALE_ATTEMPT")
        await self.model.end(task_id, status=request.status, output=request.output_json)
        return tasks_pb2.CompleteTaskResponse(status=request.status)

    async def BroadcastTask(self, request: tasks_pb2.BroadcastTaskRequest, context: Context) -> Any:
        response = tasks_pb2.BroadcastTaskResponse()
        for worker in self.model.workers:
            if worker.state != fleet_pb2.WorkerState.WORKER_STATE_HEALTHY:
                response.left_out_worker_ids.append(worker.worker_id)
                continue
            task_id = self.model.new_id("task")
            self.model.tasks[task_id] = tasks_pb2.TaskInstance(
                task_id=task_id,
                task_type=request.task.task_type,
                status=self.model.first_status,
                output_json="{}",
                revision=self.model.revision + 1,
            )
            response.copies.add(worker_id=worker.worker_id, task_id=task_id)
        if not response.copies:
            raise await no(context, grpc.StatusCode.FAILED_PRECONDITION, "no worker takes it now", "NO_WORKER_MATCHES")
        await self.model.touch()
        return response


class HandWorkflows:
    """Steps and runs."""

    model: Model

    async def MarkStep(self, request: workflows_pb2.MarkStepRequest, context: Context) -> Any:
        steps = self.model.steps.get(request.run_id)
        if steps is None:
            raise await no(context, grpc.StatusCode.NOT_FOUND, f"there is no run {request.run_id}", "RUN_NOT_FOUND")
        if request.step_id not in {step.step_id for step in steps}:
            message = f"the run has no step {request.step_id!r}"
            raise await no(context, grpc.StatusCode.NOT_FOUND, message, "UNKNOWN_STEP")
        status = _MARKED[request.marked_as]
        await self.model.set_step(request.run_id, request.step_id, status)
        return workflows_pb2.MarkStepResponse(
            status=status, state=self.model.runs[request.run_id].state, task_id=self.model.new_id("task")
        )

    async def PauseRun(self, request: workflows_pb2.PauseRunRequest, context: Context) -> Any:
        made = self.model.held.add(PauseScope.PAUSE_SCOPE_RUN, request.run_id, request.reason)
        return workflows_pb2.PauseRunResponse(pause=made)

    async def ResumeRun(self, request: workflows_pb2.ResumeRunRequest, context: Context) -> Any:
        was = await self.model.held.take(PauseScope.PAUSE_SCOPE_RUN, request.run_id, context)
        return workflows_pb2.ResumeRunResponse(pause=was)


class HandFleet:
    """Pauses of everything else."""

    model: Model

    async def PauseWork(self, request: fleet_pb2.PauseWorkRequest, context: Context) -> Any:
        if request.scope == PauseScope.PAUSE_SCOPE_RUN and request.name not in self.model.runs:
            message = f"there is no run {request.name!r} that has not ended"
            raise await no(context, grpc.StatusCode.NOT_FOUND, message, "RUN_NOT_FOUND")
        return fleet_pb2.PauseWorkResponse(pause=self.model.held.add(request.scope, request.name, request.reason))

    async def ResumeWork(self, request: fleet_pb2.ResumeWorkRequest, context: Context) -> Any:
        return fleet_pb2.ResumeWorkResponse(pause=await self.model.held.take(request.scope, request.name, context))

    async def ListPauses(self, request: fleet_pb2.ListPausesRequest, context: Context) -> Any:
        found = [pause for _, pause in sorted(self.model.held.pauses.items())]
        start = int(request.page_token or 0)
        end = start + request.page_size
        return fleet_pb2.ListPausesResponse(
            pauses=found[start:end], next_page_token=str(end) if end < len(found) else ""
        )
