"""The HTTP port as such: probes, and that it stands up to slow, oversized and senseless requests."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CollectorRegistry

from taskyard_service.gateway.app import make_app, paths_of
from taskyard_service.gateway.gateway import Gateway
from taskyard_service.gateway.probes import Reason, probe_routes
from taskyard_service.gateway.protocol import Bounds
from taskyard_service.gateway.server import HttpServer
from taskyard_service.gateway.table import MethodTable
from taskyard_service.interceptors import ErrorInterceptor
from taskyard_service.logging import make_logger
from taskyard_service.metrics import Metrics
from taskyard_service.server import CannotListen

BOUNDS = Bounds(connections=8, head_s=0.3, keep_alive_s=0.3, drain_s=0.3, write_s=0.3)
HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Served:
    def __init__(self) -> None:
        self.reasons: list[Reason] = []
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.log = io.StringIO()
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        self.dropped = asyncio.Event()
        self.cancelled = False
        probes = probe_routes(lambda: self.reasons, self.registry)
        paths = APIRouter()
        for path, endpoint in (("/broken", self.broken), ("/wait", self.wait), ("/large", self.large)):
            paths.add_api_route(path, endpoint, methods=["GET", "POST"])
        log = make_logger("t", stream=self.log)
        errors = ErrorInterceptor(log, incident_id=lambda: "i-1")
        table = MethodTable([errors])
        routes = [probes, paths]
        gateway = Gateway(table, errors.incident, log, others=paths_of(routes))
        app = make_app(gateway, table, lambda: b"{}", routes)
        self.server = HttpServer("127.0.0.1", 0, app, log, stop_grace_s=0.3, bounds=BOUNDS)

    async def broken(self) -> Response:
        raise RuntimeError("hunter2")

    async def wait(self, request: Request) -> Response:
        self.waiting.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Response(b"done")

    async def large(self) -> Response:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                for _ in range(1_000):
                    yield b"x" * 100_000
            finally:
                self.dropped.set()

        return StreamingResponse(chunks())

    async def raw(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionError:
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
    assert ready.headers["cache-control"] == "no-store"
    assert ready.headers["date"].endswith(" GMT")


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
    assert "near it is /metrics" in answer.json()["message"]
    answer = await client.post("/healthz", content=b"x" * 100_000)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.json()["details"][0]["reason"] == "METHOD_NOT_ALLOWED"


async def test_a_route_that_fails_is_logged_once_and_says_nothing_inside(
    served: Served, client: httpx.AsyncClient
) -> None:
    answer = await client.get("/broken")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert "i-1" in answer.json()["message"]
    (line,) = served.log.getvalue().splitlines()
    assert json.loads(line)["exception"][0]["exc_value"] == "hunter2"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/2.0\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00 \xff\xfe\r\n\r\n", b"400"),
        (b"GET http://[oops HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /caf\xc3\xa9 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"431"),
        (b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 50_000 + b"\r\n", b"431"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 100_000, b"431"),
        (b"GET http://elsewhere/healthz HTTP/1.1\r\nConnection: close\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200"),
        (b"\r\nGET /healthz HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n", b"200"),
    ],
)
async def test_senseless_and_oversized_requests_get_their_answer(
    served: Served, request_bytes: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await served.raw(request_bytes)
    assert answer.split(b" ")[1] == status
    if status != b"200":
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == 3
    assert (await served.raw(HEALTHY)).endswith(b'{"status": "ok"}\n')
    assert caplog.records == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX-Slow",
        b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"[:-1],
    ],
)
async def test_a_slow_head_is_ended(served: Served, request_bytes: bytes) -> None:
    assert await served.raw(request_bytes) == b""


async def trickle(writer: asyncio.StreamWriter, part: bytes) -> None:
    """Is a client that sends a little now and then, and so is never idle for long, until it is closed."""
    while not writer.is_closing():
        writer.write(part)
        await asyncio.sleep(0.02)


async def test_a_head_that_trickles_is_ended(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\n")
    task = asyncio.create_task(trickle(writer, b"X: y\r\n"))
    try:
        assert await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionError:
        pass
    finally:
        writer.close()
        await task


async def test_a_body_that_nobody_wants_may_not_trickle(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
    assert b"200" in await reader.readline()
    task = asyncio.create_task(trickle(writer, b"x"))
    try:
        await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        pass
    finally:
        writer.close()
        await task


async def test_a_connection_serves_one_request_after_the_other(served: Served) -> None:
    again = HEALTHY.replace(b"close", b"keep-alive")
    assert (await served.raw(again * 5 + HEALTHY)).count(b"200 OK") == 6
    body = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
    answer = await served.raw(body + HEALTHY)
    assert answer.count(b"405 Method Not Allowed") == 1
    assert answer.count(b"200 OK") == 1


async def test_an_idle_connection_is_ended(served: Served) -> None:
    assert (await served.raw(HEALTHY.replace(b"close", b"keep-alive"))).count(b"200 OK") == 1


@pytest.mark.parametrize(
    "after",
    [
        b"\r\n",
        b"\r\n\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000,
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + b"x" * 199_000,
        b"GET /health",
    ],
)
async def test_a_connection_is_ended_whatever_came_last(served: Served, after: bytes) -> None:
    again = HEALTHY.replace(b"close", b"keep-alive")
    assert (await served.raw(again + after)).count(b"200 OK") == 1


async def test_connections_that_say_nothing_do_not_pile_up(served: Served) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", served.server.port) for _ in range(BOUNDS.connections)]
    refused = await served.raw(HEALTHY)
    assert b" 503 " in refused
    assert b"TOO_MANY_CONNECTIONS" in refused
    more = await asyncio.gather(*(served.raw(b"") for _ in range(BOUNDS.connections)))
    assert b"" in more  # not even told: those that are told hold connections too
    await asyncio.gather(*(reader.read() for reader, _ in silent), return_exceptions=True)
    assert b"200 OK" in await served.raw(HEALTHY)
    for _, writer in silent:
        writer.close()


async def test_an_idle_connection_makes_room_for_a_new_one(served: Served) -> None:
    idle = []
    for _ in range(BOUNDS.connections):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
        writer.write(HEALTHY.replace(b"close", b"keep-alive"))
        await reader.readuntil(b'"ok"}\n')
        idle.append(writer)
    assert b"200 OK" in await served.raw(HEALTHY)
    for writer in idle:
        writer.close()


async def test_who_does_not_take_the_answer_is_dropped(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.server.port, limit=1)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(served.dropped.wait(), 10)
    writer.close()


async def test_stop_ends_open_connections_and_frees_the_port(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.server.port)
    await served.raw(HEALTHY)
    await served.server.stop()
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    again = HttpServer("127.0.0.1", served.server.port, None, make_logger("t"))
    await again.start()
    await again.stop()


async def test_stop_lets_a_request_end_within_the_grace(served: Served, client: httpx.AsyncClient) -> None:
    call = asyncio.create_task(client.get("/wait"))
    await served.waiting.wait()
    stopping = asyncio.create_task(served.server.stop())
    served.go.set()
    assert (await call).text == "done"
    await stopping


async def test_stop_ends_a_request_that_does_not_end(served: Served, client: httpx.AsyncClient) -> None:
    call = asyncio.create_task(client.get("/wait"))
    await served.waiting.wait()
    await asyncio.wait_for(served.server.stop(), 5)
    with pytest.raises(httpx.RemoteProtocolError):
        await call
    assert served.cancelled
    assert "Traceback" not in served.log.getvalue()


async def test_stop_waits_for_no_request_without_limit_and_stays_cancellable(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("taskyard_service.gateway.server.ABORT_S", 0.01)
    log = io.StringIO()
    runs, asked, let_go = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(_scope: object, _receive: object, _send: object) -> None:
        runs.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                asked.set()

    server = HttpServer("127.0.0.1", 0, stubborn, make_logger("t", stream=log), stop_grace_s=0.01)
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(HEALTHY)
    await asyncio.wait_for(runs.wait(), 10)
    stopping = asyncio.create_task(server.stop(), name="stopping")
    await asyncio.wait_for(asked.wait(), 10)
    stopping.cancel()
    await asyncio.wait({stopping}, timeout=10)
    await asyncio.wait_for(server.stop(), 10)
    assert "ignored its cancellation and was left behind" in log.getvalue()
    let_go.set()
    writer.close()


async def test_a_taken_port_is_named(served: Served) -> None:
    with pytest.raises(CannotListen, match=f"port {served.server.port}"):
        await HttpServer("127.0.0.1", served.server.port, None, make_logger("t")).start()
