"""Calls of every kind through a real server with both interceptors."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import fleet_pb2_grpc, tasks_pb2_grpc, workers_pb2_grpc
from taskyard.v1.fleet_pb2 import ListWorkersRequest
from taskyard.v1.tasks_pb2 import (
    GetTaskRequest,
    GetTaskResponse,
    SubmitTasksRequest,
    TaskInstance,
    WatchTasksRequest,
    WatchTasksResponse,
)
from taskyard.v1.workers_pb2 import AssignTaskRequest, AssignTaskResponse
from taskyard_service.access import contract_access
from taskyard_service.errors import NotFound, ServiceError, Unavailable
from taskyard_service.identity import Identity, Role, TokenVerifier, current_identity, sign_token
from taskyard_service.interceptors import AuthInterceptor, ErrorInterceptor
from taskyard_service.logging import make_logger
from taskyard_service.server import GrpcServer
from taskyard_service.status import DETAILS_KEY

SECRET = "s" * 32
NOW_MS = 1_000_000_000_000


class Odd(Exception):
    pass


class Tasks(tasks_pb2_grpc.TaskServiceServicer):
    """Answers by the task id that it is asked for."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.reached: list[str] = []

    async def GetTask(self, request: Any, context: Any) -> Any:
        self.reached.append(request.task_id)
        match request.task_id:
            case "missing":
                raise NotFound("TASK_NOT_FOUND", "there is no task 'missing'", metadata={"task_id": "missing"})
            case "odd":
                raise Odd("of a lower layer")
            case "broken":
                raise RuntimeError("the password is hunter2")
            case "abort":
                await context.abort(grpc.StatusCode.DATA_LOSS, "by hand")
        await asyncio.sleep(0)
        who = current_identity()
        return GetTaskResponse(task=TaskInstance(task_id=f"{who.subject}/{who.tenant}/{who.role}"))

    async def WatchTasks(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            yield WatchTasksResponse()
            if request.ByteSize() == 0:
                raise NotFound("GONE", "gone on the way")
            await asyncio.Event().wait()
        finally:
            self.closed.set()


class Workers(workers_pb2_grpc.WorkerServiceServicer):
    async def AssignTask(  # type: ignore[override]  # the stubs know only generators
        self, request_iterator: Any, context: Any
    ) -> None:
        async for frame in request_iterator:
            if frame.draining:
                raise Unavailable("GOING_DOWN", f"bye {current_identity().subject}", retry_after_s=2)
            await context.write(AssignTaskResponse(drain=True))


class Served:
    def __init__(self, port: int, tasks: Tasks, log: io.StringIO, counted: list[tuple[str, str]]) -> None:
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.tasks = tasks
        self.log = log
        self.counted = counted
        self.task_stub = tasks_pb2_grpc.TaskServiceStub(self.channel)
        self.worker_stub = workers_pb2_grpc.WorkerServiceStub(self.channel)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    log, counted = io.StringIO(), list[tuple[str, str]]()
    tasks = Tasks()  # type: ignore[abstract]  # the rest is not called

    def translate(error: Exception) -> ServiceError | None:
        return NotFound("ODD", f"odd {error}") if isinstance(error, Odd) else None

    def count(method: str, code: str) -> None:
        counted.append((method, code))

    verifier = TokenVerifier(SECRET, lambda: NOW_MS)
    interceptors = [
        ErrorInterceptor(make_logger("t", stream=log), translate=translate, incident_id=lambda: "i-1"),
        AuthInterceptor(verifier, contract_access(), count_error=count),
    ]
    server = GrpcServer("127.0.0.1", 0, interceptors, stop_grace_s=0)
    tasks_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server.server)
    workers = Workers()  # type: ignore[abstract]  # the rest is not called
    workers_pb2_grpc.add_WorkerServiceServicer_to_server(workers, server.server)
    made = Served(await server.start(), tasks, log, counted)
    yield made
    await made.channel.close()
    await server.stop()


def token(role: Role = Role.ADMIN, subject: str = "anna", tenant: str = "default") -> tuple[tuple[str, str], ...]:
    signed = sign_token(SECRET, Identity(subject, tenant, role), NOW_MS // 1_000 + 60)
    return (("authorization", f"Bearer {signed}"),)


async def failure(call: Any) -> tuple[grpc.StatusCode, str, Any, Any]:
    """Returns code, message, ErrorInfo and the status of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    status = details(caught.value)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return caught.value.code(), caught.value.details() or "", info, status


def details(error: grpc.aio.AioRpcError) -> Any:
    """Returns the google.rpc.Status of an error, which must agree with its code and message."""
    trailers: dict[str, Any] = {name: value for name, value in error.trailing_metadata() or () if name == DETAILS_KEY}
    status = status_pb2.Status.FromString(trailers[DETAILS_KEY])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return status


async def test_the_handler_knows_who_calls_and_calls_do_not_mix(served: Served) -> None:
    async def call(n: int) -> str:
        answer = await served.task_stub.GetTask(
            GetTaskRequest(task_id="x"), metadata=token(subject=f"p{n}", tenant=f"t{n}", role=Role.VIEWER)
        )
        return str(answer.task.task_id)

    answers = await asyncio.gather(*(call(n) for n in range(40)))
    assert answers == [f"p{n}/t{n}/viewer" for n in range(40)]


async def test_a_call_without_token_never_reaches_a_handler(served: Served) -> None:
    code, message, info, _ = await failure(served.task_stub.GetTask(GetTaskRequest(task_id="x")))
    assert (code, info.reason, info.domain) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_MISSING", "taskyard")
    assert "authorization: Bearer" in message
    assert served.tasks.reached == []
    assert served.counted == [("/taskyard.v1.TaskService/GetTask", "UNAUTHENTICATED")]


async def test_a_role_may_do_what_is_listed_and_nothing_else(served: Served) -> None:
    call = served.task_stub.SubmitTasks(SubmitTasksRequest(), metadata=token(Role.VIEWER))
    code, message, info, _ = await failure(call)
    assert (code, info.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_NOT_ALLOWED")
    assert message.startswith("the role 'viewer' may not call ")
    assert "admin, operator" in message
    code, *_ = await failure(served.task_stub.GetTask(GetTaskRequest(), metadata=token(Role.WORKER)))
    assert code is grpc.StatusCode.PERMISSION_DENIED


async def test_a_method_that_is_not_listed_is_refused_to_an_admin_too(served: Served) -> None:
    invented: Any = served.channel.unary_unary("/taskyard.v1.TaskService/Invented")
    code, message, *_ = await failure(invented(b"", metadata=token()))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "nobody may" in message


async def test_a_listed_method_that_is_not_served_is_unimplemented(served: Served) -> None:
    stub = fleet_pb2_grpc.FleetServiceStub(served.channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ListWorkers(ListWorkersRequest(), metadata=token())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_refusals_end_streams_of_every_kind_at_once(served: Served) -> None:
    watching = served.task_stub.WatchTasks(WatchTasksRequest())
    code, *_ = await asyncio.wait_for(failure(watching.read()), 10)
    assert code is grpc.StatusCode.UNAUTHENTICATED
    stream = served.worker_stub.AssignTask(metadata=token(Role.VIEWER))
    code, *_ = await asyncio.wait_for(failure(stream.read()), 10)  # no frame was ever sent
    assert code is grpc.StatusCode.PERMISSION_DENIED


async def test_an_error_of_a_handler_says_what_it_says(served: Served) -> None:
    call = served.task_stub.GetTask(GetTaskRequest(task_id="missing"), metadata=token())
    code, message, info, _ = await failure(call)
    assert (code, message) == (grpc.StatusCode.NOT_FOUND, "there is no task 'missing'")
    assert (info.reason, dict(info.metadata)) == ("TASK_NOT_FOUND", {"task_id": "missing"})
    assert served.log.getvalue() == ""


async def test_an_error_of_a_lower_layer_is_translated(served: Served) -> None:
    code, message, info, _ = await failure(served.task_stub.GetTask(GetTaskRequest(task_id="odd"), metadata=token()))
    assert (code, info.reason, message) == (grpc.StatusCode.NOT_FOUND, "ODD", "odd of a lower layer")


async def test_the_unexpected_is_logged_and_hidden_behind_an_incident_id(served: Served) -> None:
    call = served.task_stub.GetTask(GetTaskRequest(task_id="broken"), metadata=token())
    code, message, info, status = await failure(call)
    assert (code, dict(info.metadata)) == (grpc.StatusCode.INTERNAL, {"incident": "i-1"})
    assert "i-1" in message
    assert "hunter2" not in str(status)
    event = json.loads(served.log.getvalue())
    assert (event["incident"], event["method"]) == ("i-1", "/taskyard.v1.TaskService/GetTask")
    assert event["exception"][0]["exc_value"] == "the password is hunter2"
    assert "locals" not in served.log.getvalue()


async def test_a_handler_may_still_abort_by_hand(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served.task_stub.GetTask(GetTaskRequest(task_id="abort"), metadata=token())
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.DATA_LOSS, "by hand")
    assert served.log.getvalue() == ""


async def test_a_server_stream_fails_after_what_it_has_sent(served: Served) -> None:
    stream = served.task_stub.WatchTasks(WatchTasksRequest(), metadata=token(Role.VIEWER))
    assert isinstance(await stream.read(), WatchTasksResponse)
    code, message, info, _ = await failure(stream.read())
    assert (code, message, info.reason) == (grpc.StatusCode.NOT_FOUND, "gone on the way", "GONE")


async def test_a_client_that_leaves_closes_the_generator_at_once(served: Served) -> None:
    stream = served.task_stub.WatchTasks(WatchTasksRequest(after_revision=1), metadata=token(Role.VIEWER))
    await stream.read()
    assert not served.tasks.closed.is_set()
    stream.cancel()
    await asyncio.wait_for(served.tasks.closed.wait(), 10)
    assert served.log.getvalue() == ""


async def test_a_two_way_stream_works_and_fails_with_all_details(served: Served) -> None:
    stream = served.worker_stub.AssignTask(metadata=token(Role.WORKER, subject="w-1"))
    for _ in range(3):
        await stream.write(AssignTaskRequest(credits=1))
        answer: Any = await stream.read()
        assert answer.drain
    await stream.write(AssignTaskRequest(draining=True))
    code, message, _, status = await failure(stream.read())
    assert (code, message) == (grpc.StatusCode.UNAVAILABLE, "bye w-1")
    retry = error_details_pb2.RetryInfo()
    assert status.details[1].Unpack(retry)
    assert retry.retry_delay.seconds == 2


async def test_a_two_way_stream_ends_well(served: Served) -> None:
    stream = served.worker_stub.AssignTask(metadata=token(Role.WORKER))
    await stream.write(AssignTaskRequest(credits=1))
    await stream.done_writing()
    assert [frame.drain async for frame in stream] == [True]
    assert await stream.code() is grpc.StatusCode.OK
