"""Closed by default: no token, bad tokens, roles, tenants; and which secrets a scheduler refuses to start with."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from e2e.process import until
from e2e.refusals import refused
from e2e.site import Site
from e2e.test_outside import token_of
from taskyard.v1 import artifacts_pb2, fleet_pb2, tasks_pb2, workers_pb2, workflows_pb2
from taskyard.v1.pauses_pb2 import PauseScope
from taskyard.v1.tasks_pb2 import MARKED_AS_SKIPPED
from taskyard_client import PermissionDenied
from taskyard_service.identity import Role

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED


def bad_tokens(site: Site) -> dict[str, str | None]:
    good = site.token()
    head, payload, _ = good.split(".")
    return {
        "none": None,
        "empty": "",
        "nonsense": "nonsense",
        "cut": good[:-3],
        "unsigned": f"eyJhbGciOiJub25lIn0.{payload}.",
        "without signature": f"{head}.{payload}.",
        "other secret": site.token(secret="x" * 64),
        "expired": site.token(life_s=-10),
    }


async def test_a_bad_token_opens_nothing(shared_site: Site) -> None:
    for name, token in bad_tokens(shared_site).items():
        door = shared_site.door(token)
        calls: list[tuple[Any, Any]] = [
            (door.fleet.GetClusterStatus, fleet_pb2.GetClusterStatusRequest()),
            (door.tasks.SubmitTasks, tasks_pb2.SubmitTasksRequest()),
            (door.workers.Register, workers_pb2.RegisterRequest(worker_id="intruder")),
        ]
        for call, request in calls:
            answer = await refused(call(request, metadata=door.metadata))
            assert answer.code == UNAUTHENTICATED, (name, answer)
            assert token is None or not token or token not in answer.message


async def test_a_bad_token_opens_no_stream(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token(life_s=-10))
    watching = door.tasks.WatchTasks(tasks_pb2.WatchTasksRequest(task_ids=["x"]), metadata=door.metadata)
    assert (await refused(watching.read())).code == UNAUTHENTICATED


READING: list[tuple[str, str, Any]] = [
    ("tasks", "GetTask", tasks_pb2.GetTaskRequest(task_id="x")),
    ("tasks", "ListTasks", tasks_pb2.ListTasksRequest()),
    ("tasks", "CountTasks", tasks_pb2.CountTasksRequest(group_by="status")),
    ("workflows", "ListRuns", workflows_pb2.ListRunsRequest()),
    ("workflows", "CountRuns", workflows_pb2.CountRunsRequest()),
    ("fleet", "ListWorkers", fleet_pb2.ListWorkersRequest()),
    ("artifacts", "GetArtifact", artifacts_pb2.GetArtifactRequest(artifact_id="x")),
    ("artifacts", "ListArtifacts", artifacts_pb2.ListArtifactsRequest()),
    ("fleet", "ListPauses", fleet_pb2.ListPausesRequest()),
]
CHANGING: list[tuple[str, str, Any]] = [
    ("tasks", "SubmitTasks", tasks_pb2.SubmitTasksRequest(tasks=[tasks_pb2.TaskSubmission(task_type="tell")])),
    ("tasks", "CancelTask", tasks_pb2.CancelTaskRequest(task_id="x")),
    ("tasks", "DeleteTaskDefinition", tasks_pb2.DeleteTaskDefinitionRequest(name="x")),
    ("artifacts", "DeleteArtifact", artifacts_pb2.DeleteArtifactRequest(artifact_id="x")),
    ("workflows", "StartRuns", workflows_pb2.StartRunsRequest(runs=[workflows_pb2.RunSubmission(workflow="x")])),
    ("tasks", "MarkTask", tasks_pb2.MarkTaskRequest(task_id="x", marked_as=MARKED_AS_SKIPPED)),
    ("tasks", "CompleteTask", tasks_pb2.CompleteTaskRequest(token="x.y", status=tasks_pb2.TASK_STATUS_SUCCESS)),
    ("tasks", "BroadcastTask", tasks_pb2.BroadcastTaskRequest(task=tasks_pb2.TaskSubmission(task_type="nobody"))),
    ("workflows", "MarkStep", workflows_pb2.MarkStepRequest(run_id="x", step_id="y", marked_as=MARKED_AS_SKIPPED)),
    ("workflows", "PauseRun", workflows_pb2.PauseRunRequest(run_id="x")),
    ("workflows", "ResumeRun", workflows_pb2.ResumeRunRequest(run_id="x")),
    ("fleet", "PauseWork", fleet_pb2.PauseWorkRequest(scope=PauseScope.PAUSE_SCOPE_TASK_TYPE, name="nobody")),
    ("fleet", "ResumeWork", fleet_pb2.ResumeWorkRequest(scope=PauseScope.PAUSE_SCOPE_TASK_TYPE, name="nobody")),
]
WORKING: list[tuple[str, str, Any]] = [
    ("workers", "Heartbeat", workers_pb2.HeartbeatRequest(worker_id="no-such-worker")),
    ("workers", "ReportResults", workers_pb2.ReportResultsRequest(worker_id="no-such-worker")),
]
MAY = {
    Role.VIEWER: READING,
    Role.OPERATOR: READING + CHANGING,
    Role.WORKER: WORKING,
    Role.ADMIN: READING + CHANGING + WORKING,
}


@pytest.mark.parametrize("role", list(Role))
async def test_a_role_may_what_it_is_for_and_nothing_else(shared_site: Site, role: Role) -> None:
    door = shared_site.door(shared_site.token(role))
    for entry in READING + CHANGING + WORKING:
        service, call, request = entry
        try:
            await getattr(getattr(door, service), call)(request, metadata=door.metadata)
            code = grpc.StatusCode.OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
        assert (code != DENIED) == (entry in MAY[role]), (role, call, code)


async def test_another_tenant_sees_and_changes_nothing(shared_site: Site) -> None:
    ours = shared_site.client()
    handle = await ours.submit("pause", {"number": 1, "seconds": 3600}, request_id="shared-id", idempotency_key="key")
    await ours.create_definition(tasks_pb2.TaskDefinition(name="ours", task_type="tell"))
    workflow = workflows_pb2.Workflow(name="ours", steps=[workflows_pb2.WorkflowStep(id="a", task_type="tell")])
    door = shared_site.door(shared_site.token())
    await door.workflows.ApplyWorkflow(workflows_pb2.ApplyWorkflowRequest(workflow=workflow), metadata=door.metadata)
    run = await ours.start_run("ours")

    theirs = shared_site.client(tenant="other")
    other = shared_site.door(shared_site.token(tenant="other"))
    calls: list[tuple[Any, Any]] = [
        (other.tasks.GetTask, tasks_pb2.GetTaskRequest(task_id=handle.id)),
        (other.tasks.CancelTask, tasks_pb2.CancelTaskRequest(task_id=handle.id)),
        (other.tasks.RetryTask, tasks_pb2.RetryTaskRequest(task_id=handle.id)),
        (other.tasks.ExplainTask, tasks_pb2.ExplainTaskRequest(task_id=handle.id)),
        (other.tasks.GetLogs, tasks_pb2.GetLogsRequest(task_id=handle.id)),
        (other.tasks.GetTaskDefinition, tasks_pb2.GetTaskDefinitionRequest(name="ours")),
        (other.tasks.TriggerTask, tasks_pb2.TriggerTaskRequest(name="ours")),
        (other.workflows.GetWorkflow, workflows_pb2.GetWorkflowRequest(name="ours")),
        (other.workflows.GetRun, workflows_pb2.GetRunRequest(run_id=run.id)),
        (other.workflows.CancelRun, workflows_pb2.CancelRunRequest(run_id=run.id)),
        (other.tasks.MarkTask, tasks_pb2.MarkTaskRequest(task_id=handle.id, marked_as=MARKED_AS_SKIPPED)),
        (
            other.workflows.MarkStep,
            workflows_pb2.MarkStepRequest(run_id=run.id, step_id="a", marked_as=MARKED_AS_SKIPPED),
        ),
        (other.workflows.PauseRun, workflows_pb2.PauseRunRequest(run_id=run.id)),
        (other.fleet.GetWorker, fleet_pb2.GetWorkerRequest(worker_id="shared-worker")),
    ]
    for call, request in calls:
        answer = await refused(call(request, metadata=other.metadata))
        assert answer.code == grpc.StatusCode.NOT_FOUND, answer
    streams: list[Any] = [
        other.tasks.WatchTasks(tasks_pb2.WatchTasksRequest(task_ids=[handle.id]), metadata=other.metadata),
        other.tasks.StreamLogs(tasks_pb2.StreamLogsRequest(task_id=handle.id), metadata=other.metadata),
        other.workflows.WatchRun(workflows_pb2.WatchRunRequest(run_id=run.id), metadata=other.metadata),
    ]
    for stream in streams:
        assert (await refused(stream.read())).code == grpc.StatusCode.NOT_FOUND
    assert [task async for task in theirs.list_tasks()] == []
    assert [worker async for worker in theirs.workers()] == []
    assert [queue async for queue in theirs.queues()] == []
    mine = await theirs.submit("pause", {"number": 1}, request_id="shared-id", idempotency_key="key")
    assert mine.id != handle.id
    assert not mine.repeated
    explained = await theirs.explain(mine.id)
    assert [reason.code for reason in explained.reasons] == ["NO_WORKER_FOR_TYPE"]  # our worker is not theirs
    await mine.cancel()
    await handle.cancel()


async def test_a_token_of_a_task_opens_nothing_to_another_tenant_or_to_a_viewer(shared_site: Site) -> None:
    ours = shared_site.client()
    handle = await ours.submit("later")
    token = await until(lambda: token_of(shared_site, handle.id), what="its token")
    request = tasks_pb2.CompleteTaskRequest(token=token, status=tasks_pb2.TASK_STATUS_SUCCESS, output_json='"theirs"')
    other = shared_site.door(shared_site.token(tenant="other"))
    answer = await refused(other.tasks.CompleteTask(request, metadata=other.metadata))
    assert answer.code == grpc.StatusCode.NOT_FOUND
    viewer = shared_site.door(shared_site.token(Role.VIEWER))
    assert (await refused(viewer.tasks.CompleteTask(request, metadata=viewer.metadata))).code == DENIED
    assert await ours.complete_task(token, "ours") == tasks_pb2.TASK_STATUS_SUCCESS
    assert await handle.result(60) == "ours"


async def test_a_pause_is_its_tenant_s_and_everything_is_paused_by_an_admin_alone(shared_site: Site) -> None:
    ours, theirs = shared_site.client(), shared_site.client(tenant="other")
    admin = shared_site.client(Role.ADMIN)
    await theirs.pause_work(PauseScope.PAUSE_SCOPE_TENANT, reason="theirs")
    await theirs.pause_work(PauseScope.PAUSE_SCOPE_TASK_TYPE, "tell")
    assert await (await ours.submit("tell", {"a": 1})).result(60) == {"a": 1}
    assert [pause async for pause in ours.pauses()] == []
    for call in (ours.pause_work, ours.resume_work):
        with pytest.raises(PermissionDenied):
            await call(PauseScope.PAUSE_SCOPE_ALL)
    await admin.pause_work(PauseScope.PAUSE_SCOPE_ALL, reason="moving house")
    held = await ours.submit("tell", {"a": 2})
    assert [reason.code for reason in (await held.explain()).reasons] == ["PAUSED"]
    assert [pause.reason async for pause in ours.pauses()] == ["moving house"]
    await admin.resume_work(PauseScope.PAUSE_SCOPE_ALL)
    assert await held.result(60) == {"a": 2}
    await theirs.resume_work(PauseScope.PAUSE_SCOPE_TENANT)
    await theirs.resume_work(PauseScope.PAUSE_SCOPE_TASK_TYPE, "tell")


async def test_a_tenant_cannot_take_another_s_worker(shared_site: Site) -> None:
    other = shared_site.door(shared_site.token(Role.WORKER, "other"))
    request = workers_pb2.RegisterRequest(worker_id="shared-worker", capabilities=["*"], max_concurrency=1)
    answer = await other.workers.Register(request, metadata=other.metadata)
    assert not answer.accepted
    assert answer.message
    calls: list[tuple[Any, Any]] = [
        (other.workers.Heartbeat, workers_pb2.HeartbeatRequest(worker_id="shared-worker", session_epoch=1)),
        (other.workers.Deregister, workers_pb2.DeregisterRequest(worker_id="shared-worker", session_epoch=1)),
    ]
    for call, message in calls:
        assert (await refused(call(message, metadata=other.metadata))).code == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("secret", ["", "short", "x" * 31])
async def test_a_weak_secret_is_refused_at_the_start(site: Site, secret: str) -> None:
    process = site.launch_scheduler(settings={"TASKYARD_SECRET": secret})
    assert await process.wait() == 64
    assert "TASKYARD_SECRET" in process.text()
    assert "Traceback" not in process.text()
    assert not site.data.exists()


async def test_a_worker_whose_token_is_refused_says_so_and_stops(shared_site: Site) -> None:
    process = shared_site.launch_worker("refused", settings={"TASKYARD_TOKEN": shared_site.token(secret="y" * 64)})
    assert await process.wait() == 73
    assert "Traceback" not in process.text()
    assert "TASKYARD_TOKEN" in process.text()
    wrong_role = shared_site.launch_worker("viewer", settings={"TASKYARD_TOKEN": shared_site.token(Role.VIEWER)})
    assert await wrong_role.wait() == 73
    assert "role" in wrong_role.text()
