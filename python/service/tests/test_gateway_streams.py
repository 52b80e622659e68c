"""Streams over HTTP: events, ids, resumption, failures, and that a call ends with its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from gateway_kit import Doors, Event, bearer, client, doors, events, reason, violations

from taskyard_service.gateway import streaming
from taskyard_service.gateway.protocol import Bounds

WATCH = "/api/v1/things:watch"


@pytest.fixture
async def served() -> AsyncIterator[Doors]:
    async with doors() as made:
        yield made


@pytest.fixture
async def http(served: Doors) -> AsyncIterator[httpx.AsyncClient]:
    async with client(served) as made:
        yield made


async def test_a_stream_is_events_with_ids_and_an_end(http: httpx.AsyncClient) -> None:
    answer = await http.get(WATCH, headers={"accept": "text/event-stream"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.startswith("retry: 1000\n\n")
    found = events(answer.text)
    assert [(event.kind, event.id) for event in found] == [
        ("message", "1"), ("message", "2"), ("message", "3"), ("end", ""),
    ]  # fmt: skip
    assert [event.data.get("revision") for event in found] == ["1", "2", "3", None]


async def test_ids_of_several_fields_come_from_the_last_element(http: httpx.AsyncClient) -> None:
    first = events((await http.post("/api/v1/lines", json={})).text)
    assert [event.id for event in first] == ["1.2", "1.4", "", ""]
    again = await http.post("/api/v1/lines", json={"count": 1}, headers={"last-event-id": "3.7"})
    lines = events(again.text)[0].data["lines"]
    assert lines == [{"part": 3, "line": "8"}, {"part": 3, "line": "9"}]


async def test_the_last_event_id_goes_over_the_start_that_the_query_gives(http: httpx.AsyncClient) -> None:
    started = events((await http.get(f"{WATCH}?afterRevision=10")).text)
    assert started[0].id == "11"
    resumed = events((await http.get(f"{WATCH}?afterRevision=10", headers={"last-event-id": "20"})).text)
    assert resumed[0].id == "21"


@pytest.mark.parametrize("id", ["x", "1.2", "-1", "9" * 19, "9" * 30, "1;2", "²"])
async def test_an_id_of_something_else_is_refused(http: httpx.AsyncClient, id: str) -> None:
    answer = await http.get(WATCH, headers={b"last-event-id": id.encode()})
    assert list(violations(answer)) == ["Last-Event-ID"]


async def test_a_broken_connection_is_taken_up_again_without_gap_or_repeat(served: Doors) -> None:
    seen: list[str] = []
    async with client(served) as http:
        async with http.stream("GET", f"{WATCH}?filter=long") as answer:
            async for line in answer.aiter_lines():
                if line.startswith("id: "):
                    seen.append(line[4:])
                if len(seen) == 3:
                    break
        await served.servicer.closed.wait()
        seen += [e.id for e in events((await http.get(WATCH, headers={"last-event-id": seen[-1]})).text) if e.id]
    assert seen == ["1", "2", "3", "4", "5", "6"]


async def test_a_failure_before_the_first_message_has_its_http_code(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{WATCH}?filter=refused")
    assert (answer.status_code, reason(answer)) == (404, "GONE")
    assert answer.headers["content-type"] == "application/json"


async def test_a_failure_later_is_an_event_with_the_status(served: Doors, http: httpx.AsyncClient) -> None:
    found = events((await http.get(f"{WATCH}?filter=fails")).text)
    assert [event.kind for event in found] == ["message"] * 3 + ["error"]
    assert found[-1].data["code"] == 13
    assert "i-1" in found[-1].data["message"]
    assert "hunter2" not in str(found[-1].data)
    assert "hunter2" in served.log.getvalue()


async def test_who_takes_no_events_is_told_so(http: httpx.AsyncClient) -> None:
    answer = await http.get(WATCH, headers={"accept": "application/json"})
    assert answer.status_code == 406
    assert "text/event-stream" in violations(answer)["Accept"]
    for accept in ("*/*", "text/*", "application/json, text/event-stream;q=0.5"):
        assert (await http.get(WATCH, headers={"accept": accept})).status_code == 200


async def test_the_call_ends_at_once_when_its_client_goes(served: Doors) -> None:
    async with client(served) as http, http.stream("GET", f"{WATCH}?filter=long") as answer:
        await anext(answer.aiter_lines())
    await asyncio.wait_for(served.servicer.closed.wait(), 5)
    assert served.log.getvalue() == ""


async def test_the_call_ends_when_its_client_goes_before_the_first_message(served: Doors) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.http.port)
    head = f"GET {WATCH}?filter=silent HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['authorization']}\r\n\r\n"
    writer.write(head.encode())
    await served.servicer.watching.wait()
    writer.close()
    await asyncio.wait_for(served.servicer.closed.wait(), 5)


async def test_a_silent_stream_has_its_head_soon_and_says_that_it_is_there(
    served: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "HEAD_WAIT_S", 0.01)
    monkeypatch.setattr(streaming, "KEEP_ALIVE_S", 0.02)
    lines = []
    async with client(served) as http, http.stream("GET", f"{WATCH}?filter=silent") as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            lines.append(line)
            if lines.count(": keep-alive") == 2:
                served.servicer.go.set()
    assert [Event(line).kind for line in lines if line.startswith("event")] == ["end"]
    assert sum(line.startswith("id: ") for line in lines) == 3


async def test_streams_end_when_the_server_stops_and_say_why(served: Doors) -> None:
    async with client(served) as http, http.stream("GET", f"{WATCH}?filter=long") as answer:
        lines = answer.aiter_lines()
        async for line in lines:
            if line == "id: 3":
                break
        stopping = asyncio.create_task(served.http.stop())
        rest = "\n".join([line async for line in lines])
        await asyncio.wait_for(stopping, 5)
    (last,) = (event for event in events(rest) if event.kind == "error")
    assert last.data["details"][0]["reason"] == "GOING_DOWN"
    assert served.servicer.closed.is_set()


async def test_who_does_not_read_holds_the_handler_back_and_is_dropped() -> None:
    async with doors(bounds=Bounds(write_s=0.2)) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.http.port, limit=1)
        head = f"GET {WATCH}?filter=endless HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['authorization']}\r\n\r\n"
        writer.write(head.encode())
        await asyncio.wait_for(served.servicer.closed.wait(), 10)
        writer.close()
        del reader


async def test_there_is_a_limit_to_streams(served: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_service.gateway.gateway.STREAM_LIMIT", 1)
    async with client(served) as http, http.stream("GET", f"{WATCH}?filter=long") as answer:
        await anext(answer.aiter_lines())
        refused = await http.get(WATCH)
        assert (refused.status_code, reason(refused)) == (429, "TOO_MANY_STREAMS")
        assert refused.headers["retry-after"] == "5"
        assert (await http.get("/api/v1/things/x")).status_code == 200
    await served.servicer.closed.wait()


async def test_nonsense_behind_a_request_ends_the_stream_and_writes_nothing_into_it(served: Doors) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http.port)
    head = f"GET {WATCH}?filter=long HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['authorization']}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"id: 3\n")
    writer.write(b"nonsense\r\n\r\n")
    await asyncio.wait_for(served.servicer.closed.wait(), 5)
    try:
        assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 10)
    except ConnectionError:
        pass
    writer.close()
