"""What goes back over HTTP: messages as canonical JSON, errors as google.rpc.Status with the code that HTTP has for it.

Fields without presence are printed at their defaults too: who reads an answer with curl sees what there is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from taskyard_service.errors import ServiceError
from taskyard_service.gateway.printing import message_json
from taskyard_service.gateway.router import NotAllowed
from taskyard_service.gateway.table import CallFailed
from taskyard_service.status import HTTP_STATUS, to_proto

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
JSON = b"application/json"
ALWAYS: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
CHALLENGE = b'Bearer realm="taskyard"'
BAD_TOKEN = {"TOKEN_INVALID", "TOKEN_EXPIRED"}


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        """Sends it."""
        length = (b"content-length", str(len(self.body)).encode())
        headers = [*ALWAYS, *self.headers, length]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def answer(message: Message, response_body: str = "") -> Answer:
    """Returns the answer that a message is; `response_body` names the field that is the whole body, if one is."""
    body = message_json(message)
    if response_body:
        field = message.DESCRIPTOR.fields_by_name[response_body]
        body = json.dumps(json.loads(body).get(field.json_name), ensure_ascii=False).encode()
    return Answer(200, ((b"content-type", JSON),), body + b"\n")


def status_of(error: ServiceError | CallFailed) -> status_pb2.Status:
    """Returns what a caller is told of an error."""
    return error.status if isinstance(error, CallFailed) else to_proto(error)


def failure(error: ServiceError | CallFailed) -> Answer:
    """Returns the answer that an error is."""
    status = status_of(error)
    headers = [(b"content-type", JSON)]
    http_status = HTTP_STATUS[error.code]
    if isinstance(error, ServiceError) and error.http_status is not None:
        http_status = error.http_status.value
    if isinstance(error, NotAllowed):
        headers.append((b"allow", error.allowed.encode()))
    if http_status == 401:
        headers.append((b"www-authenticate", _challenge(status)))
    if (seconds := _retry_after(status)) is not None:
        headers.append((b"retry-after", str(seconds).encode()))
    return Answer(http_status, headers, message_json(status) + b"\n")


def _challenge(status: status_pb2.Status) -> bytes:
    info = error_details_pb2.ErrorInfo()
    bad = any(detail.Unpack(info) and info.reason in BAD_TOKEN for detail in status.details)
    return CHALLENGE + (b', error="invalid_token"' if bad else b"")


def _retry_after(status: status_pb2.Status) -> int | None:
    """Returns whole seconds: the header has no smaller ones."""
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        if detail.Unpack(retry):
            return max(1, math.ceil(int(retry.retry_delay.ToMilliseconds()) / 1_000))
    return None
