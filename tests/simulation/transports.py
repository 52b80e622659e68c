"""The worker's link and the client's transport over the simulated network.

Both know all schedulers, as a name with several addresses does, and go to the next one when one cannot serve.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from simulation.calls import Fabric, RpcError, Stream
from simulation.loop import Process
from taskyard.v1 import workers_pb2 as pb
from taskyard_client.errors import ClientClosed, TaskyardError, Violation
from taskyard_client.statuses import error_of
from taskyard_client.transport import Method, Req, Res
from taskyard_service.identity import Identity
from taskyard_worker import grpc_link
from taskyard_worker.link import LinkError
from taskyard_worker.retry import with_retries

WORKER_SERVICE = "/taskyard.v1.WorkerService/"
Answer = TypeVar("Answer", bound=Message)


class Route:
    """One process's way to the schedulers: the address in use, and the next one after a failure."""

    def __init__(self, fabric: Fabric, process: Process, addresses: Sequence[str], identity: Identity) -> None:
        self.fabric = fabric
        self.process = process
        self.identity = identity
        self._addresses = list(addresses)

    @property
    def names(self) -> tuple[str, str]:
        """The hosts of a packet to the present address."""
        return (self.process.name, self._addresses[0])

    def failed(self, error: RpcError, names: tuple[str, str]) -> None:
        """Goes to the next address if this one cannot serve."""
        if error.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and self.names == names:
            self._addresses.append(self._addresses.pop(0))

    async def unary(self, path: str, request: Message, timeout: float) -> bytes:
        """Makes one call. Raises RpcError."""
        names = self.names
        try:
            return await self.fabric.unary(names, path, self.identity, request, timeout, self.process)
        except RpcError as error:
            self.failed(error, names)
            raise

    def open(self, path: str, request: Message | None = None) -> Stream:
        """Opens a stream."""
        return self.fabric.open(self.names, path, self.identity, self.process, request)


class SimLink:
    """A worker's link."""

    def __init__(self, route: Route, rng: random.Random) -> None:
        self._route = route
        self._rng = rng

    async def register(self, request: pb.RegisterRequest) -> pb.RegisterResponse:
        return await self._call("Register", request, pb.RegisterResponse, grpc_link.REGISTER_S)

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        return await self._call("Heartbeat", request, pb.HeartbeatResponse, grpc_link.HEARTBEAT_S)

    async def deregister(self, request: pb.DeregisterRequest) -> pb.DeregisterResponse:
        return await self._call("Deregister", request, pb.DeregisterResponse, grpc_link.DEREGISTER_S)

    async def append_logs(self, request: pb.AppendLogsRequest) -> pb.AppendLogsResponse:
        return await self._call("AppendLogs", request, pb.AppendLogsResponse, grpc_link.LOGS_S)

    async def open_stream(self) -> SimStream:
        return SimStream(self._route, self._route.open(WORKER_SERVICE + "AssignTask"))

    async def renew(self) -> None:
        """Nothing is half-open here: the fabric loses packets, never whole connections."""

    async def _call(self, method: str, request: Message, answer: type[Answer], timeout: float) -> Answer:
        async def once(limit: float) -> bytes:
            try:
                return await self._route.unary(WORKER_SERVICE + method, request, limit)
            except RpcError as error:
                raise link_error(error) from error

        return answer.FromString(await with_retries(method, once, timeout, self._rng))


class SimStream:
    """A worker's end of its stream."""

    def __init__(self, route: Route, stream: Stream) -> None:
        self._route = route
        self._stream = stream

    async def send(self, frame: pb.AssignTaskRequest) -> None:
        try:
            self._stream.send(frame.SerializeToString())
            await self._stream.drained()
        except RpcError as error:
            raise link_error(error) from error

    async def receive(self) -> pb.AssignTaskResponse | None:
        try:
            payload = await self._stream.receive()
        except RpcError as error:
            self._route.failed(error, self._stream.names)
            raise link_error(error) from error
        return None if payload is None else pb.AssignTaskResponse.FromString(payload)

    async def close(self) -> None:
        self._stream.close()


def link_error(error: RpcError) -> LinkError:
    """Returns the error as a worker sees it."""
    return LinkError(error.code, error.reason, error.message, error.retry_after)


class SimTransport:
    """A client's transport."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._streams: dict[Stream, None] = {}
        self._closed = False

    @property
    def address(self) -> str:
        return self._route.names[1]

    async def unary(self, method: Method[Req, Res], request: Req, timeout: float) -> Res:
        self._check_open()
        try:
            payload = await self._route.unary(method.path, request, timeout)
        except RpcError as error:
            raise self._error(error) from error
        return method.response.FromString(payload)

    async def stream(self, method: Method[Req, Res], request: Req) -> AsyncGenerator[Res, None]:
        self._check_open()
        stream = self._route.open(method.path, request)
        self._streams[stream] = None
        try:
            while (payload := await stream.receive()) is not None:
                yield method.response.FromString(payload)
        except RpcError as error:
            self._route.failed(error, stream.names)
            raise self._error(error) from error
        finally:
            self._streams.pop(stream, None)
            stream.close()

    async def close(self) -> None:
        self._closed = True
        for stream in list(self._streams):
            stream.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client is closed")

    def _error(self, error: RpcError) -> TaskyardError:
        return error_of(
            error.code,
            error.message,
            address=self.address,
            reason=error.reason,
            facts=error.facts,
            violations=[Violation(each.field, each.description) for each in error.violations],
            retry_after=error.retry_after,
        )
