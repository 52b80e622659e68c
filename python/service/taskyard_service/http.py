"""The plain HTTP port of a server process: GET for /healthz, /readyz and /metrics, nothing else.

Not a web framework: no bodies, no keep-alive, one answer for each connection. It must stand up to slow,
oversized and senseless requests, since it is open to whoever reaches the address.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from structlog.typing import FilteringBoundLogger

from taskyard_service.lifecycle import end_tasks
from taskyard_service.server import CannotListen, cannot_listen

REQUEST_LIMIT_BYTES = 16 * 1024
REQUEST_TIMEOUT_S = 5.0
"""How long a request may take to arrive, and its answer to be taken, in seconds."""
STOP_TIMEOUT_S = 2.0
"""How long a stop waits for connections that were ended to be gone, in seconds."""
CONNECTION_LIMIT = 64
"""Connections answered at once; one more is closed at once."""
DRAIN_LIMIT_BYTES = 256 * 1024
"""How much of a refused request is read and thrown away, so that the refusal can be read."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer.

    Attributes:
        status: HTTP status code.
        body: Its bytes.
        content_type: What they are.
    """

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


Route = Callable[[], Response]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a process is not ready.

    Attributes:
        reason: Machine-readable, UPPER_SNAKE.
        message: A sentence for people.
    """

    reason: str
    message: str


def probe_routes(readiness: Callable[[], Sequence[Reason]], registry: CollectorRegistry) -> dict[str, Route]:
    """Returns the three routes of every server process.

    Args:
        readiness: Returns why the process is not ready; nothing when it is.
        registry: What /metrics shows.
    """

    def healthy() -> Response:
        return _json(HTTPStatus.OK, {"status": "ok"})

    def ready() -> Response:
        reasons = [{"reason": r.reason, "message": r.message} for r in readiness()]
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _json(status, {"ready": not reasons, "reasons": reasons})

    def metrics() -> Response:
        return Response(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)

    return {"/healthz": healthy, "/readyz": ready, "/metrics": metrics}


class HttpServer:
    """Answers GET and HEAD on fixed paths.

    Args:
        host: Name or address to listen on.
        port: 0 takes a free one.
        routes: What answers each path.
        log: Told of routes that raise.
        request_timeout_s: How long a request may take to arrive, and its answer to be taken, in seconds.
        stop_timeout_s: How long connections may take to end at the stop, in seconds; and the port to be closed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[str, Route],
        log: FilteringBoundLogger,
        *,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        self.host = host
        self.port = port
        self._routes = routes
        self._log = log
        self._timeout_s = request_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Begins to serve; returns the port, which is now also in `.port`.

        Raises:
            CannotListen: The address is taken or not ours.
        """
        try:
            self._server = await asyncio.start_server(self._connected, self.host, self.port, limit=REQUEST_LIMIT_BYTES)
        except OSError as error:
            raise CannotListen(cannot_listen(self.host, self.port)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def stop(self) -> None:
        """Closes the port and ends every connection; returns in bounded time whatever they do."""
        if self._server is None:
            return
        self._server.close()
        await end_tasks(self._connections, self._log, self._stop_timeout_s)
        try:
            async with asyncio.timeout(self._stop_timeout_s):
                await self._server.wait_closed()
        except TimeoutError:
            self._log.warning("connections were left open", port=self.port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio runs this in a task of its own; we keep it, so that stop can end it.
        task = asyncio.current_task()
        if task is None or len(self._connections) >= CONNECTION_LIMIT:
            writer.transport.abort()
            return
        task.set_name("http.connection")
        self._connections.add(task)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._serve(reader, writer)
        except (TimeoutError, OSError, EOFError, asyncio.CancelledError):
            # The peer was too slow, left, or we stop: there is nobody to tell.
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            response = _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has more than 16 KiB")
            await self._answer(writer, response, with_body=True)
            await _drain(reader)
            return
        method, response = self._respond(head)
        await self._answer(writer, response, with_body=method != "HEAD")
        await _drain(reader)

    def _respond(self, head: bytes) -> tuple[str, Response]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _error(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request")
        method, target, _ = words
        try:
            route = self._routes.get(urlsplit(target).path)
        except ValueError:
            return method, _error(HTTPStatus.BAD_REQUEST, "the request's target cannot be read")
        if route is None:
            known = ", ".join(self._routes)
            return method, _error(HTTPStatus.NOT_FOUND, f"there is nothing here; there is {known}")
        if method not in ("GET", "HEAD"):
            return method, _error(HTTPStatus.METHOD_NOT_ALLOWED, "this takes GET and HEAD")
        try:
            return method, route()
        except Exception as error:
            self._log.error("route failed", path=target[:200], exc_info=error)
            return method, _error(HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the log says why")

    async def _answer(self, writer: asyncio.StreamWriter, response: Response, *, with_body: bool) -> None:
        allow = "Allow: GET, HEAD\r\n" if response.status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = (
            f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
            f"Content-Type: {response.content_type}\r\n"
            f"Content-Length: {len(response.body)}\r\n"
            f"Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + (response.body if with_body else b""))
        await writer.drain()
        writer.write_eof()


async def _drain(reader: asyncio.StreamReader) -> None:
    """Reads what the peer still sends: closing over unread bytes would reset the connection."""
    read = 0
    while read < DRAIN_LIMIT_BYTES:
        chunk = await reader.read(REQUEST_LIMIT_BYTES)
        if not chunk:
            return
        read += len(chunk)


def _json(status: HTTPStatus, content: object) -> Response:
    return Response(status, json.dumps(content).encode() + b"\n")


def _error(status: HTTPStatus, sentence: str) -> Response:
    return _json(status, {"error": sentence})
