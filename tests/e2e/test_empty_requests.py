"""Every call with nothing said: it is answered, or it names the field that is missing. Never that nothing is found."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from e2e.refusals import refused
from e2e.site import Door, Site
from taskyard.v1 import artifacts_pb2, fleet_pb2, tasks_pb2, workers_pb2, workflows_pb2
from taskyard_service.identity import Role

ANSWERED = ""
FIELDS = {
    "SubmitTasks": "tasks",
    "CreateTaskDefinition": "definition.name",
    "GetTaskDefinition": "name",
    "ListTaskDefinitions": ANSWERED,
    "UpdateTaskDefinition": "definition.name",
    "DeleteTaskDefinition": "name",
    "TriggerTask": "name",
    "GetTask": "task_id",
    "ListTasks": ANSWERED,
    "CountTasks": ANSWERED,
    "CancelTask": "task_id",
    "RetryTask": "task_id",
    "RequeueTask": "task_id",
    "PrioritizeTask": "task_id",
    "BulkTasks": "action",
    "MarkTask": "task_id",
    "CompleteTask": "token",
    "BroadcastTask": "task.task_type",
    "WatchTasks": "task_ids",
    "GetLogs": "task_id",
    "StreamLogs": "task_id",
    "ExplainTask": "task_id",
    "ApplyWorkflow": "workflow.name",
    "GetWorkflow": "name",
    "ListWorkflows": ANSWERED,
    "DeleteWorkflow": "name",
    "StartRuns": "runs",
    "GetRun": "run_id",
    "ListRuns": ANSWERED,
    "CountRuns": ANSWERED,
    "CancelRun": "run_id",
    "RetryRun": "run_id",
    "BulkRuns": "action",
    "MarkStep": "run_id",
    "PauseRun": "run_id",
    "ResumeRun": "run_id",
    "SetVariable": "variable.name",
    "GetVariable": "name",
    "ListVariables": ANSWERED,
    "DeleteVariable": "name",
    "WatchRun": "run_id",
    "ListWorkers": ANSWERED,
    "GetWorker": "worker_id",
    "DrainWorker": "worker_id",
    "ForgetWorker": "worker_id",
    "ListQueues": ANSWERED,
    "PauseWork": "scope",
    "ResumeWork": "scope",
    "ListPauses": ANSWERED,
    "GetClusterStatus": ANSWERED,
    "UploadArtifact": "head",
    "DownloadArtifact": "artifact_id",
    "GetArtifact": "artifact_id",
    "ListArtifacts": ANSWERED,
    "DeleteArtifact": "artifact_id",
    "Register": "worker_id",
    "Heartbeat": "worker_id",
    "AssignTask": "hello",
    "Deregister": "worker_id",
    "ReportResults": "worker_id",
    "AppendLogs": "worker_id",
}
METHODS: dict[str, MethodDescriptor] = {
    method.name: method
    for module in (tasks_pb2, workflows_pb2, fleet_pb2, workers_pb2, artifacts_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    if service.name != "ExecutorService"
    for method in service.methods
}


async def ask(door: Door, method: MethodDescriptor, request: Any) -> Any:
    """Makes a call; of one that streams, for its first answer."""
    stubs: dict[str, Any] = {
        "TaskService": door.tasks, "WorkflowService": door.workflows, "FleetService": door.fleet,
        "ArtifactService": door.artifacts,
    }  # fmt: skip
    stub: Any = stubs.get(method.containing_service.name, door.workers)
    call = getattr(stub, method.name)
    if method.client_streaming and not method.server_streaming:
        return await call(iter([request]), metadata=door.metadata)
    if method.client_streaming:
        return await call(iter([request]), metadata=door.metadata).read()
    if method.server_streaming:
        return await call(request, metadata=door.metadata).read()
    return await call(request, metadata=door.metadata)


def test_every_call_is_in_the_table() -> None:
    assert FIELDS.keys() == METHODS.keys()


@pytest.mark.parametrize("name", FIELDS)
async def test_a_call_that_says_nothing_is_answered_or_names_the_field(shared_site: Site, name: str) -> None:
    door, method = shared_site.door(shared_site.token(Role.ADMIN)), METHODS[name]
    call = ask(door, method, GetMessageClass(method.input_type)())
    if FIELDS[name] == ANSWERED:
        await call
        return
    answer = await refused(call)
    assert (answer.code, answer.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"), answer
    assert next(iter(answer.fields)) == FIELDS[name]
    assert "give" in answer.fields[FIELDS[name]] or name in {
        "AssignTask",
        "UploadArtifact",
        "WatchTasks",
        "SubmitTasks",
        "StartRuns",
    }


LISTED: list[tuple[str, Any, str]] = [
    ("WatchTasks", tasks_pb2.WatchTasksRequest(task_ids=["x", ""]), "task_ids[1]"),
    ("MarkStep", workflows_pb2.MarkStepRequest(run_id="x"), "step_id"),
    ("AssignTask", workers_pb2.AssignTaskRequest(hello=workers_pb2.Hello()), "hello.worker_id"),
]


@pytest.mark.parametrize(("name", "request_", "field"), LISTED, ids=lambda value: str(value)[:20])
async def test_an_id_that_is_empty_within_a_request_is_named(
    shared_site: Site, name: str, request_: Any, field: str
) -> None:
    answer = await refused(ask(shared_site.door(shared_site.token(Role.ADMIN)), METHODS[name], request_))
    assert (answer.code, list(answer.fields)) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
