"""The worker's way to the scheduler, as a port: calls and the stream, whatever carries them.

Not gRPC: that is `grpc_link`. Tests and the simulation bring their own.
"""

from __future__ import annotations

from typing import Protocol

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
from taskyard_worker.errors import WorkerError


class LinkError(WorkerError):
    """A call or stream failed.

    Attributes:
        code: Name of the gRPC status code, for example `UNAVAILABLE`.
        reason: Reason of the error's ErrorInfo, for example `SESSION_SUPERSEDED`; empty when it has none.
        message: A sentence for people; names the method when a call failed.
        retry_after: Seconds that the scheduler asks to wait before another try; None when it does not ask.
    """

    def __init__(self, code: str, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def superseded(self) -> bool:
        """Whether a newer session of this worker id exists."""
        return self.code == "ABORTED" and self.reason == "SESSION_SUPERSEDED"

    @property
    def unknown_worker(self) -> bool:
        """Whether the scheduler does not know the worker, so that it must register again."""
        return self.code == "NOT_FOUND"


class WorkerStream(Protocol):
    """One open stream. One task sends and one receives; `close` may come from any task and ends both.

    Frames arrive in the order sent. After an error or a clean end the stream is of no more use.
    """

    async def send(self, frame: AssignTaskRequest) -> None:
        """Send a frame; returns when it may be followed by the next. Raises LinkError."""
        ...

    async def receive(self) -> AssignTaskResponse | None:
        """Return the next frame, or None when the scheduler ended the stream cleanly. Raises LinkError."""
        ...

    async def close(self) -> None:
        """End the stream. May be repeated; raises nothing."""
        ...


class Link(Protocol):
    """The calls of WorkerService that a worker makes.

    Unary calls are retried inside, within one deadline; every method raises LinkError when it fails for good.
    """

    async def register(self, request: RegisterRequest) -> RegisterResponse:
        """Announce the worker and open a session."""
        ...

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Tell that the worker lives."""
        ...

    async def deregister(self, request: DeregisterRequest) -> DeregisterResponse:
        """End the session."""
        ...

    async def append_logs(self, request: AppendLogsRequest) -> AppendLogsResponse:
        """Append log lines."""
        ...

    async def open_stream(self) -> WorkerStream:
        """Open the stream. The first frame sent must carry `hello`."""
        ...

    async def renew(self) -> None:
        """Give up the connection, which carries nothing any more: its calls and streams end, the next use another."""
        ...
