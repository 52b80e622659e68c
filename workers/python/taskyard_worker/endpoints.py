"""The worker's HTTP endpoints: /healthz (alive), /readyz (takes tasks), /metrics. GET and HEAD, one request each.

Not a web server: bodies are ignored and every connection is closed after its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from taskyard_worker.metrics import WorkerMetrics

LIMIT_BYTES = 8 * 1024
LIMIT_S = 5.0
CLOSE_S = 1.0
"""How long closing waits for answers that are under way, in seconds."""
TEXT = "text/plain; charset=utf-8"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered."""

    status: int
    body: bytes
    content_type: str = TEXT

    def encode(self, *, head: bool) -> bytes:
        """Return the bytes to send; `head`: without the body."""
        lines = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head else self.body)


class Endpoints:
    """Serves the worker's endpoints.

    Args:
        metrics: What /metrics shows.
        not_ready: Says why the worker takes no tasks; empty when it does.
    """

    def __init__(self, metrics: WorkerMetrics, not_ready: Callable[[], str]) -> None:
        self._metrics = metrics
        self._not_ready = not_ready
        self._server: asyncio.Server | None = None

    async def start(self, bind: str, port: int) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, bind, port, limit=LIMIT_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening; return in bounded time, whatever those who are connected do."""
        if self._server is None:
            return
        self._server.close()
        with suppress(TimeoutError):  # what is left goes with the process
            async with asyncio.timeout(CLOSE_S):
                await self._server.wait_closed()

    def answer(self, method: str, path: str) -> Answer:
        """Answer one request."""
        if method not in ("GET", "HEAD"):
            return Answer(405, b"only GET and HEAD are served here\n")
        if path == "/healthz":
            return Answer(200, b"ok\n")
        if path == "/readyz":
            reason = self._not_ready()
            return Answer(503, f"not ready: {reason}\n".encode()) if reason else Answer(200, b"ok\n")
        if path == "/metrics":
            return Answer(200, generate_latest(self._metrics.registry), CONTENT_TYPE_LATEST)
        return Answer(404, b"served here: /healthz, /readyz, /metrics\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
                path = target.partition("?")[0]
                writer.write(self.answer(method, path).encode(head=method == "HEAD"))
                await writer.drain()
        except (asyncio.LimitOverrunError, ValueError):
            writer.write(Answer(400, b"not an HTTP request that is served here\n").encode(head=False))
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            return  # the caller is slow or gone: nobody is left to be answered
        finally:
            writer.close()
