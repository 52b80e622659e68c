"""Reads the body of an HTTP request: bounded in size and in time, and only when somebody wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from taskyard_service.errors import DeadlineExceeded, FieldViolation, InvalidArgument, ResourceExhausted
from taskyard_service.server import MESSAGE_LIMIT_BYTES

BODY_LIMIT_BYTES = MESSAGE_LIMIT_BYTES
"""As gRPC's messages: 16 MiB."""
BODY_TIMEOUT_S = 60.0
"""How long a whole body may take to arrive, in seconds."""

ROOM_BYTES = 16 * BODY_LIMIT_BYTES
"""What all bodies that are arriving may take together: 256 MiB."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]


class Disconnected(Exception):
    """The client has gone: there is nobody to tell."""


class TooLarge(ResourceExhausted):
    """The body has more bytes than a request may have."""

    http_status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, limit: int) -> None:
        said = f"the body has more than {limit} bytes: send less at once, for example in several calls"
        super().__init__("BODY_TOO_LARGE", said, metadata={"limit_bytes": str(limit)})


class TooSlow(DeadlineExceeded):
    """The body did not arrive in time."""

    http_status = HTTPStatus.REQUEST_TIMEOUT

    def __init__(self, seconds: float) -> None:
        super().__init__("BODY_TOO_SLOW", f"the body did not arrive within {seconds:g} s: send it again")


class NoRoom(ResourceExhausted):
    """Too much is arriving at once."""

    def __init__(self) -> None:
        super().__init__("TOO_MUCH_AT_ONCE", "too many large bodies arrive at once: try again", retry_after_s=1.0)


class Room:
    """What the bodies that are arriving take of memory."""

    def __init__(self, limit: int = ROOM_BYTES) -> None:
        self._limit = limit
        self.taken = 0

    def take(self, size: int) -> None:
        """Takes room for a piece.

        Raises:
            NoRoom: There is none.
        """
        if self.taken + size > self._limit:
            raise NoRoom
        self.taken += size


class UnknownEncoding(InvalidArgument):
    """The body is compressed."""

    http_status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


def check_head(headers: dict[bytes, bytes], *, takes_body: bool) -> None:
    """Looks at what a request's head says of its body.

    Raises:
        TooLarge: It says that it is too large.
        InvalidArgument: It is compressed, or comes where none is taken.
    """
    encoding = headers.get(b"content-encoding", b"identity")
    if encoding.lower() != b"identity":
        said = f"{encoding[:40].decode('latin-1')!r}: send the body as it is, without compression"
        raise UnknownEncoding([FieldViolation("Content-Encoding", said)])
    length = headers.get(b"content-length", b"0")
    if not takes_body and (b"transfer-encoding" in headers or length != b"0"):
        said = "this call takes no body: its fields go into the query, as in ?pageSize=5 (curl -G --data-urlencode)"
        raise InvalidArgument([FieldViolation("body", said)])
    if length.isdigit() and int(length) > BODY_LIMIT_BYTES:
        raise TooLarge(BODY_LIMIT_BYTES)


async def read_body(
    receive: Receive, room: Room, limit: int = BODY_LIMIT_BYTES, timeout_s: float | None = None
) -> bytes:
    """Returns a request's body.

    Raises:
        TooLarge: It has more than `limit` bytes.
        NoRoom: It and the others that are arriving have too many.
        TooSlow: It took longer than the timeout.
        Disconnected: The client has gone.
    """
    allowed_s = BODY_TIMEOUT_S if timeout_s is None else timeout_s
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(allowed_s):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                chunk: bytes = message.get("body", b"")
                if size + len(chunk) > limit:
                    raise TooLarge(limit)
                room.take(len(chunk))
                size += len(chunk)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise TooSlow(allowed_s) from None
    finally:
        room.taken -= size
