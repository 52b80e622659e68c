"""A real gRPC server with a small model of a scheduler behind it, whose tasks end when a test says so."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any

import grpc
import grpc.aio
from scripted_faults import Fault, FaultInterceptor
from scripted_hands import HandFleet, HandTasks, HandWorkflows, Held

from taskyard.v1 import (
    artifacts_pb2,
    artifacts_pb2_grpc,
    fleet_pb2,
    fleet_pb2_grpc,
    tasks_pb2,
    tasks_pb2_grpc,
    workflows_pb2,
    workflows_pb2_grpc,
)

TaskStatus = tasks_pb2.TaskStatus
RunState = workflows_pb2.RunState
TASK_ENDS = {TaskStatus.TASK_STATUS_SUCCESS, TaskStatus.TASK_STATUS_FAILED, TaskStatus.TASK_STATUS_TIMEOUT,
             TaskStatus.TASK_STATUS_CANCELLED, TaskStatus.TASK_STATUS_SKIPPED}  # fmt: skip
RUN_ENDS = {RunState.RUN_STATE_SUCCEEDED, RunState.RUN_STATE_FAILED, RunState.RUN_STATE_CANCELLED}
Context = grpc.aio.ServicerContext[Any, Any]


class Model:
    """What the server knows. Each change has a revision and wakes those who watch."""

    def __init__(self) -> None:
        self.revision = 0
        self.tasks: dict[str, tasks_pb2.TaskInstance] = {}
        self.attempts: dict[str, list[tasks_pb2.TaskAttempt]] = {}
        self.runs: dict[str, workflows_pb2.Run] = {}
        self.steps: dict[str, list[workflows_pb2.RunStep]] = {}
        self.workflows: dict[str, workflows_pb2.Workflow] = {}
        self.definitions: dict[str, tasks_pb2.TaskDefinition] = {}
        self.variables: dict[str, workflows_pb2.Variable] = {}
        self.logs: dict[str, list[tasks_pb2.StoredLogLine]] = {}
        self.artifacts: dict[str, tuple[artifacts_pb2.Artifact, bytes]] = {}
        self.workers: list[fleet_pb2.Worker] = []
        self.queues: list[fleet_pb2.Queue] = []
        self.held = Held()
        self.status = fleet_pb2.GetClusterStatusResponse()
        self.by_request_id: dict[str, str] = {}
        self.by_key: dict[str, str] = {}
        self.first_status: Any = TaskStatus.TASK_STATUS_QUEUED
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()

    def new_id(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers)}"

    async def changed(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.revision > seen)

    async def touch(self, *things: Any) -> None:
        """Marks things as changed by one commit."""
        self.revision += 1
        for thing in things:
            thing.revision = self.revision
        async with self._changed:
            self._changed.notify_all()

    async def end(self, *task_ids: str, status: Any = TaskStatus.TASK_STATUS_SUCCESS, output: str = "{}") -> None:
        """Ends tasks in one commit."""
        for task_id in task_ids:
            self.tasks[task_id].status = status
            self.tasks[task_id].output_json = output
        await self.touch(*(self.tasks[task_id] for task_id in task_ids))

    async def set_run(self, run_id: str, state: Any, **fields: Any) -> None:
        """Changes a run."""
        run = self.runs[run_id]
        run.MergeFrom(workflows_pb2.Run(state=state, **fields))
        await self.touch(run)

    async def set_step(self, run_id: str, step_id: str, status: Any, **fields: Any) -> None:
        """Changes a step of a run."""
        step = next(each for each in self.steps[run_id] if each.step_id == step_id)
        step.MergeFrom(workflows_pb2.RunStep(status=status, **fields))
        self.runs[run_id].steps_ended = sum(each.status in TASK_ENDS for each in self.steps[run_id])
        await self.touch(self.runs[run_id])


class Tasks(HandTasks, tasks_pb2_grpc.TaskServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    async def SubmitTasks(self, request: tasks_pb2.SubmitTasksRequest, context: Context) -> Any:
        response = tasks_pb2.SubmitTasksResponse()
        for at, task in enumerate(request.tasks):
            response.outcomes.append(_check(task) if request.validate_only else self._submit(at, task))
        await self.model.touch()
        return response

    def _submit(self, at: int, task: tasks_pb2.TaskSubmission) -> tasks_pb2.SubmitOutcome:
        outcome = tasks_pb2.SubmitOutcome(request_id=task.request_id)
        if task.HasField("priority") and not 1 <= task.priority <= 10:
            outcome.refusal.reason, outcome.refusal.message = "INVALID_INPUT", "1 field breaks its rule"
            outcome.refusal.violations.add(
                field=f"tasks[{at}].priority",
                description=f"{task.priority} is not 1 to 10; leave it out for 5",
            )
            return outcome
        known = self.model.by_request_id.get(task.request_id) or self.model.by_key.get(task.idempotency_key)
        if known is not None:
            outcome.task_id, outcome.repeated_request = known, True
            return outcome
        outcome.task_id = self.model.new_id("task")
        self.model.by_request_id[task.request_id] = outcome.task_id
        if task.idempotency_key:
            self.model.by_key[task.idempotency_key] = outcome.task_id
        self.model.tasks[outcome.task_id] = tasks_pb2.TaskInstance(
            task_id=outcome.task_id, task_type=task.task_type, params=task.params, input_json=task.input_json,
            status=self.model.first_status, task_name=task.task_name, idempotency_key=task.idempotency_key,
            output_json="{}", revision=self.model.revision + 1, priority=task.priority or 5,
            resources=task.resources if task.HasField("resources") else None,
        )  # fmt: skip
        return outcome

    async def _find(self, task_id: str, context: Context) -> tasks_pb2.TaskInstance:
        task = self.model.tasks.get(task_id)
        if task is None:
            fault = Fault(
                grpc.StatusCode.NOT_FOUND,
                f"there is no task {task_id}",
                "TASK_NOT_FOUND",
                {"task_id": task_id},
            )
            await fault.show(context)
            raise AssertionError
        return task

    async def GetTask(self, request: tasks_pb2.GetTaskRequest, context: Context) -> Any:
        task = await self._find(request.task_id, context)
        return tasks_pb2.GetTaskResponse(task=task, attempts=self.model.attempts.get(task.task_id, []))

    async def ListTasks(self, request: tasks_pb2.ListTasksRequest, context: Context) -> Any:
        start = int(request.page_token or 0)
        found = [task for task in list(self.model.tasks.values())[::-1] if _has_status(task, request.filter)]
        more = start + request.page_size < len(found)
        return tasks_pb2.ListTasksResponse(
            tasks=found[start : start + request.page_size],
            next_page_token=str(start + request.page_size) if more else "",
        )

    async def CountTasks(self, request: tasks_pb2.CountTasksRequest, context: Context) -> Any:
        matching = [task for task in self.model.tasks.values() if _has_status(task, request.filter)]
        response = tasks_pb2.CountTasksResponse(count=len(matching))
        if request.group_by:
            for value, count in Counter(task.error.kind for task in matching).most_common():
                response.groups.add(value=value, count=count)
        return response

    async def CancelTask(self, request: tasks_pb2.CancelTaskRequest, context: Context) -> Any:
        task = await self._find(request.task_id, context)
        if task.status in TASK_ENDS:
            message = f"task {task.task_id} has ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "ALREADY_ENDED").show(context)
        await self.model.end(task.task_id, status=TaskStatus.TASK_STATUS_CANCELLED)
        return tasks_pb2.CancelTaskResponse(status=task.status)

    async def RequeueTask(self, request: tasks_pb2.RequeueTaskRequest, context: Context) -> Any:
        task = await self._live(request.task_id, context)
        task.status = TaskStatus.TASK_STATUS_QUEUED
        await self.model.touch(task)
        return tasks_pb2.RequeueTaskResponse(status=task.status)

    async def PrioritizeTask(self, request: tasks_pb2.PrioritizeTaskRequest, context: Context) -> Any:
        task = await self._live(request.task_id, context)
        task.priority = request.priority
        await self.model.touch(task)
        return tasks_pb2.PrioritizeTaskResponse(status=task.status)

    async def BulkTasks(self, request: tasks_pb2.BulkTasksRequest, context: Context) -> Any:
        live = [task for task in self.model.tasks.values() if task.status not in TASK_ENDS][::-1]
        if request.validate_only:
            return tasks_pb2.BulkTasksResponse(matched=len(live))
        response = tasks_pb2.BulkTasksResponse()
        for task in live[:2]:  # pages of two
            task.status = TaskStatus.TASK_STATUS_CANCELLED
            response.outcomes.add(task_id=task.task_id, status=task.status)
        response.next_page_token = "more" if len(live) > 2 else ""
        return response

    async def _live(self, task_id: str, context: Context) -> tasks_pb2.TaskInstance:
        task = await self._find(task_id, context)
        if task.status in TASK_ENDS:
            message = f"task {task.task_id} has ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "ALREADY_ENDED").show(context)
        return task

    async def RetryTask(self, request: tasks_pb2.RetryTaskRequest, context: Context) -> Any:
        task = await self._find(request.task_id, context)
        if task.status not in TASK_ENDS:
            message = f"task {task.task_id} has not ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "NOT_ENDED").show(context)
        task.status = TaskStatus.TASK_STATUS_QUEUED
        await self.model.touch(task)
        return tasks_pb2.RetryTaskResponse(status=task.status)

    async def WatchTasks(self, request: tasks_pb2.WatchTasksRequest, context: Context) -> AsyncIterator[Any]:
        tasks = [await self._find(task_id, context) for task_id in request.task_ids]
        seen = request.after_revision
        first = True
        while True:
            news = [task for task in tasks if task.revision > seen]
            seen = self.model.revision
            over = all(task.status in TASK_ENDS for task in tasks)
            if news or first:
                yield tasks_pb2.WatchTasksResponse(tasks=news, revision=seen)
            first = False
            if over:
                return
            await self.model.changed(seen)

    async def GetLogs(self, request: tasks_pb2.GetLogsRequest, context: Context) -> Any:
        await self._find(request.task_id, context)
        lines = _selected(self.model.logs.get(request.task_id, []), request.selection)
        start = int(request.page_token or 0)
        size = request.page_size or 2
        token = str(start + size) if start + size < len(lines) else ""
        return tasks_pb2.GetLogsResponse(lines=lines[start : start + size], next_page_token=token)

    async def StreamLogs(self, request: tasks_pb2.StreamLogsRequest, context: Context) -> AsyncIterator[Any]:
        await self._find(request.task_id, context)
        position = (request.after_attempt, request.after_line if request.after_attempt else -1)
        for line in _selected(self.model.logs.get(request.task_id, []), request.selection):
            if (line.attempt, line.line) > position:
                yield tasks_pb2.StreamLogsResponse(lines=[line])

    async def ExplainTask(self, request: tasks_pb2.ExplainTaskRequest, context: Context) -> Any:
        task = await self._find(request.task_id, context)
        return tasks_pb2.ExplainTaskResponse(
            status=task.status,
            summary=f"No worker runs tasks of the type `{task.task_type}`.",
            reasons=[
                tasks_pb2.WaitReason(
                    code="NO_WORKER_FOR_TYPE",
                    message=f"no worker offers `{task.task_type}`; start one that does",
                    variables={"task_type": task.task_type},
                )
            ],
        )

    async def CreateTaskDefinition(self, request: tasks_pb2.CreateTaskDefinitionRequest, context: Context) -> Any:
        if request.definition.name in self.model.definitions:
            await Fault(grpc.StatusCode.ALREADY_EXISTS, "the name is taken", "DEFINITION_EXISTS").show(context)
        stored = tasks_pb2.TaskDefinition(number=len(self.model.definitions) + 1)
        stored.MergeFrom(request.definition)
        self.model.definitions[stored.name] = stored
        return tasks_pb2.CreateTaskDefinitionResponse(definition=stored)

    async def GetTaskDefinition(self, request: tasks_pb2.GetTaskDefinitionRequest, context: Context) -> Any:
        return tasks_pb2.GetTaskDefinitionResponse(definition=self.model.definitions[request.name])

    async def ListTaskDefinitions(self, request: tasks_pb2.ListTaskDefinitionsRequest, context: Context) -> Any:
        return tasks_pb2.ListTaskDefinitionsResponse(definitions=self.model.definitions.values())

    async def UpdateTaskDefinition(self, request: tasks_pb2.UpdateTaskDefinitionRequest, context: Context) -> Any:
        self.model.definitions[request.definition.name] = request.definition
        return tasks_pb2.UpdateTaskDefinitionResponse(definition=request.definition)

    async def DeleteTaskDefinition(self, request: tasks_pb2.DeleteTaskDefinitionRequest, context: Context) -> Any:
        del self.model.definitions[request.name]
        return tasks_pb2.DeleteTaskDefinitionResponse()

    async def TriggerTask(self, request: tasks_pb2.TriggerTaskRequest, context: Context) -> Any:
        definition = self.model.definitions[request.name]
        task = tasks_pb2.TaskSubmission(
            request_id=request.request_id, task_type=definition.task_type, input_json=request.input_json
        )
        return tasks_pb2.TriggerTaskResponse(task_id=self._submit(0, task).task_id)


def _has_status(task: tasks_pb2.TaskInstance, filter: str) -> bool:
    """All of the filter language that this server knows: `status in [...]` and `status == "..."`, anywhere in it."""
    asked = re.search(r"status in (\[[^]]*\])|status == (\"\w+\")", filter)
    if asked is None:
        return True
    wanted = json.loads(asked[1] or f"[{asked[2]}]")
    return TaskStatus.Name(task.status).removeprefix("TASK_STATUS_") in wanted


def _selected(
    lines: Iterable[tasks_pb2.StoredLogLine], selection: tasks_pb2.LogSelection
) -> list[tasks_pb2.StoredLogLine]:
    since = selection.since.ToDatetime() if selection.HasField("since") else datetime.min
    word = selection.contains.casefold()
    found = [one for one in lines if word in one.content.text.casefold() and one.content.time.ToDatetime() >= since]
    return [one for one in found if not selection.streams or one.content.stream in selection.streams]


def _check(task: tasks_pb2.TaskSubmission) -> tasks_pb2.SubmitOutcome:
    """Any worker would take it at once, but for the type `odd`, which is refused."""
    outcome = tasks_pb2.SubmitOutcome(request_id=task.request_id)
    if task.task_type == "odd":
        outcome.refusal.reason, outcome.refusal.message = "INVALID_INPUT", "odd"
    else:
        outcome.check.task.task_type = task.task_type
        outcome.check.worker_ids.append("w1")
    return outcome


class Workflows(HandWorkflows, workflows_pb2_grpc.WorkflowServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    async def ApplyWorkflow(self, request: workflows_pb2.ApplyWorkflowRequest, context: Context) -> Any:
        name = request.workflow.name
        known = self.model.workflows.get(name)
        stored = workflows_pb2.Workflow()
        stored.MergeFrom(request.workflow)
        stored.version = known.version if known else 1
        stored.source = request.source or (known.source if known else "")
        changed = known != stored
        if known and changed:
            stored.version += 1
        if not request.validate_only:
            self.model.workflows[name] = stored
        return workflows_pb2.ApplyWorkflowResponse(workflow=stored, changed=changed)

    async def DeleteWorkflow(self, request: workflows_pb2.DeleteWorkflowRequest, context: Context) -> Any:
        found = self.model.workflows.get(request.name)
        live = [run for run in self.model.runs.values() if run.workflow == request.name and run.state not in RUN_ENDS]
        if found is None:
            await Fault(grpc.StatusCode.NOT_FOUND, f"there is no workflow {request.name}", "WORKFLOW_NOT_FOUND").show(
                context
            )
            raise AssertionError
        if live:
            message = f"{len(live)} runs of {request.name} have not ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "IN_USE").show(context)
        del self.model.workflows[request.name]
        return workflows_pb2.DeleteWorkflowResponse(name=found.name, version=found.version)

    async def GetWorkflow(self, request: workflows_pb2.GetWorkflowRequest, context: Context) -> Any:
        if request.name not in self.model.workflows:
            message = f"there is no workflow `{request.name}`"
            await Fault(grpc.StatusCode.NOT_FOUND, message, "WORKFLOW_NOT_FOUND").show(context)
        return workflows_pb2.GetWorkflowResponse(workflow=self.model.workflows[request.name])

    async def ListWorkflows(self, request: workflows_pb2.ListWorkflowsRequest, context: Context) -> Any:
        _, of_set, name = request.filter.partition("source == ")
        found = [each for each in self.model.workflows.values() if not of_set or each.source == json.loads(name)]
        return workflows_pb2.ListWorkflowsResponse(workflows=found)

    async def StartRuns(self, request: workflows_pb2.StartRunsRequest, context: Context) -> Any:
        response = workflows_pb2.StartRunsResponse()
        for at, run in enumerate(request.runs):
            response.outcomes.append(self._start(at, run))
        await self.model.touch()
        return response

    def _start(self, at: int, run: workflows_pb2.RunSubmission) -> workflows_pb2.StartOutcome:
        outcome = workflows_pb2.StartOutcome(request_id=run.request_id)
        workflow = self.model.workflows.get(run.workflow)
        if workflow is None:
            outcome.refusal.reason = "DEFINITION_NOT_FOUND"
            outcome.refusal.message = f"runs[{at}].workflow: there is no workflow {run.workflow!r}: apply it first"
            return outcome
        known = self.model.by_request_id.get(run.request_id) or self.model.by_key.get(run.idempotency_key)
        if known is not None:
            outcome.run_id, outcome.repeated_request = known, True
            return outcome
        outcome.run_id = self.model.by_request_id[run.request_id] = self.model.new_id("run")
        if run.idempotency_key:
            self.model.by_key[run.idempotency_key] = outcome.run_id
        self.model.runs[outcome.run_id] = workflows_pb2.Run(
            run_id=outcome.run_id, workflow=run.workflow, version=workflow.version,
            inputs_json=run.inputs_json, state=RunState.RUN_STATE_RUNNING,
            steps_total=len(workflow.steps), revision=self.model.revision + 1,
        )  # fmt: skip
        self.model.steps[outcome.run_id] = [
            workflows_pb2.RunStep(
                step_id=step.id,
                task_type=step.task_type,
                needs=step.needs,
                status=TaskStatus.TASK_STATUS_PENDING,
            )
            for step in workflow.steps
        ]
        return outcome

    async def _find(self, run_id: str, context: Context) -> workflows_pb2.Run:
        run = self.model.runs.get(run_id)
        if run is None:
            await Fault(grpc.StatusCode.NOT_FOUND, f"there is no run {run_id}", "RUN_NOT_FOUND").show(context)
            raise AssertionError
        return run

    async def GetRun(self, request: workflows_pb2.GetRunRequest, context: Context) -> Any:
        run = await self._find(request.run_id, context)
        return workflows_pb2.GetRunResponse(run=run, steps=self.model.steps[run.run_id])

    async def ListRuns(self, request: workflows_pb2.ListRunsRequest, context: Context) -> Any:
        return workflows_pb2.ListRunsResponse(runs=list(self.model.runs.values())[::-1])

    async def CountRuns(self, request: workflows_pb2.CountRunsRequest, context: Context) -> Any:
        return workflows_pb2.CountRunsResponse(count=len(self.model.runs))

    async def CancelRun(self, request: workflows_pb2.CancelRunRequest, context: Context) -> Any:
        run = await self._find(request.run_id, context)
        if run.state in RUN_ENDS:
            message = f"run {run.run_id} has ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "ALREADY_ENDED").show(context)
        await self.model.set_run(run.run_id, RunState.RUN_STATE_CANCELLED)
        return workflows_pb2.CancelRunResponse(state=run.state)

    async def WatchRun(self, request: workflows_pb2.WatchRunRequest, context: Context) -> AsyncIterator[Any]:
        run = await self._find(request.run_id, context)
        seen = request.after_revision
        while True:
            steps = self.model.steps[run.run_id] if run.revision > seen else []
            seen = self.model.revision
            over = run.state in RUN_ENDS
            yield workflows_pb2.WatchRunResponse(run=run, steps=steps, revision=seen)
            if over:
                return
            await self.model.changed(seen)

    async def RetryRun(self, request: workflows_pb2.RetryRunRequest, context: Context) -> Any:
        run = await self._find(request.run_id, context)
        if run.state not in RUN_ENDS:
            message = f"run {run.run_id} has not ended"
            await Fault(grpc.StatusCode.FAILED_PRECONDITION, message, "STEP_NOT_ENDED").show(context)
        await self.model.set_run(run.run_id, RunState.RUN_STATE_RUNNING)
        return workflows_pb2.RetryRunResponse(state=run.state, steps=request.from_steps or ["failed"])

    async def BulkRuns(self, request: workflows_pb2.BulkRunsRequest, context: Context) -> Any:
        runs = list(self.model.runs.values())
        response = workflows_pb2.BulkRunsResponse(matched=len(runs) if request.validate_only else 0)
        for run in () if request.validate_only else runs:
            outcome = response.outcomes.add(run_id=run.run_id)
            outcome.refusal.reason, outcome.refusal.message = "ALREADY_ENDED", "the run has ended as FAILED"
        return response

    async def SetVariable(self, request: workflows_pb2.SetVariableRequest, context: Context) -> Any:
        self.model.variables[request.variable.name] = request.variable
        return workflows_pb2.SetVariableResponse(variable=request.variable)

    async def GetVariable(self, request: workflows_pb2.GetVariableRequest, context: Context) -> Any:
        return workflows_pb2.GetVariableResponse(variable=await self._variable(request.name, context))

    async def ListVariables(self, request: workflows_pb2.ListVariablesRequest, context: Context) -> Any:
        return workflows_pb2.ListVariablesResponse(variables=self.model.variables.values())

    async def DeleteVariable(self, request: workflows_pb2.DeleteVariableRequest, context: Context) -> Any:
        await self._variable(request.name, context)
        del self.model.variables[request.name]
        return workflows_pb2.DeleteVariableResponse()

    async def _variable(self, name: str, context: Context) -> workflows_pb2.Variable:
        found = self.model.variables.get(name)
        if found is None:
            await Fault(grpc.StatusCode.NOT_FOUND, f"there is no variable {name}", "VARIABLE_NOT_FOUND").show(context)
            raise AssertionError
        return found


class Artifacts(artifacts_pb2_grpc.ArtifactServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    async def UploadArtifact(self, request_iterator: Any, context: Context) -> Any:
        requests = [request async for request in request_iterator]
        head = requests[0].head
        data = b"".join(request.data for request in requests[1:])
        id = f"018f3b5e-7c1a-7abc-9def-{len(self.model.artifacts) + 1:012x}"
        artifact = artifacts_pb2.Artifact(
            uri=f"artifact://{id}", artifact_id=id, name=head.name, media_type=head.media_type, size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip
        self.model.artifacts[id] = (artifact, data)
        return artifacts_pb2.UploadArtifactResponse(artifact=artifact)

    async def DownloadArtifact(self, request: Any, context: Context) -> AsyncIterator[Any]:
        artifact, data = await self._find(request.artifact_id, context)
        yield artifacts_pb2.DownloadArtifactResponse(artifact=artifact)
        yield artifacts_pb2.DownloadArtifactResponse(data=data[request.offset :])

    async def GetArtifact(self, request: Any, context: Context) -> Any:
        artifact, _ = await self._find(request.artifact_id, context)
        return artifacts_pb2.GetArtifactResponse(artifact=artifact)

    async def ListArtifacts(self, request: Any, context: Context) -> Any:
        return artifacts_pb2.ListArtifactsResponse(artifacts=[each for each, _ in self.model.artifacts.values()])

    async def DeleteArtifact(self, request: Any, context: Context) -> Any:
        await self._find(request.artifact_id, context)
        del self.model.artifacts[request.artifact_id]
        return artifacts_pb2.DeleteArtifactResponse()

    async def _find(self, id: str, context: Context) -> tuple[artifacts_pb2.Artifact, bytes]:
        if id not in self.model.artifacts:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no artifact {id!r}")
        return self.model.artifacts[id]


class Fleet(HandFleet, fleet_pb2_grpc.FleetServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    async def ListWorkers(self, request: fleet_pb2.ListWorkersRequest, context: Context) -> Any:
        return fleet_pb2.ListWorkersResponse(workers=self.model.workers)

    async def GetWorker(self, request: fleet_pb2.GetWorkerRequest, context: Context) -> Any:
        found = next(each for each in self.model.workers if each.worker_id == request.worker_id)
        return fleet_pb2.GetWorkerResponse(worker=found)

    async def DrainWorker(self, request: fleet_pb2.DrainWorkerRequest, context: Context) -> Any:
        next(each for each in self.model.workers if each.worker_id == request.worker_id)
        return fleet_pb2.DrainWorkerResponse(active_tasks=2)

    async def ForgetWorker(self, request: fleet_pb2.ForgetWorkerRequest, context: Context) -> Any:
        self.model.workers[:] = [each for each in self.model.workers if each.worker_id != request.worker_id]
        return fleet_pb2.ForgetWorkerResponse(lost_tasks=1)

    async def ListQueues(self, request: fleet_pb2.ListQueuesRequest, context: Context) -> Any:
        return fleet_pb2.ListQueuesResponse(queues=self.model.queues)

    async def GetClusterStatus(self, request: fleet_pb2.GetClusterStatusRequest, context: Context) -> Any:
        return self.model.status


class ScriptedServer:
    """The server. Start it with `async with`; `port` keeps over `stop` and `start`."""

    def __init__(self) -> None:
        self.model = Model()
        self.wire = FaultInterceptor()
        self.port = 0
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def script(self, name: str, *faults: Fault | None) -> None:
        """The next calls of this name meet these faults; None: one that is answered well."""
        self.wire.faults[name].extend(faults)

    async def start(self) -> None:
        options = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 16 << 20))
        self._server = grpc.aio.server(interceptors=[self.wire], options=options)
        tasks_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(self.model), self._server)
        workflows_pb2_grpc.add_WorkflowServiceServicer_to_server(Workflows(self.model), self._server)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(Fleet(self.model), self._server)
        artifacts_pb2_grpc.add_ArtifactServiceServicer_to_server(Artifacts(self.model), self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
