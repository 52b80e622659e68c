"""The RPCs of this process, callable from inside it: through the very interceptors that gRPC's calls pass.

No connection, and no second copy of who may call what or of how errors are told. What is registered with a gRPC server
is registered here in the same way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2

from taskyard_service.errors import Unimplemented
from taskyard_service.interceptors import Continuation, MethodHandler, run_stream
from taskyard_service.status import DETAILS_KEY

Metadata: TypeAlias = tuple[tuple[str, str], ...]
ReadRequest: TypeAlias = Callable[[], Awaitable[Message]]
"""Returns the request. Not called for a caller who is refused: a stranger's body is not even read."""
Write: TypeAlias = Callable[[Message], Awaitable[None]]


class CallFailed(grpc.aio.AbortError):
    """A call ended with an error.

    Attributes:
        status: What the caller is told.
    """

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> grpc.StatusCode:
        """The status' code."""
        return _CODES[self.status.code]


_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(slots=True)
class CallDetails:
    """What an interceptor is told of a call: `grpc.HandlerCallDetails`."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class CallContext:
    """What a handler is given: the part of `grpc.aio.ServicerContext` that a call inside a process has.

    Args:
        metadata: What came with the call.
        write: Takes each message of a stream; None: the call answers with one message.
    """

    def __init__(self, metadata: Metadata, write: Write | None = None) -> None:
        self._metadata = metadata
        self._write = write

    def invocation_metadata(self) -> Metadata:
        """Returns what came with the call."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Returns None: a call over HTTP has no deadline; its client hangs up."""
        return None

    async def write(self, message: Message) -> None:
        """Sends a message of the stream; returns when there is room for another."""
        if self._write is None:
            raise TypeError("this call answers with one message: return it")
        await self._write(message)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Sequence[tuple[str, Any]] = ()
    ) -> NoReturn:
        """Ends the call with an error."""
        for name, value in trailing_metadata:
            if name == DETAILS_KEY:
                raise CallFailed(status_pb2.Status.FromString(value))
        raise CallFailed(status_pb2.Status(code=code_pb2.Code.Value(code.name), message=details))


class MethodTable:
    """Collects the handlers of services and calls them. Pass it to `add_…Servicer_to_server` as the server.

    Args:
        interceptors: The same objects, in the same order, as the gRPC server's.
    """

    def __init__(self, interceptors: Sequence[grpc.aio.ServerInterceptor]) -> None:
        self._handlers: dict[str, MethodHandler] = {}
        self.services: list[str] = []
        self._intercepted = _chain(interceptors, self._look_up)
        self._admitted = _chain(interceptors, _nothing)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Does nothing: generated code registers the same handlers by name as well."""

    def add_registered_method_handlers(self, service_name: str, method_handlers: Mapping[str, MethodHandler]) -> None:
        """Adds the handlers of a service; called by generated code."""
        self.services.append(service_name)
        self._handlers |= {f"/{service_name}/{name}": handler for name, handler in method_handlers.items()}

    async def permit(self, method: str, metadata: Metadata) -> None:
        """Lets the interceptors judge a call that the caller carries out himself; the identity is set after it.

        Raises:
            CallFailed: They refuse it.
        """
        refusal = await self._admitted(CallDetails(method, metadata))
        if refusal is not None:
            await _refuse(refusal, metadata)

    async def call(self, method: str, metadata: Metadata, read: ReadRequest) -> Message:
        """Makes a call that is answered with one message.

        Raises:
            CallFailed: It ended with an error.
            Exception: Whatever `read` raises.
        """
        handler = await self._handler(method, metadata)
        if handler.unary_unary is None:
            await _refuse(handler, metadata)
        response: Message = await handler.unary_unary(await read(), CallContext(metadata))
        return response

    async def open_stream(
        self, method: str, metadata: Metadata, read: ReadRequest, write: Write
    ) -> Coroutine[Any, Any, None]:
        """Begins a call that is answered with a stream; what is returned carries it out.

        Raises:
            CallFailed: It was refused.
            Exception: Whatever `read` raises.
        """
        handler = await self._handler(method, metadata)
        if handler.unary_stream is None:
            await _refuse(handler, metadata)
        return run_stream(handler.unary_stream, await read(), CallContext(metadata, write))

    async def _handler(self, method: str, metadata: Metadata) -> MethodHandler:
        handler = await self._intercepted(CallDetails(method, metadata))
        if handler is None:
            raise Unimplemented("METHOD_NOT_SERVED", f"{method} is not served here; another server may do it")
        return handler

    async def _look_up(self, details: Any) -> MethodHandler:
        return self._handlers.get(details.method)


def _chain(interceptors: Sequence[grpc.aio.ServerInterceptor], end: Continuation) -> Continuation:
    chain: Any = end
    for interceptor in reversed(interceptors):
        chain = partial(interceptor.intercept_service, chain)
    made: Continuation = chain
    return made


async def _nothing(_details: Any) -> MethodHandler:
    return None


async def _refuse(handler: MethodHandler, metadata: Metadata) -> NoReturn:
    """Runs what an interceptor put in a handler's place; it reads no request."""
    if handler.stream_stream is not None:
        await run_stream(handler.stream_stream, _no_requests(), CallContext(metadata, _no_answer))
    raise TypeError("the handler is of another kind than its method")


async def _no_requests() -> AsyncIterator[Message]:
    nothing: tuple[Message, ...] = ()
    for each in nothing:
        yield each


async def _no_answer(_message: Message) -> None:
    raise TypeError("a refusal answered")
