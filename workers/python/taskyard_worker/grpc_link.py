"""The link over gRPC. Says what the contract says, and turns gRPC's errors into `LinkError`.

Not the conversation itself: that is `session`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc.aio import AioRpcError

from taskyard.v1.workers_pb2 import (
    AppendLogsRequest,
    AppendLogsResponse,
    AssignTaskRequest,
    AssignTaskResponse,
    DeregisterRequest,
    DeregisterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
)
from taskyard.v1.workers_pb2_grpc import WorkerServiceStub
from taskyard_client.cancellation import own_cancellation
from taskyard_worker.link import LinkError
from taskyard_worker.retry import with_retries

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
REGISTER_S = 10.0
HEARTBEAT_S = 5.0
DEREGISTER_S = 5.0
LOGS_S = 10.0
THREAD_HEARTBEAT_S = 2.0

_DETAILS = "grpc-status-details-bin"
CHANNEL_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),  # calls wait by their own backoff; what is here comes on top
]

Metadata = tuple[tuple[str, str], ...]


class GrpcLink:
    """A channel to the scheduler. Made inside a running event loop.

    Args:
        address: `host:port`, or any target that gRPC knows.
        token: The worker's bearer token.
        random: Source of jitter.
        certificates: Those that sign the scheduler's, in PEM; None: no TLS.
    """

    def __init__(self, address: str, token: str, random: Random, certificates: bytes | None = None) -> None:
        self._random = random
        self._metadata = bearer(token)
        self._address = address
        self._certificates = certificates
        self._channel = self._open()
        self._stub: Any = WorkerServiceStub(self._channel)

    def _open(self) -> grpc.aio.Channel:
        """Open a channel with a connection of its own: one that shared the old one's would be as dead."""
        options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        if self._certificates is None:
            return grpc.aio.insecure_channel(self._address, options=options)
        credentials = grpc.ssl_channel_credentials(self._certificates)
        return grpc.aio.secure_channel(self._address, credentials, options=options)

    async def register(self, request: RegisterRequest) -> RegisterResponse:
        """Announce the worker and open a session."""
        answer: RegisterResponse = await self._call("Register", request, REGISTER_S)
        return answer

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Tell that the worker lives."""
        answer: HeartbeatResponse = await self._call("Heartbeat", request, HEARTBEAT_S)
        return answer

    async def deregister(self, request: DeregisterRequest) -> DeregisterResponse:
        """End the session."""
        answer: DeregisterResponse = await self._call("Deregister", request, DEREGISTER_S)
        return answer

    async def append_logs(self, request: AppendLogsRequest) -> AppendLogsResponse:
        """Append log lines."""
        answer: AppendLogsResponse = await self._call("AppendLogs", request, LOGS_S)
        return answer

    async def open_stream(self) -> GrpcStream:
        """Open the stream."""
        channel = self._channel
        return GrpcStream(self._stub.AssignTask(metadata=self._metadata), lambda: channel is not self._channel)

    async def renew(self) -> None:
        """Close the channel, with every call on it, and go on with another."""
        given_up, self._channel = self._channel, self._open()
        self._stub = WorkerServiceStub(self._channel)
        await given_up.close()

    async def close(self) -> None:
        """Close the channel, and with it every call."""
        await self._channel.close()

    async def _call(self, method: str, request: object, timeout: float) -> Any:
        async def once(limit: float) -> Any:
            channel = self._channel
            with own_cancellation():
                try:
                    return await getattr(self._stub, method)(request, timeout=limit, metadata=self._metadata)
                except AioRpcError as error:
                    raise link_error(error) from error
                except asyncio.CancelledError as error:
                    if channel is self._channel:
                        raise
                    raise LinkError("CANCELLED", "", "the connection was given up") from error

        return await with_retries(method, once, timeout, self._random)


class ThreadLink:
    """Heartbeats for a thread that speaks while the event loop cannot. Its channel is made when it is first needed.

    Args: as for GrpcLink.
    """

    def __init__(self, address: str, token: str, certificates: bytes | None = None) -> None:
        self._address = address
        self._metadata = bearer(token)
        self._certificates = certificates
        self._channel: grpc.Channel | None = None
        self._closed = False

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Send a heartbeat; blocks the calling thread. Raises LinkError."""
        if self._closed:
            raise LinkError("CANCELLED", "", "the link is closed")
        channel = self._channel = self._channel or self._open()
        stub: Any = WorkerServiceStub(channel)
        try:
            answer: HeartbeatResponse = stub.Heartbeat(request, timeout=THREAD_HEARTBEAT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            raise link_error(error) from error
        except ValueError as error:  # gRPC's word for a channel that was closed meanwhile
            raise LinkError("CANCELLED", "", str(error)) from error
        return answer

    def close(self) -> None:
        """Close the channel, and end a call that waits. From any thread."""
        self._closed = True
        if self._channel is not None:
            self._channel.close()

    def _open(self) -> grpc.Channel:
        if self._certificates is None:
            return grpc.insecure_channel(self._address, options=CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._certificates)
        return grpc.secure_channel(self._address, credentials, options=CHANNEL_OPTIONS)


class GrpcStream:
    """One call of AssignTask.

    Args:
        call: The call.
        given_up: Tells whether its connection was given up, which cancels the call.
    """

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[AssignTaskRequest, AssignTaskResponse],
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._call = call
        self._given_up = given_up
        self._closed = False

    async def send(self, frame: AssignTaskRequest) -> None:
        """Send a frame; returns when the transport has taken it."""
        with own_cancellation():
            try:
                await self._call.write(frame)
            except AioRpcError as error:
                raise link_error(error) from error
            except asyncio.InvalidStateError as error:
                raise await self._ending() from error
            except asyncio.CancelledError as error:
                if not (self._closed or self._given_up()):
                    raise
                raise LinkError("CANCELLED", "", "the stream was closed") from error

    async def _ending(self) -> LinkError:
        """Return how the call has ended; what was sent after that must not hide why."""
        call = self._call
        code = await call.code()
        if code in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
            return LinkError("UNAVAILABLE", "", "the stream has ended")
        trailing = await call.trailing_metadata()
        return link_error(AioRpcError(code, await call.initial_metadata(), trailing, await call.details()))

    async def receive(self) -> AssignTaskResponse | None:
        """Return the next frame, or None at a clean end."""
        with own_cancellation():
            try:
                frame = await self._call.read()
            except AioRpcError as error:
                raise link_error(error) from error
            except asyncio.CancelledError:
                if not (self._closed or self._given_up()):
                    raise
                return None
        return frame if isinstance(frame, AssignTaskResponse) else None

    async def close(self) -> None:
        """End the call."""
        self._closed = True
        self._call.cancel()


def bearer(token: str) -> Metadata:
    """Return the metadata that every call carries."""
    return (("authorization", f"Bearer {token}"),) if token else ()


def link_error(error: Any) -> LinkError:
    """Turn gRPC's error into ours: an AioRpcError, or the error of a call that blocks."""
    reason, retry_after = "", None
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            reason, retry_after = read_details(value)
    return LinkError(error.code().name, reason, error.details() or error.code().name, retry_after)


def read_details(data: bytes) -> tuple[str, float | None]:
    """Return the ErrorInfo's reason and the RetryInfo's delay in seconds, as far as they are there."""
    reason, retry_after = "", None
    for detail in Status.FromString(data).details:
        info, retry = ErrorInfo(), RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    return reason, retry_after
