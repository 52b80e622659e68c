"""The task type `http` against a server on a real socket."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from task_port import Port
from wire_server import Talk, WireServer, answer, cut_off, silent, wire_server

from taskyard_worker.errors import InvalidInput, NonRetryable, Retryable
from taskyard_worker.tasks import http as module
from taskyard_worker.tasks.http import http
from taskyard_worker.web.waiting import MAX_WAITS

SECRET = "Bearer s3cr3t-t0ken"


@pytest.fixture
async def server() -> AsyncIterator[WireServer]:
    async with wire_server() as server:
        yield server


@pytest.fixture
def port() -> Port:
    return Port()


async def test_a_request_carries_what_it_is_told_and_json_comes_back_as_json(server: WireServer, port: Port) -> None:
    server.will(answer(201, {"id": 7, "ü": [1.5, None]}, x_two="2"))
    url = f"{server.address}/things?a=b%20c"
    headers = {"X-One": "1", "Authorization": SECRET}
    given = await http(port.ctx, url, method="post", headers=headers, body={"name": "ü"})
    assert (given["status"], given["body"], given["headers"]["x-two"]) == (201, {"id": 7, "ü": [1.5, None]}, "2")
    (request,) = server.requests
    assert (request.method, request.path, request.json()) == ("POST", "/things?a=b%20c", {"name": "ü"})
    assert (request.headers["x-one"], request.headers["authorization"]) == ("1", SECRET)
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("taskyard-worker/")
    assert port.logged == []


@pytest.mark.parametrize(
    ("body", "headers", "sent", "kind"),
    [
        ("plain ü", None, "plain ü", "text/plain; charset=utf-8"),
        ("<a/>", {"Content-Type": "application/xml"}, "<a/>", "application/xml"),
        ([1, "x"], None, '[1,"x"]', "application/json"),
        (False, None, "false", "application/json"),
        (None, None, "", None),
    ],
)
async def test_a_body_is_text_or_json(
    server: WireServer, port: Port, body: Any, headers: Any, sent: str, kind: str | None
) -> None:
    server.will(answer(200))
    await http(port.ctx, server.address, method="PUT", headers=headers, body=body)
    assert (server.requests[0].body.decode(), server.requests[0].headers.get("content-type")) == (sent, kind)


@pytest.mark.parametrize(
    ("data", "kind", "body"),
    [
        (b'{"a": 1}', "application/json; charset=utf-8", {"a": 1}),
        (b'{"a": 1}', "application/problem+json", {"a": 1}),
        (b"null", "application/json", None),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        (b'{"a": ', "application/json", '{"a": '),
        (b'{"a": NaN}', "application/json", '{"a": NaN}'),
        (b"[1e999]", "application/json", "[1e999]"),
        (b'"\\ud800"', "application/json", '"\\ud800"'),
        (b"[" * 100_000, "application/json", "[" * 100_000),
        ("ü".encode("latin-1"), "text/plain; charset=latin-1", "ü"),
        ("ü".encode(), "text/plain; charset=no-such", "ü"),
        (b"", "text/plain", ""),
        (json.dumps(["x" * 100_000]).encode(), "application/json", ["x" * 100_000]),
    ],
)
async def test_a_body_that_is_no_good_json_is_text(
    server: WireServer, port: Port, data: bytes, kind: str, body: Any
) -> None:
    server.will(answer(200, data, content_type=kind))
    assert (await http(port.ctx, server.address))["body"] == body


@pytest.mark.parametrize(
    ("data", "kind", "stored"),
    [(b"\x89PNG\0\1", "image/png", "image/png"), (b"caf\xe9", "text/plain", "text/plain"), (b"\0", "odd; x", "")],
)
async def test_a_body_that_is_no_text_is_an_artifact(
    server: WireServer, port: Port, data: bytes, kind: str, stored: str
) -> None:
    server.will(answer(200, data, content_type=kind))
    output = await http(port.ctx, f"{server.address}/pictures/cat.png?key=1")
    assert port.artifacts.bytes == {output["body"]: data}
    (named,) = port.artifacts.named
    assert named.name == "cat.png"
    assert named.media_type == stored or not stored


async def test_a_compressed_body_is_read_and_a_broken_one_said(server: WireServer, port: Port) -> None:
    server.will(
        answer(200, gzip.compress(b"squeezed"), content_encoding="gzip"),
        answer(200, b"squeezed", content_encoding="gzip"),
    )
    assert (await http(port.ctx, server.address))["body"] == "squeezed"
    with pytest.raises(NonRetryable, match="not compressed as it says"):
        await http(port.ctx, server.address)


async def test_head_has_no_body(server: WireServer, port: Port) -> None:
    server.will(answer(200, b"not seen"))
    assert (await http(port.ctx, server.address, method="HEAD"))["body"] == ""


@pytest.mark.parametrize(
    ("expect", "status", "good"),
    [
        (None, 204, True), (None, 304, False), ("404", 404, True), (404, 404, True), ("2xx,404", 404, True),
        (["2XX", 404], 200, True), (["5xx"], 503, True), ("201", 200, False), ("3xx", 301, True),
    ],
)  # fmt: skip
async def test_what_is_expected_is_a_success(
    server: WireServer, port: Port, expect: Any, status: int, good: bool
) -> None:
    server.will(answer(status))
    if good:
        assert (await http(port.ctx, server.address, expect=expect))["status"] == status
    else:
        with pytest.raises((NonRetryable, Retryable), match=f"was answered {status}"):
            await http(port.ctx, server.address, expect=expect)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, NonRetryable), (401, NonRetryable), (403, NonRetryable), (404, NonRetryable), (409, NonRetryable),
        (408, Retryable), (425, Retryable), (429, Retryable), (500, Retryable), (502, Retryable), (503, Retryable),
        (302, NonRetryable), (202, Retryable), (599, Retryable),
    ],
)  # fmt: skip
async def test_which_answers_are_worth_another_attempt(
    server: WireServer, port: Port, status: int, kind: type[Exception]
) -> None:
    server.will(answer(status, "because it is so"))
    with pytest.raises(kind, match=rf"^GET {server.address}/a was answered {status}.*: because it is so$"):
        await http(port.ctx, f"{server.address}/a?q=secret", expect=200)


async def test_a_redirect_is_told_and_not_followed(server: WireServer, port: Port) -> None:
    server.will(answer(307, location="/elsewhere?key=secret"))
    with pytest.raises(NonRetryable, match=f"it leads to {server.address}/elsewhere$"):
        await http(port.ctx, server.address)
    assert len(server.requests) == 1


async def test_no_cookie_of_one_task_goes_with_another(server: WireServer, port: Port) -> None:
    server.will(answer(200, set_cookie="session=1; Path=/"))
    assert (await http(port.ctx, server.address))["headers"]["set-cookie"] == "session=1; Path=/"
    await http(port.ctx, server.address)
    assert "cookie" not in server.requests[1].headers


async def test_secrets_stand_in_no_error(server: WireServer, port: Port) -> None:
    echo = f"you sent {SECRET} with key-12345 to us"
    server.will(answer(403, echo))
    url = f"{server.address}/x?token=t0k3n"
    with pytest.raises(NonRetryable) as caught:
        await http(port.ctx, url, headers={"Authorization": SECRET, "X-Key": "key-12345"})
    said = str(caught.value)
    assert said.endswith("you sent [hidden] with [hidden] to us")
    assert [each for each in (SECRET, "s3cr3t", "key-12345", "t0k3n") if each in said + repr(port.logged)] == []
    assert server.requests[0].headers["authorization"] == SECRET


async def test_user_and_password_of_an_address_are_sent_and_stand_in_no_error(server: WireServer, port: Port) -> None:
    server.will(answer(403, "someone:passw0rd may not"))
    with pytest.raises(NonRetryable) as caught:
        await http(port.ctx, server.address.replace("http://", "http://someone:passw0rd@"))
    assert str(caught.value).startswith(f"GET {server.address}/ was answered 403")
    assert "passw0rd" not in str(caught.value)
    assert server.requests[0].headers["authorization"].startswith("Basic ")


async def test_it_waits_as_long_as_it_is_asked_and_tries_again(server: WireServer, port: Port) -> None:
    server.will(answer(429, retry_after="0.01"), answer(503, retry_after="0"), answer(200, "now"))
    assert (await http(port.ctx, server.address))["body"] == "now"
    assert len(server.requests) == 3
    assert [line.partition(";")[2] for line in port.logged] == [
        " waiting 0.01 s, as it asks",
        " waiting 0 s, as it asks",
    ]


async def test_it_does_not_wait_longer_than_the_attempt_has(server: WireServer) -> None:
    server.will(answer(429, "slow down", retry_after="120"))
    with pytest.raises(Retryable, match="slow down, and asks to wait 120 s, longer than this attempt can"):
        await http(Port(run_timeout_s=100).ctx, server.address)
    assert len(server.requests) == 1


async def test_a_server_that_always_asks_to_wait_is_not_asked_for_ever(server: WireServer, port: Port) -> None:
    server.will(answer(503, retry_after="0"))
    with pytest.raises(Retryable, match=f"had asked to wait {MAX_WAITS} times before"):
        await http(port.ctx, server.address)
    assert len(server.requests) == MAX_WAITS + 1


async def test_a_connection_that_breaks_may_be_tried_again(server: WireServer, port: Port) -> None:
    async def half(talk: Talk) -> None:
        await talk.head(200, content_length="100")
        await talk.send(b"half")
        talk.cut()

    server.will(cut_off, half)
    for _ in range(2):
        with pytest.raises(Retryable, match="the connection broke before the answer was complete"):
            await http(port.ctx, server.address)


async def test_nobody_there_may_be_tried_again(port: Port) -> None:
    async with wire_server() as server:
        address = server.address
    with pytest.raises(Retryable, match=f"^GET {address}/: no connection"):
        await http(port.ctx, address)


async def test_a_large_answer_is_not_read_to_its_end(
    server: WireServer, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BODY_BYTES", 1000)
    server.will(answer(200, b"x" * 1000), answer(200, b"x" * 1001))
    assert len((await http(port.ctx, server.address))["body"]) == 1000
    with pytest.raises(NonRetryable, match="more than 1,000 bytes"):
        await http(port.ctx, server.address)


async def test_a_cancel_closes_the_connection(server: WireServer, port: Port) -> None:
    server.will(silent)
    task = asyncio.create_task(http(port.ctx, server.address))
    await server.changed.until(lambda: bool(server.talks))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.changed.until(server.talks[0].gone.is_set)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": 5}, "'url' must be an address"),
        ({"url": "ftp://host/x"}, "it has the scheme 'ftp' and the host 'host'"),
        ({"url": "http://"}, "'url' must be an address"),
        ({"url": "http://host:port:secret"}, "and this one is none"),
        ({"url": "http://me:secret@host/", "headers": {"Authorization": "x"}}, "'url' has a user and 'headers.author"),
        ({"method": "TRACE"}, "'method' is 'TRACE'; it must be one of GET, HEAD"),
        ({"method": 5}, "'method' is 5"),
        ({"headers": ["a"]}, "'headers' must be an object"),
        ({"headers": {"a b": "x"}}, "'headers' has the name 'a b'"),
        ({"headers": {"a": "x\r\nb: secret"}}, "'headers.a' must be text on one line"),
        ({"headers": {"a": ["secret"]}}, "'headers.a' must be text on one line"),
        ({"headers": {"a": "\ud800"}}, "'headers.a' must be text on one line"),
        ({"headers": {"Content-Length": "5"}}, "'headers.Content-Length' is set by the worker"),
        ({"body": "\ud800"}, "'body' cannot be sent"),
        ({"body": {"a": float("nan")}}, "'body' cannot be sent"),
        ({"expect": "ok"}, "'expect' is 'ok'; it must be a status"),
        ({"expect": []}, "'expect' is \\[\\]"),
        ({"expect": True}, "'expect' is True"),
        ({"expect": 700}, "'expect' is 700"),
        ({"header": {}}, "'header' is no input of http, which has url, method, headers, body and expect"),
    ],
)  # fmt: skip
async def test_what_breaks_a_rule_is_named(port: Port, values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        await http(port.ctx, **{"url": "http://127.0.0.1:1/", **values})
    assert "secret" not in str(caught.value)
