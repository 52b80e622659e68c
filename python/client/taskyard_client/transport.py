"""The port through which the client reaches a scheduler, and the names of the calls that it makes.

Implemented over gRPC (grpc_transport.py) and, in the simulation, over a simulated network. No retries here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from google.protobuf.message import Message

Req = TypeVar("Req", bound=Message)
Res = TypeVar("Res", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Req, Res]):
    """A call of the contract.

    Attributes:
        service: Name of its service within `taskyard.v1`.
        name: Its name.
        request: Type of what is sent.
        response: Type of what comes back.
        changes: Whether it changes something; a read does not.
    """

    service: str
    name: str
    request: type[Req]
    response: type[Res]
    changes: bool = False

    @property
    def path(self) -> str:
        """As gRPC writes it."""
        return f"/taskyard.v1.{self.service}/{self.name}"

    def __str__(self) -> str:
        return f"{self.service}.{self.name}"


class Transport(Protocol):
    """One way to one scheduler. Used from one event loop only."""

    @property
    def address(self) -> str:
        """Where it goes, for people."""
        ...

    async def unary(self, method: Method[Req, Res], request: Req, timeout: float) -> Res:
        """Makes one call once.

        Args:
            method: Which.
            request: What to send.
            timeout: Seconds after which it ends with DeadlineExceeded.

        Raises:
            TaskyardError: As `statuses.error_of` makes it.
        """
        ...

    def stream(self, method: Method[Req, Res], request: Req) -> AsyncGenerator[Res, None]:
        """Makes one call and yields what comes until the other side ends it; closing the iterator ends it.

        Raises:
            TaskyardError: As `statuses.error_of` makes it.
        """
        ...

    async def close(self) -> None:
        """Ends every call that is under way. Harmless when it is closed already."""


@runtime_checkable
class UploadingTransport(Protocol):
    """A transport that also carries streams to the scheduler, which a simulated one need not."""

    async def upload(self, method: Method[Req, Res], requests: AsyncIterator[Req]) -> Res:
        """Makes one call once that sends a stream and is answered with one message. It has no deadline.

        Raises:
            TaskyardError: As `statuses.error_of` makes it.
            Exception: Whatever `requests` raises.
        """
        ...
