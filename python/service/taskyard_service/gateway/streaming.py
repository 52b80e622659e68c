"""Answers a server-streaming call as Server-Sent Events, and ends the call when nobody listens any more.

Each message is an event with its data in one line of JSON; `end` closes a stream that is over, `error` one that failed
after it began. A failure before the first message is an ordinary HTTP error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from google.protobuf.message import Message
from google.rpc import status_pb2
from structlog.typing import FilteringBoundLogger

from taskyard_service.errors import FieldViolation, InvalidArgument, Unavailable
from taskyard_service.gateway.answers import ALWAYS, Send
from taskyard_service.gateway.bodies import Receive
from taskyard_service.gateway.printing import message_json
from taskyard_service.lifecycle import end_tasks

KEEP_ALIVE_S = 15.0
"""How often a silent stream says that it is there, in seconds."""
HEAD_WAIT_S = 1.0
"""How long the first message is awaited before the answer's head goes out: until then a failure has its HTTP code."""
RETRY_MS = 1_000
"""How soon a client is to come back after a broken connection, in milliseconds."""
BUFFERED = 8
"""Messages that a handler may be ahead of the connection."""
EVENT_STREAM = b"text/event-stream"

Tell = Callable[[BaseException], status_pb2.Status]
"""Returns what the client is told of an exception that ended the call."""


class NotAcceptable(InvalidArgument):
    """The client wants another form than events."""

    http_status = HTTPStatus.NOT_ACCEPTABLE


def check_accept(accept: bytes) -> None:
    """Looks at whether a client takes events.

    Raises:
        NotAcceptable: It does not.
    """
    wanted = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    if accept and not wanted & {EVENT_STREAM, b"text/*", b"*/*"}:
        said = "this call answers with a stream of events: accept text/event-stream (curl -N without an Accept header)"
        raise NotAcceptable([FieldViolation("Accept", said)])


class EventStream:
    """One open stream.

    Args:
        id_of: Returns the id of a message's event; empty: none.
        tell: Turns what ended the call into what the client is told.
        log: Told of a call that does not end with its client.
    """

    def __init__(self, id_of: Callable[[Message], str], tell: Tell, log: FilteringBoundLogger) -> None:
        self._log = log
        self._id_of = id_of
        self._tell = tell
        self._messages: deque[Message] = deque()
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._begun = False
        self._gone = False
        self._closing = False

    async def write(self, message: Message) -> None:
        """Takes a message from the handler; returns when there is room for another."""
        self._messages.append(message)
        self._news.set()
        while len(self._messages) >= BUFFERED:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """Ends the stream because the server goes down: its client is told to resume elsewhere."""
        self._closing = True
        self._news.set()

    async def run(self, call: Coroutine[Any, Any, None], receive: Receive, send: Send) -> None:
        """Carries out the call and sends its messages, until it ends, the client goes or the server goes down.

        Raises:
            Exception: What ended the call before anything was sent.
        """
        calling = asyncio.create_task(call, name="http.stream")
        watching = asyncio.create_task(self._watch(receive), name="http.stream.client")
        calling.add_done_callback(lambda _done: self._news.set())
        try:
            await self._pump(calling, send)
        finally:
            await end_tasks((calling, watching), self._log)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._news.set()

    async def _pump(self, calling: asyncio.Task[None], send: Send) -> None:
        while True:
            came = await self._wait(KEEP_ALIVE_S if self._begun else HEAD_WAIT_S)
            if self._gone:
                return
            self._news.clear()
            ended = calling.done()
            error = _error(calling) if ended else None
            if not self._begun and not self._messages and error is not None:
                raise error
            text = self._opening() if not self._begun else b"" if came else b": keep-alive\n\n"
            text += self._taken()
            over = ended or self._closing
            if over:
                text += self._last(ended, error)
            await self._send(send, text, more=not over)
            if over:
                return

    async def _wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _opening(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS

    def _taken(self) -> bytes:
        events = []
        while self._messages:
            message = self._messages.popleft()
            id = self._id_of(message)
            events.append((f"id: {id}\n" if id else "").encode() + b"data: " + message_json(message) + b"\n\n")
        self._room.set()
        return b"".join(events)

    def _last(self, ended: bool, error: BaseException | None) -> bytes:
        if not ended:
            said = "this server is going down: resume the stream, here or elsewhere"
            error = Unavailable("GOING_DOWN", said, retry_after_s=RETRY_MS / 1_000)
        if error is None:
            return b"event: end\ndata: {}\n\n"
        return b"event: error\ndata: " + message_json(self._tell(error)) + b"\n\n"

    async def _send(self, send: Send, text: bytes, *, more: bool) -> None:
        if not self._begun:
            self._begun = True
            headers = [*ALWAYS, (b"content-type", EVENT_STREAM + b"; charset=utf-8"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text, "more_body": more})


def _error(task: asyncio.Task[None]) -> BaseException | None:
    """Returns what ended a task that is done."""
    if task.cancelled():
        return Unavailable("CANCELLED", "the server gave the stream up: resume it", retry_after_s=RETRY_MS / 1_000)
    return task.exception()
