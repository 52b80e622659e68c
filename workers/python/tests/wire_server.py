"""An HTTP server of the tests on real sockets: answers as it is told to, byte by byte, or breaks off.

Also speaks the protocol of OpenAI-compatible endpoints, as far as it is told what to say.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from worker_fakes import Signal


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Talk:
    """One request and what is answered. `gone`: set when the client has closed the connection."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.gone = asyncio.Event()
        self._writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Sends each piece on its own."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def head(self, status: int, **headers: str) -> None:
        """Sends status and headers; the body ends with the connection."""
        lines = [f"HTTP/1.1 {status} Told", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    def cut(self) -> None:
        """Breaks the connection off, so that the client sees a reset and no orderly end."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Reply = Callable[[Talk], Awaitable[None]]


class WireServer:
    """Answers requests with what it was told, in order; the last for ever."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.changed = Signal()
        self.talks: list[Talk] = []
        self._replies: deque[Reply] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()
        return f"http://{host}:{port}"

    def will(self, *replies: Reply) -> None:
        self._replies = deque(replies)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._talk(await read_request(reader), reader, writer)
        finally:
            self._running.discard(task)
            writer.close()

    async def _talk(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(request, writer)
        self.requests.append(request)
        self.talks.append(talk)
        reply = self._replies.popleft() if len(self._replies) > 1 else self._replies[0]
        watch = asyncio.create_task(self._watch(reader, talk))
        self.changed()
        try:
            await reply(talk)
        finally:
            watch.cancel()
            await asyncio.wait((watch,))

    async def _watch(self, reader: asyncio.StreamReader, talk: Talk) -> None:
        with suppress(ConnectionError):
            await reader.read(1)
        talk.gone.set()
        self.changed()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def wire_server() -> AsyncIterator[WireServer]:
    server = WireServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


# --- replies ---------------------------------------------------------------------------------------


def answer(status: int, body: bytes | str | Any = b"", **headers: str) -> Reply:
    """Answers with a whole body; what is neither bytes nor text is sent as JSON."""
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
        headers.setdefault("content_type", "application/json")
    data = body.encode() if isinstance(body, str) else body

    async def reply(talk: Talk) -> None:
        await talk.head(status, content_length=str(len(data)), **headers)
        if talk.request.method != "HEAD":
            await talk.send(data)

    return reply


async def cut_off(talk: Talk) -> None:
    """Breaks the connection off without a word."""
    talk.cut()


async def silent(talk: Talk) -> None:
    """Says nothing until the client leaves."""
    await talk.gone.wait()


def chunk(text: str = "", *, finish: str | None = None, model: str = "tiny-1", **more: Any) -> dict[str, Any]:
    """One piece of an answer, as endpoints stream it."""
    delta = {"content": text} if text else {}
    return {"model": model, "choices": [{"index": 0, "delta": {**delta, **more}, "finish_reason": finish}]}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    """The last piece, in which tokens are counted."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"model": "tiny-1", "choices": [], "usage": counts}


def sse(*events: dict[str, Any] | str) -> bytes:
    """Events on the wire."""
    return b"".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode() for event in events)


def says(*words: str, finish: str = "stop", done: bool = True) -> bytes:
    """A whole answer on the wire, a piece for each word."""
    events: list[dict[str, Any] | str] = [chunk(word) for word in words]
    events += [chunk(finish=finish), usage(3, len(words))]
    return sse(*events, *(["[DONE]"] if done else []))


def streams(*pieces: bytes, gate: asyncio.Event | None = None, cut: bool = False) -> Reply:
    """Streams events in these pieces; before the last one waits for the gate; breaks off at the end, or just ends."""

    async def reply(talk: Talk) -> None:
        await talk.head(200, content_type="text/event-stream")
        await talk.send(*pieces[:-1])
        if gate is not None:
            await gate.wait()
        await talk.send(pieces[-1])
        if cut:
            talk.cut()

    return reply


def bytewise(data: bytes) -> Sequence[bytes]:
    """Each byte on its own."""
    return [data[at : at + 1] for at in range(len(data))]
