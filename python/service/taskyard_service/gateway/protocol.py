"""uvicorn's HTTP/1.1 protocol with bounds on what a peer can hold: a slow head, a large head, an answer not taken.

Bodies are bounded where they are read (bodies.py), since only there is known what is wanted of them.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from taskyard_service.errors import FieldViolation, InvalidArgument, ServiceError, Unavailable
from taskyard_service.gateway.printing import message_json
from taskyard_service.status import to_proto

LOGGER = "taskyard.http"
SPOKEN = ("1.0", "1.1")
HEAD_LIMIT_BYTES = 64 * 1024
CONNECTION_LIMIT = 1_024
"""Connections at once. One more takes the place of an idle one, or is turned away."""
HEAD_TIMEOUT_S = 5.0
"""How long a request's head may take to arrive, in seconds."""
KEEP_ALIVE_S = 75.0
"""How long a connection may wait for its next request, in seconds: longer than load balancers keep theirs."""
DRAIN_TIMEOUT_S = 5.0
"""How long the rest of a request that is answered already, or the peer's reading of a last answer, may take."""
WRITE_TIMEOUT_S = 30.0
"""How long a peer may leave what is sent to it untaken, in seconds."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one peer may take of time and room. Times in seconds."""

    connections: int = CONNECTION_LIMIT
    head_bytes: int = HEAD_LIMIT_BYTES
    head_s: float = HEAD_TIMEOUT_S
    keep_alive_s: float = KEEP_ALIVE_S
    drain_s: float = DRAIN_TIMEOUT_S
    write_s: float = WRITE_TIMEOUT_S


class HeadTooLarge(InvalidArgument):
    """The request's head has more bytes than it may have."""

    http_status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class BoundedProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        bounds: What its peer may take.
        arguments: uvicorn's own.
    """

    def __init__(self, bounds: Bounds, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.logger = logging.getLogger(LOGGER)
        self.access_log = False
        self.timeout_keep_alive = bounds.keep_alive_s  # type: ignore[assignment]  # whole seconds are not needed
        self._bounds = bounds
        self._in_head = True
        self._head_bytes = 0
        self._body_open = False
        self._refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """True while it waits for a next request."""
        return self.timeout_keep_alive_task is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes the connection, or turns it away when there are too many."""
        super().connection_made(transport)
        over = len(self.connections) - self._bounds.connections
        if over > self._bounds.connections // 4:  # so many read refusals already that this one is not even told
            transport.abort()
        elif over > 0 and not self._make_room():
            self._refuse(Unavailable("TOO_MANY_CONNECTIONS", "too many connections: try again", retry_after_s=1.0))
        else:
            self._within(self._bounds.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets it."""
        for timer in (self._deadline, self._write_deadline):
            if timer is not None:
                timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes bytes; after a refusal they are read and thrown away, so that the peer can read the refusal."""
        if self._refused:
            return
        super().data_received(data)
        if self._in_head and not self._refused:
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.head_bytes:
                self._refuse(self._too_large())
        self._bound_what_is_left()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        self._within(self._bounds.head_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's head is here."""
        self._in_head, self._body_open = False, True
        self._no_deadline()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._bounds.head_bytes:
            self._refuse(self._too_large())
        elif cast(Any, self.parser).get_http_version() not in SPOKEN:
            self.send_400_response("")
        elif not self._refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is here as a whole."""
        self._body_open = False
        if self._refused:
            return
        if self.cycle.response_complete:  # what was read only to be thrown away has come to its end
            self._no_deadline()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered."""
        super().on_response_complete()
        if self.transport.is_closing() or self._body_open:
            self._within(self._bounds.drain_s)

    def pause_writing(self) -> None:
        """The peer does not take what is sent to it."""
        self._write_deadline = self.loop.call_later(self._bounds.write_s, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        """The peer takes it again."""
        if self._write_deadline is not None:
            self._write_deadline.cancel()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """No next request came."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP."""
        said = "this is no HTTP/1.1 request; gRPC is served on another port"
        self._refuse(InvalidArgument([FieldViolation("request", said)], reason="BAD_HTTP"), 400)

    def _too_large(self) -> HeadTooLarge:
        said = f"path, query and headers have more than {self._bounds.head_bytes} bytes: send less"
        return HeadTooLarge([FieldViolation("headers", said)], reason="HEAD_TOO_LARGE")

    def _refuse(self, error: ServiceError, code: int = 503) -> None:
        """Answers without the application, and closes when the peer has had time to read it."""
        self._refused = True
        self._no_deadline()
        cycle = cast(Any, self.cycle)
        if cycle is not None and not cycle.response_complete:  # the application has nobody to answer any more
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        status = error.http_status or code
        body = message_json(to_proto(error)) + b"\n"
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._within(self._bounds.drain_s)

    def _bound_what_is_left(self) -> None:
        """Sees to it that a connection without a request has an end: bytes have ended the wait for the next one."""
        cycle = cast(Any, self.cycle)  # None before the first request
        waits = cycle is None or cycle.response_complete
        if waits and self._deadline is None and not self.idle and not self.transport.is_closing():
            self._within(self._bounds.head_s)

    def _make_room(self) -> bool:
        """Ends one idle connection; False when there is none."""
        for other in self.connections:
            if isinstance(other, BoundedProtocol) and other.idle:
                other.transport.abort()
                return True
        return False

    def _within(self, seconds: float) -> None:
        self._no_deadline()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
