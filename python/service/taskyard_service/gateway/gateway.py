"""Takes an HTTP request to the RPC that its path belongs to, and the RPC's answer back. An ASGI application.

Not the parts: routes, requests, calls, answers and streams have modules of their own, and so has the web framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.rpc import status_pb2
from structlog.typing import FilteringBoundLogger

from taskyard_service.errors import ResourceExhausted, ServiceError
from taskyard_service.gateway.answers import Answer, Send, answer, failure, status_of
from taskyard_service.gateway.bodies import Disconnected, Receive, Room, check_head, read_body
from taskyard_service.gateway.methods import Binding, bindings_of, methods_of
from taskyard_service.gateway.reading import RequestReader
from taskyard_service.gateway.resuming import Resumption
from taskyard_service.gateway.router import Match, Router
from taskyard_service.gateway.streaming import EventStream, check_accept
from taskyard_service.gateway.table import CallFailed, Metadata, MethodTable
from taskyard_service.interceptors import CountError

STREAM_LIMIT = 512
"""Streams open at once: half of the connections, so that a crowd of watchers leaves room for calls."""
LARGE_BODY_BYTES = 128 * 1024
"""From here on a body is read in a thread: it would hold up every other call for too long."""


class _Route:
    """What is made once for a binding."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.reader = RequestReader(binding)
        self.resumption = Resumption(binding.method)


class Gateway:
    """Serves over HTTP what a method table has.

    Args:
        table: The calls.
        incident: Logs what nobody expected, and returns what the caller is told.
        log: Told of streams that do not end.
        count_error: Told of each request that this module refuses or fails; calls count their own.
        pool: Where the services' descriptors are.
        others: Paths that the application around this one serves.
    """

    def __init__(
        self,
        table: MethodTable,
        incident: Callable[[str, BaseException], ServiceError],
        log: FilteringBoundLogger,
        *,
        count_error: CountError = lambda _method, _code: None,
        pool: DescriptorPool | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        self.methods = methods_of(table.services, pool or descriptor_pool.Default())
        self.bindings = bindings_of(self.methods)
        self._table = table
        self._incident = incident
        self._log = log
        self._count_error = count_error
        self._router = Router(self.bindings, others)
        self._routes = {id(binding): _Route(binding) for binding in self.bindings}
        self._room = Room()
        self._streams: set[EventStream] = set()
        self._closing = False

    def close(self) -> None:
        """Ends every open stream, and each new one: the server goes down."""
        self._closing = True
        for stream in self._streams:
            stream.close()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serves one request."""
        try:
            match = self._router.find(scope["method"], scope["raw_path"].decode("latin-1"))
            if match.binding.method.streams:
                await self._stream(match, scope, receive, send)
                return
            reply = await self._one(match, scope, receive)
        except Disconnected:
            return
        except Exception as error:
            reply = self.failed(scope["path"], error)
        await reply.send(send)

    def failed(self, path: str, error: BaseException) -> Answer:
        """Returns the answer for an exception that no interceptor saw."""
        return failure(self._known(path, error))

    def _known(self, path: str, error: BaseException) -> ServiceError | CallFailed:
        if isinstance(error, CallFailed):
            return error
        if not isinstance(error, ServiceError):
            error = self._incident(path, error)
        self._count_error("http", error.code.name)
        return error

    async def _one(self, match: Match, scope: Any, receive: Receive) -> Answer:
        binding = match.binding
        metadata = metadata_of(scope)
        response = await self._table.call(
            binding.method.name, metadata, lambda: self._read(match, scope, receive)
        )  # fmt: skip
        return answer(response, binding.response_body)

    async def _read(self, match: Match, scope: Any, receive: Receive) -> Message:
        binding = match.binding
        check_head(dict(scope["headers"]), takes_body=bool(binding.body))
        body = await read_body(receive, self._room) if binding.body else b""
        reader = self._routes[id(binding)].reader
        if len(body) < LARGE_BODY_BYTES:
            return reader.read(match.segments, scope["query_string"], body)
        return await asyncio.to_thread(reader.read, match.segments, scope["query_string"], body)

    async def _stream(self, match: Match, scope: Any, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        resumption = self._routes[id(match.binding)].resumption

        def tell(error: BaseException) -> status_pb2.Status:
            return status_of(self._known(scope["path"], error))

        async def read() -> Message:
            check_accept(headers.get(b"accept", b""))
            request = await self._read(match, scope, receive)
            if (last := headers.get(b"last-event-id", b"")) != b"":
                resumption.resume(request, last.decode("latin-1"))
            return request

        stream = EventStream(resumption.id_of, tell, self._log)
        call = await self._table.open_stream(match.binding.method.name, metadata_of(scope), read, stream.write)
        if len(self._streams) >= STREAM_LIMIT:
            call.close()
            raise ResourceExhausted(
                "TOO_MANY_STREAMS", f"{STREAM_LIMIT} streams are open here: try again later", retry_after_s=5.0
            )
        self._streams.add(stream)
        try:
            if self._closing:
                stream.close()
            await stream.run(call, receive, send)
        finally:
            self._streams.discard(stream)


def metadata_of(scope: Any) -> Metadata:
    """Returns a request's headers as a call's metadata."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
