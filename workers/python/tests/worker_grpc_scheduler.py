"""A scheduler's WorkerService over real gRPC, under the test's control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from worker_fakes import Signal

from taskyard.v1.workers_pb2 import (
    AppendLogsRequest,
    AppendLogsResponse,
    AssignTaskRequest,
    AssignTaskResponse,
    DeregisterRequest,
    DeregisterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LogChunkAck,
    RegisterRequest,
    RegisterResponse,
    TaskAssignment,
    TaskResult,
)
from taskyard.v1.workers_pb2_grpc import WorkerServiceServicer, add_WorkerServiceServicer_to_server

LIMIT = 16 * 1024 * 1024


async def abort(context: Any, code: grpc.StatusCode, reason: str, retry_s: float | None = None) -> None:
    """End a call with the details that the contract promises."""
    details: list[AnyMessage] = []
    for message in (
        ErrorInfo(domain="taskyard", reason=reason),
        *([] if retry_s is None else [RetryInfo(retry_delay={"nanos": int(retry_s * 1e9)})]),
    ):
        packed = AnyMessage()
        packed.Pack(message)
        details.append(packed)
    status = Status(code=code.value[0], message=f"{reason} in words", details=details)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(code, status.message)


class GrpcScheduler(WorkerServiceServicer):
    """Keeps what workers say; acknowledges results; answers with what the test has put into `errors`."""

    def __init__(self) -> None:
        self.changed = Signal()
        self.accepted = True
        self.forgetful = False  # True: knows no worker that has not registered with it
        self.errors: list[tuple[grpc.StatusCode, str, float | None]] = []
        self.tokens: list[str] = []
        self.registrations: list[RegisterRequest] = []
        self.heartbeats: list[HeartbeatRequest] = []
        self.deregistrations: list[DeregisterRequest] = []
        self.frames: list[AssignTaskRequest] = []
        self.results: dict[str, TaskResult] = {}
        self.lines: dict[str, list[str]] = {}
        self.streams = 0
        self.acknowledge = True
        self._outgoing: asyncio.Queue[AssignTaskResponse | None] = asyncio.Queue()

    @property
    def started(self) -> list[str]:
        return [ack.attempt_token for frame in self.frames for ack in frame.acknowledgements]

    def push(self, **parts: Any) -> None:
        self._outgoing.put_nowait(AssignTaskResponse(**parts))

    def assign(self, *assignments: TaskAssignment) -> None:
        self.push(assignments=assignments)

    def end_stream(self) -> None:
        self._outgoing.put_nowait(None)

    async def result(self, token: str) -> TaskResult:
        await self.changed.until(lambda: token in self.results)
        return self.results[token]

    async def connected(self, number: int = 1) -> None:
        await self.changed.until(lambda: self.streams >= number)

    async def _enter(self, context: Any, *, registering: bool = False) -> None:
        self.tokens += [value for key, value in context.invocation_metadata() if key == "authorization"]
        if self.errors:
            await abort(context, *self.errors.pop(0))
        if self.forgetful and not self.registrations and not registering:
            await abort(context, grpc.StatusCode.NOT_FOUND, "UNKNOWN_WORKER", None)

    async def Register(self, request: RegisterRequest, context: Any) -> RegisterResponse:
        await self._enter(context, registering=True)
        self.registrations.append(request)
        self.changed()
        message = "" if self.accepted else "no room for you"
        return RegisterResponse(
            accepted=self.accepted, message=message, heartbeat_interval_sec=1, session_epoch=len(self.registrations)
        )

    async def Heartbeat(self, request: HeartbeatRequest, context: Any) -> HeartbeatResponse:
        await self._enter(context)
        self.heartbeats.append(request)
        self.changed()
        return HeartbeatResponse(ok=True)

    async def Deregister(self, request: DeregisterRequest, context: Any) -> DeregisterResponse:
        await self._enter(context)
        self.deregistrations.append(request)
        self.changed()
        return DeregisterResponse()

    async def AppendLogs(self, request: AppendLogsRequest, context: Any) -> AppendLogsResponse:
        await self._enter(context)
        acks = []
        for chunk in request.chunks:
            lines = self.lines.setdefault(chunk.attempt_token, [])
            for number, line in enumerate(chunk.lines, chunk.first_line):
                if number == len(lines):
                    lines.append(line.text)
            acks.append(LogChunkAck(attempt_token=chunk.attempt_token, next_line=len(lines)))
        self.changed()
        return AppendLogsResponse(acks=acks)

    async def ReportResults(self, request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no worker of this kind reports outside its stream")

    async def AssignTask(self, request_iterator: Any, context: Any) -> AsyncIterator[AssignTaskResponse]:
        await self._enter(context)
        reading = asyncio.create_task(self._read(request_iterator), name="frames of the worker")
        try:
            while (frame := await self._outgoing.get()) is not None:
                yield frame
        finally:
            reading.cancel()
            await asyncio.wait((reading,))

    async def _read(self, frames: Any) -> None:
        async for frame in frames:
            self.frames.append(frame)
            if frame.HasField("hello"):
                self.streams += 1
            for result in frame.results:
                self.results[result.attempt_token] = result
            if frame.results and self.acknowledge:
                self.ack(frame.results)
            self.changed()

    def ack(self, results: Iterable[TaskResult]) -> None:
        acks = [{"task_id": r.task_id, "attempt_token": r.attempt_token, "outcome": 1} for r in results]
        self.push(result_acks=acks)


@asynccontextmanager
async def serving(scheduler: GrpcScheduler, port: int = 0) -> AsyncIterator[int]:
    """Serve on loopback; give the port."""
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT)]
    )
    add_WorkerServiceServicer_to_server(scheduler, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(0)
