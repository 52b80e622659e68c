"""WorkerService: workers register, speak on their stream, and hand in logs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from taskyard.v1 import workers_pb2 as pb
from taskyard.v1 import workers_pb2_grpc
from taskyard_core.engine import Standing
from taskyard_core.engine.events import Deregister, Register, StreamClosed
from taskyard_core.records import ATTEMPT_COLUMNS, INSTANCE_COLUMNS
from taskyard_scheduler.ingress.named import require_caller
from taskyard_scheduler.ingress.results import read_frame, read_results
from taskyard_scheduler.ingress.workers import read_heartbeat, read_hello, read_registration
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.logs import LogStore
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.streams import WorkerStream
from taskyard_service.errors import Aborted, FieldViolation, InvalidArgument, NotFound, Unavailable
from taskyard_service.identity import current_identity
from taskyard_service.lifecycle import end_tasks

STREAM_ENDINGS = {
    "SESSION_SUPERSEDED": "a newer session of this worker id exists: this one must stop",
    "STREAM_REPLACED": "this session opened a newer stream",
    "DEREGISTERED": "the session has ended",
}


class WorkerService(workers_pb2_grpc.WorkerServiceServicer):
    """Calls of workers. The interceptors have checked token and role."""

    def __init__(self, scheduler: Scheduler, logs: LogStore, heartbeat_interval_s: int) -> None:
        self._scheduler = scheduler
        self._logs = logs
        self._interval_s = heartbeat_interval_s

    async def Register(self, request: pb.RegisterRequest, context: Any) -> pb.RegisterResponse:
        leader = self._scheduler.leader()
        registration = read_registration(request)
        tenant = current_identity().tenant
        answer = await leader.ask(Register(leader.future(), request.worker_id, tenant, registration))
        return pb.RegisterResponse(
            accepted=answer.accepted,
            message=answer.message,
            heartbeat_interval_sec=self._interval_s,
            session_epoch=answer.epoch,
        )

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatResponse:
        leader = self._scheduler.leader()
        _check_caller(leader, request.worker_id)
        verdict = leader.handle(read_heartbeat(request))
        _check(verdict, request.worker_id)
        lost = leader.engine.lost_tokens(request.worker_id, request.attempt_tokens)
        return pb.HeartbeatResponse(ok=verdict == Standing.GOOD, lost_tokens=lost)

    async def AssignTask(
        self, request_iterator: AsyncIterator[pb.AssignTaskRequest], context: Any
    ) -> AsyncIterator[pb.AssignTaskResponse]:
        leader = self._scheduler.leader()
        first = await anext(aiter(request_iterator), None)
        if first is None or not first.HasField("hello"):
            raise InvalidArgument([FieldViolation("hello", "absent: the first frame of a stream must carry it")])
        hello = first.hello
        _check_caller(leader, hello.worker_id, "hello.worker_id")
        stream = WorkerStream(hello.worker_id)
        _check(leader.handle(read_hello(hello, stream)), hello.worker_id)
        leader.handle(read_frame(hello.worker_id, hello.session_epoch, first, stream))
        reader = asyncio.create_task(
            self._read(leader, request_iterator, stream, hello.session_epoch), name=f"stream of {hello.worker_id}"
        )
        try:
            while frames := await stream.take():
                for frame in frames:
                    yield frame
            if reader.done():
                await reader  # what the handling of a frame raised is this call's error, and is logged as one
            _raise_ending(stream.closed or "")
        finally:
            if reader.done() and not reader.cancelled():
                reader.exception()  # seen: it was raised above, or this call ends by something else already
            try:
                await end_tasks((reader,), self._scheduler.log)
            finally:  # also when this call is cancelled meanwhile: the worker must not look as if it were connected
                with suppress(Unavailable):  # a leader that has ended knows of no streams
                    leader.handle(StreamClosed(hello.worker_id, stream))

    async def Deregister(self, request: pb.DeregisterRequest, context: Any) -> pb.DeregisterResponse:
        leader = self._scheduler.leader()
        _check_caller(leader, request.worker_id)
        event = Deregister(leader.future(), request.worker_id, request.session_epoch)
        _check(leader.handle(event), request.worker_id)
        await event.reply  # type: ignore[misc]  # it is the leader's future
        return pb.DeregisterResponse()

    async def ReportResults(self, request: pb.ReportResultsRequest, context: Any) -> pb.ReportResultsResponse:
        leader = self._scheduler.leader()
        _check_caller(leader, request.worker_id)
        event = read_results(request, None)
        event.reply = reply = leader.future()
        _check(leader.handle(event), request.worker_id)
        acks = await reply
        return pb.ReportResultsResponse(
            result_acks=[pb.ResultAck(task_id=id, attempt_token=token, outcome=outcome) for id, token, outcome in acks]
        )

    async def AppendLogs(self, request: pb.AppendLogsRequest, context: Any) -> pb.AppendLogsResponse:
        leader = self._scheduler.leader()
        require_caller(request.worker_id)
        tenant = current_identity().tenant
        acks = []
        for chunk in request.chunks:
            attempt = await _attempt_of(leader, tenant, request.worker_id, chunk)
            if attempt is None:
                acks.append(pb.LogChunkAck(attempt_token=chunk.attempt_token, closed=True))
                continue
            appended = await self._logs.append(tenant, chunk.task_id, attempt, chunk.first_line, chunk.lines)
            acks.append(
                pb.LogChunkAck(attempt_token=chunk.attempt_token, next_line=appended.next_line, closed=appended.closed)
            )
        return pb.AppendLogsResponse(acks=acks)

    async def _read(
        self, leader: Leader, frames: AsyncIterator[pb.AssignTaskRequest], stream: WorkerStream, epoch: int
    ) -> None:
        """Brings the worker's frames to the leader until either end of the stream closes."""
        reason = "ENDED"
        try:
            async for frame in frames:
                self._scheduler.metrics.frames_received.inc()
                await leader.room_for_results()
                verdict = leader.handle(read_frame(stream.worker_id, epoch, frame, stream))
                if verdict == Standing.SUPERSEDED:
                    reason = "SESSION_SUPERSEDED"
                    return
        except Unavailable:
            reason = "NOT_LEADER"
        finally:
            stream.close(reason)


def _raise_ending(reason: str) -> None:
    if reason in STREAM_ENDINGS:
        raise Aborted(reason, STREAM_ENDINGS[reason])
    if reason == "NOT_LEADER":
        raise Unavailable("NOT_LEADER", "this scheduler does not lead any more: use another address, or try again")


def _check(verdict: Standing, worker_id: str) -> None:
    if verdict == Standing.UNKNOWN:
        raise NotFound("WORKER_UNKNOWN", f"worker {worker_id[:200]!r} is not known: register again")
    if verdict == Standing.SUPERSEDED:
        raise Aborted("SESSION_SUPERSEDED", STREAM_ENDINGS["SESSION_SUPERSEDED"])


def _check_caller(leader: Leader, worker_id: str, field: str = "worker_id") -> None:
    """The caller must say who it is. A worker of another tenant does not exist for it."""
    require_caller(worker_id, field)
    worker = leader.engine.cluster.fleet.workers.get(worker_id)
    if worker is not None and worker.tenant != current_identity().tenant:
        _check(Standing.UNKNOWN, worker_id)


async def _attempt_of(leader: Leader, tenant: str, worker_id: str, chunk: pb.LogChunk) -> int | None:
    """Returns the number of the attempt that a chunk belongs to; None when it is not this worker's."""
    instance = leader.engine.cluster.instances.get(chunk.task_id)
    if instance is not None and instance.token == chunk.attempt_token:
        return instance.attempt if (instance.tenant, instance.worker_id) == (tenant, worker_id) else None
    for row in await leader.store.get_instances(tenant, [chunk.task_id]):
        stored = dict(zip(INSTANCE_COLUMNS, row, strict=False))
        if (stored["token"], stored["worker_id"]) == (chunk.attempt_token, worker_id):
            return int(stored["attempt"])
    for row in await leader.store.get_attempts(tenant, chunk.task_id):
        earlier = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
        if (earlier["token"], earlier["worker_id"]) == (chunk.attempt_token, worker_id):
            return int(earlier["attempt"])
    return None
