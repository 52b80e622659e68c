from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from taskyard_service.http import CONNECTION_LIMIT, HttpServer, Reason, Response, probe_routes
from taskyard_service.logging import make_logger
from taskyard_service.metrics import Metrics
from taskyard_service.server import CannotListen


class Served:
    def __init__(self) -> None:
        self.reasons: list[Reason] = []
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.log = io.StringIO()
        routes = probe_routes(lambda: self.reasons, self.registry)
        routes["/broken"] = self.broken
        self.server = HttpServer("127.0.0.1", 0, routes, make_logger("t", stream=self.log), request_timeout_s=0.3)

    @staticmethod
    def broken() -> Response:
        raise RuntimeError("hunter2")

    async def raw(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(request)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.server.start()
    yield made
    await made.server.stop()


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://127.0.0.1:{served.server.port}"
    async with httpx.AsyncClient(base_url=address, trust_env=False) as made:
        yield made


async def test_alive_and_ready(served: Served, client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    ready = await client.get("/readyz?verbose=1")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reasons": []})
    served.reasons = [Reason("NOT_LEADER", "another scheduler leads; this one follows")]
    ready = await client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json() == {
        "ready": False,
        "reasons": [{"reason": "NOT_LEADER", "message": "another scheduler leads; this one follows"}],
    }
    assert (await client.get("/healthz")).status_code == 200


async def test_metrics_are_in_the_text_form(served: Served, client: httpx.AsyncClient) -> None:
    served.metrics.workers_healthy.set(3)
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "\nworkflow_workers_healthy 3.0\n" in answer.text


async def test_head_has_the_length_and_no_body(client: httpx.AsyncClient) -> None:
    answer = await client.head("/healthz")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"", "17")


async def test_what_is_not_there_says_what_is(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metricz")
    assert answer.status_code == 404
    assert "/healthz, /readyz, /metrics" in answer.json()["error"]
    answer = await client.post("/healthz", content=b"x" * 100_000)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_route_that_fails_is_logged_and_says_nothing_inside(served: Served, client: httpx.AsyncClient) -> None:
    answer = await client.get("/broken")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert json.loads(served.log.getvalue())["exception"][0]["exc_value"] == "hunter2"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/2.0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00 \xff\xfe\r\n\r\n", b"400"),
        (b"GET http://[oops HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", b"431"),
        (b"GET http://elsewhere/healthz HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
    ],
)
async def test_senseless_and_oversized_requests_get_their_answer(
    served: Served, request_bytes: bytes, status: bytes
) -> None:
    answer = await served.raw(request_bytes)
    assert answer.split(b" ")[1] == status
    assert (await served.raw(b"GET /healthz HTTP/1.1\r\n\r\n")).endswith(b'{"status": "ok"}\n')


async def test_a_slow_request_is_ended(served: Served) -> None:
    assert await served.raw(b"GET /healthz HTTP/1.1\r\nX-Slow") == b""


async def test_idle_connections_do_not_pile_up_and_leave_room_afterwards(served: Served) -> None:
    idle = [await asyncio.open_connection("127.0.0.1", served.server.port) for _ in range(CONNECTION_LIMIT)]
    assert await served.raw(b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    await asyncio.gather(*(reader.read() for reader, _ in idle), return_exceptions=True)
    assert b"200 OK" in await served.raw(b"GET /healthz HTTP/1.1\r\n\r\n")
    for _, writer in idle:
        writer.close()


async def test_stop_ends_open_connections_and_frees_the_port(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    await served.raw(b"GET /healthz HTTP/1.1\r\n\r\n")
    await served.server.stop()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    again = HttpServer("127.0.0.1", served.server.port, {}, make_logger("t"))
    await again.start()
    await again.stop()


class Stubborn(HttpServer):
    """Its connections ignore that they are cancelled, until they are let go."""

    def __init__(self, log: io.StringIO) -> None:
        super().__init__("127.0.0.1", 0, {}, make_logger("t", stream=log), stop_timeout_s=0.01)
        self.runs, self.asked, self.let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.runs.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.asked.set()


async def test_stop_waits_for_no_connection_without_limit_and_stays_cancellable() -> None:
    log = io.StringIO()
    server = Stubborn(log)
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await asyncio.wait_for(server.runs.wait(), 10)
    stopping = asyncio.create_task(server.stop(), name="stopping")
    await asyncio.wait_for(server.asked.wait(), 10)
    stopping.cancel()
    await asyncio.wait({stopping}, timeout=10)
    assert stopping.cancelled()
    await asyncio.wait_for(server.stop(), 10)
    assert json.loads(log.getvalue().splitlines()[0])["event"] == "ignored its cancellation and was left behind"
    server.let_go.set()
    writer.close()


async def test_a_taken_port_is_named(served: Served) -> None:
    with pytest.raises(CannotListen, match=f"port {served.server.port}"):
        await HttpServer("127.0.0.1", served.server.port, {}, make_logger("t")).start()
