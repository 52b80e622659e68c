"""Calls over the simulated network, failing as gRPC's do: unary ones with a deadline, and streams.

Messages travel as bytes. Who listens in (`Watcher`) sees them where the server gets them and gives them out.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from google.protobuf.message import Message

from simulation.loop import Process, VirtualLoop, where_raised
from simulation.network import Lane, Network
from taskyard_scheduler.grpc_errors import translate
from taskyard_service.errors import InvalidArgument, ServiceError
from taskyard_service.identity import CURRENT, Identity

CONGESTION_S = 0.02
CLIENT_KEEPALIVE_S = 30.0
SERVER_KEEPALIVE_S = 40.0
"""How long a peer may be silent behind a partition before a connection is given up, as the real options have it."""


class RpcError(Exception):
    """A call ended with a status other than OK."""

    def __init__(self, code: str, reason: str, message: str, source: ServiceError | None = None) -> None:
        super().__init__(f"{code} {reason} {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = source.retry_after_s if source is not None else None
        self.facts = dict(source.metadata) if source is not None else {}
        self.violations = list(source.violations) if isinstance(source, InvalidArgument) else []


@dataclass(frozen=True, slots=True)
class Route:
    """A method as its server has it. `streams`: its handler is an async generator."""

    handler: Callable[[Any, Any], Any]
    request: type[Message]
    response: type[Message]
    streams: bool
    duplex: bool


class Watcher(Protocol):
    """Who listens in."""

    def replied(self, server: Process, path: str, request: Message, response: Message) -> None:
        """A unary call is about to be answered."""

    def heard(self, stream: Stream, frame: Message) -> None:
        """A server has got a frame."""

    def said(self, stream: Stream, frame: Message) -> None:
        """A server gives out a frame."""

    def failed(self, server: Process, path: str, error: str) -> None:
        """A handler raised what it never should."""


class _Call:
    """A unary call under way."""

    def __init__(self, names: tuple[str, str], path: str, identity: Identity, payload: bytes, deadline: float) -> None:
        self.names = names
        self.path = path
        self.identity = identity
        self.payload = payload
        self.deadline = deadline
        self.caller: Process | None = None
        self.answer: asyncio.Future[bytes] | None = None
        self.task: asyncio.Task[None] | None = None
        self.server: Process | None = None
        self.cancelled = False

    def resolve(self, outcome: bytes | RpcError, process: Process) -> None:
        if self.answer is None or self.answer.done() or process is not self.caller:
            return
        if isinstance(outcome, RpcError):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)

    def refuse(self) -> None:
        if self.caller is not None:
            self.resolve(RpcError("UNAVAILABLE", "", "connection refused"), self.caller)


class Stream:
    """One stream: two lanes, an inbox at either end. `label`: who opened it, for the watcher."""

    def __init__(self, fabric: Fabric, caller: Process, names: tuple[str, str], path: str, identity: Identity) -> None:
        self.fabric = fabric
        self.caller = caller
        self.names = names
        self.path = path
        self.identity = identity
        self.server: Process | None = None
        self.up, self.down = Lane(), Lane()
        self.task: asyncio.Task[None] | None = None
        self.facts: dict[str, Any] = {}  # the watcher's
        self._inbox: deque[bytes] = deque()
        self._requests: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._asked = asyncio.Event()
        self._end: RpcError | bool | None = None  # as the client sees it; True: cleanly
        self._closed = False

    # The client's end.

    def send(self, payload: bytes) -> None:
        """Sends bytes up. Raises RpcError once the stream has ended."""
        if self._end is not None or self._closed:
            raise self._end if isinstance(self._end, RpcError) else RpcError("UNAVAILABLE", "", "the stream has ended")
        for _ in range(2 if self.fabric.network.doubled() else 1):
            self._up(partial(self._heard, payload))

    async def drained(self) -> None:
        """Returns when more may be sent: at once, unless what was sent before does not get through (flow control)."""
        while self._end is None and not self._closed and self._congested():  # noqa: ASYNC110 - looking costs nothing in virtual time
            await asyncio.sleep(CONGESTION_S)

    def _congested(self) -> bool:
        return bool(self.up.queue) and (self.up.stalled or not self.fabric.network.swift(self.names))

    async def receive(self) -> bytes | None:
        """Returns what comes next; None at a clean end and after `close`."""
        while not self._inbox and self._end is None and not self._closed:
            self._changed.clear()
            await self._changed.wait()
        if self._closed:
            return None
        if self._inbox:
            return self._inbox.popleft()
        if isinstance(self._end, RpcError):
            raise self._end
        return None

    def close(self) -> None:
        """Ends the call from the client's side."""
        if self._closed:
            return
        self._closed = True
        self._changed.set()
        if self._end is None:
            self._up(self._cancelled)
        self.fabric.forget(self)

    def fail(self, why: str) -> None:
        """The client's end learns that the connection is gone."""
        self._ended(RpcError("UNAVAILABLE", "", why), self.caller)

    def _up(self, deliver: Callable[[Process], object]) -> None:
        network = self.fabric.network
        network.send(self.caller, self.names, deliver, partial(self.fail, "connection refused"), self.up)

    def _received(self, payload: bytes, process: Process) -> None:
        if process is self.caller and self._end is None:
            self._inbox.append(payload)
            self._changed.set()

    def _ended(self, end: RpcError | bool, process: Process) -> None:
        if process is self.caller and self._end is None:
            self._end = end
            self._changed.set()
            self.fabric.forget(self)

    # The server's end.

    def opened(self, process: Process) -> None:
        """The call has come to a server."""
        self.server = process
        self.task = self.fabric.start(self, process)

    async def requests(self, route: Route) -> AsyncIterator[Message]:
        """Yields what the client sends, for as long as the call lives."""
        while True:
            while self._requests:
                frame = route.request.FromString(self._requests.popleft())
                self.fabric.watcher.heard(self, frame)
                yield frame
            self._asked.clear()
            await self._asked.wait()

    def give(self, payload: bytes) -> None:
        """Sends bytes down."""
        for _ in range(2 if self.route_doubles() and self.fabric.network.doubled() else 1):
            self._down(partial(self._received, payload))

    def route_doubles(self) -> bool:
        """Tells whether what goes down may be doubled: only frames of the worker protocol are made for it."""
        return self.path.endswith("AssignTask")

    def finish(self, end: RpcError | bool) -> None:
        """Tells the client that the call is over."""
        self._down(partial(self._ended, end))

    def drop_server(self) -> None:
        """The server's end learns that the connection is gone, as grpc.aio tells it: by cancelling the handler."""
        if self.task is not None and self.server is not None and self.server.alive:
            self.fabric.loop.call_soon(self.task.cancel, context=self.server.context)

    def _down(self, deliver: Callable[[Process], object]) -> None:
        if self.server is not None:
            names = (self.names[1], self.names[0])
            self.fabric.network.send(self.server, names, deliver, self.drop_server, self.down)

    def _heard(self, payload: bytes, process: Process) -> None:
        if process is self.server:
            self._requests.append(payload)
            self._asked.set()
        elif self.task is None and self.server is None:
            self.opened(process)
            self._heard(payload, process)
        else:  # another process has the address by now: it knows nothing of this connection
            self.fabric.network.send(
                process, (self.names[1], self.names[0]), lambda _: self.fail("connection reset"), lambda: None
            )

    def _cancelled(self, process: Process) -> None:
        if process is self.server and self.task is not None:
            self.task.cancel()


class Fabric:
    """All calls: who serves what, and what is under way.

    Args:
        loop: The loop.
        network: Carries the packets.
        watcher: Listens in.
    """

    def __init__(self, loop: VirtualLoop, network: Network, watcher: Watcher) -> None:
        self.loop = loop
        self.network = network
        self.watcher = watcher
        self.streams: dict[Stream, None] = {}
        self._calls: dict[_Call, None] = {}
        self._routes: dict[Process, dict[str, Route]] = {}

    def serve(self, process: Process, routes: dict[str, Route]) -> None:
        """Lets a process answer calls."""
        self._routes[process] = routes

    # Calls.

    async def unary(
        self, names: tuple[str, str], path: str, identity: Identity, request: Message, timeout: float, caller: Process
    ) -> bytes:
        """Makes a call once and returns the serialized answer. Raises RpcError."""
        call = _Call(names, path, identity, request.SerializeToString(), self.loop.now + timeout)
        call.caller, call.answer = caller, self.loop.create_future()
        self._calls[call] = None
        self.network.send(caller, names, partial(self._serve, call), call.refuse)
        if self.network.doubled():
            twin = _Call(names, path, identity, call.payload, call.deadline)
            self.network.send(caller, names, partial(self._serve, twin), lambda: None)
        answered = False
        try:
            async with asyncio.timeout(timeout):
                answer = await call.answer
            answered = True
            return answer
        except TimeoutError:
            raise RpcError("DEADLINE_EXCEEDED", "", "no answer in time") from None
        except RpcError:
            answered = True
            raise
        finally:
            self._calls.pop(call, None)
            if not answered:
                self.network.send(caller, names, partial(self._cancel, call), lambda: None)

    def _cancel(self, call: _Call, process: Process) -> None:
        call.cancelled = True
        if call.task is not None and call.server is process:
            call.task.cancel()

    def _serve(self, call: _Call, process: Process) -> None:
        if call.cancelled:
            return
        call.server = process
        call.task = self.loop.create_task(
            self._answer(call, process), name=f"call {call.path}", context=identified(process, call.identity)
        )
        self.loop.call_at(call.deadline, call.task.cancel, context=process.context)

    async def _answer(self, call: _Call, process: Process) -> None:
        route = self._routes[process][call.path]
        request = route.request.FromString(call.payload)
        outcome: bytes | RpcError
        try:
            response = await route.handler(request, None)
        except Exception as error:
            outcome = self._error(error, process, call.path)
        else:
            self.watcher.replied(process, call.path, request, response)
            outcome = response.SerializeToString()
        names = (call.names[1], call.names[0])
        self.network.send(process, names, partial(call.resolve, outcome), lambda: None)

    def _error(self, error: Exception, process: Process, path: str) -> RpcError:
        known = error if isinstance(error, ServiceError) else translate(error)
        if known is None:
            self.watcher.failed(process, path, f"{error!r}{where_raised(error)}")
            return RpcError("INTERNAL", "INTERNAL", repr(error))
        return RpcError(known.code.name, known.reason, known.message, known)

    # Streams.

    def open(
        self, names: tuple[str, str], path: str, identity: Identity, caller: Process, request: Message | None = None
    ) -> Stream:
        """Opens a stream; with `request`, one on which only the server goes on to speak."""
        stream = Stream(self, caller, names, path, identity)
        self.streams[stream] = None
        if request is not None:
            stream.send(request.SerializeToString())
        return stream

    def forget(self, stream: Stream) -> None:
        """The client's end is over."""
        self.streams.pop(stream, None)

    def start(self, stream: Stream, process: Process) -> asyncio.Task[None]:
        """Runs the handler of a stream."""
        context = identified(process, stream.identity)
        return self.loop.create_task(self._pump(stream, process), name=f"stream {stream.path}", context=context)

    async def _pump(self, stream: Stream, process: Process) -> None:
        route = self._routes[process][stream.path]
        requests = stream.requests(route)
        if route.duplex:
            responses = route.handler(requests, None)
        else:
            responses = route.handler(await anext(requests), None)
        try:
            async for response in responses:
                self.watcher.said(stream, response)
                stream.give(response.SerializeToString())
        except Exception as error:
            stream.finish(self._error(error, process, stream.path))
        else:
            stream.finish(True)

    # Faults.

    def cut(self, stream: Stream, why: str) -> None:
        """Breaks a connection; both ends learn it."""
        self.forget(stream)
        if stream.caller.alive:
            self.loop.call_soon(stream.fail, why, context=stream.caller.context)
        stream.drop_server()

    def stall(self, stream: Stream, seconds: float) -> None:
        """Nothing gets through for a while in either direction, and nobody is told; keepalive notices in the end."""
        stream.up.stalled = stream.down.stalled = True
        world = self.loop.world.context
        if seconds < CLIENT_KEEPALIVE_S:
            self.loop.call_later(seconds, self._unstall, stream, context=world)
            return
        self.loop.call_later(CLIENT_KEEPALIVE_S, self._client_gives_up, stream, context=world)
        self.loop.call_later(SERVER_KEEPALIVE_S, stream.drop_server, context=world)

    def partitioned(self, one: str, other: str, seconds: float) -> None:
        """A partition has begun that will last so long: streams across it are given up if it is long."""
        between = {(one, other), (other, one)}
        world = self.loop.world.context
        for stream in list(self.streams):
            if stream.names in between and seconds >= CLIENT_KEEPALIVE_S:
                self.loop.call_later(CLIENT_KEEPALIVE_S, self._client_gives_up, stream, context=world)
                if seconds >= SERVER_KEEPALIVE_S:
                    self.loop.call_later(SERVER_KEEPALIVE_S, stream.drop_server, context=world)

    def died(self, process: Process, noticed_after: float) -> None:
        """A process is gone: its peers learn it after so many seconds."""
        world = self.loop.world.context
        for stream in list(self.streams):
            if _leads_to(stream, process):
                self.loop.call_later(noticed_after, self._client_gives_up, stream, context=world)
            elif stream.caller is process:
                self.forget(stream)
                self.loop.call_later(noticed_after, stream.drop_server, context=world)
        for call in list(self._calls):
            if _leads_to(call, process) and call.caller is not None:
                self.loop.call_later(noticed_after, call.refuse, context=call.caller.context)
            elif call.caller is process:
                del self._calls[call]
                if call.task is not None and call.server is not None:
                    self.loop.call_later(noticed_after, call.task.cancel, context=call.server.context)

    def _unstall(self, stream: Stream) -> None:
        self.network.release(stream.up)
        self.network.release(stream.down)

    def _client_gives_up(self, stream: Stream) -> None:
        if stream.caller.alive:
            self.loop.call_soon(stream.fail, "keepalive: the peer does not answer", context=stream.caller.context)
            self.loop.call_soon(stream.fabric.forget, stream, context=self.loop.world.context)


def _leads_to(call: Stream | _Call, process: Process) -> bool:
    """Tells whether a call is, or is about to be, answered by a process."""
    return call.server is process or (call.server is None and call.names[1] == process.name)


def identified(process: Process, identity: Identity) -> contextvars.Context:
    """Returns the context of a call in a process."""
    context = process.context.copy()
    context.run(CURRENT.set, identity)
    return context


async def ignore_failure(call: Coroutine[Any, Any, bytes]) -> None:
    """Makes a call of which nobody wants to know whether it got through."""
    with suppress(RpcError):
        await call
