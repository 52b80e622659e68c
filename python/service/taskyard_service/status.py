"""Turns a ServiceError into what travels: a gRPC status with google.rpc details, bounded in size.

Not the place where errors are decided (errors.py) or caught (interceptors.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from taskyard_service.errors import InvalidArgument, ServiceError

DOMAIN = "taskyard"
DETAILS_KEY = "grpc-status-details-bin"
"""Where every gRPC implementation looks for google.rpc.Status."""
VALUE_LIMIT = 200
"""Characters of one value in an error's details."""
VIOLATION_LIMIT = 20
"""Violations in one error."""
MESSAGE_LIMIT_BYTES = 600
FIRST_LIMIT_BYTES = 300
DETAILS_LIMIT_BYTES = 3_700
"""Bounds that together keep the trailers below the 8 KiB that receivers accept by default: the message
travels percent-encoded in one header and once more, with the details, base64-encoded in another."""


HTTP_STATUS: Mapping[grpc.StatusCode, int] = MappingProxyType(
    {
        grpc.StatusCode.OK: 200,
        grpc.StatusCode.CANCELLED: 499,
        grpc.StatusCode.UNKNOWN: 500,
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.DEADLINE_EXCEEDED: 504,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.ALREADY_EXISTS: 409,
        grpc.StatusCode.PERMISSION_DENIED: 403,
        grpc.StatusCode.UNAUTHENTICATED: 401,
        grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
        grpc.StatusCode.FAILED_PRECONDITION: 400,
        grpc.StatusCode.ABORTED: 409,
        grpc.StatusCode.OUT_OF_RANGE: 400,
        grpc.StatusCode.UNIMPLEMENTED: 501,
        grpc.StatusCode.INTERNAL: 500,
        grpc.StatusCode.UNAVAILABLE: 503,
        grpc.StatusCode.DATA_LOSS: 500,
    }
)
"""What each code is over HTTP, as google/rpc/code.proto says."""


class GrpcStatus(NamedTuple):
    """The arguments of `ServicerContext.abort`."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]


def cut(text: str, limit: int = VALUE_LIMIT) -> str:
    """Returns `text`, or its first characters and dots when it has more than `limit`."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def cut_bytes(text: str, limit: int) -> str:
    """Returns `text` cut to at most `limit` bytes of UTF-8; what UTF-8 cannot say becomes `?`."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limit:
        encoded = encoded[: limit - 3] + b"..."
    return encoded.decode("utf-8", "ignore")


def to_proto(error: ServiceError) -> status_pb2.Status:
    """Returns google.rpc.Status: ErrorInfo always, BadRequest for input, RetryInfo when waiting helps."""
    status = status_pb2.Status(
        code=code_pb2.Code.Value(error.code.name), message=cut_bytes(error.message, MESSAGE_LIMIT_BYTES)
    )
    budget = DETAILS_LIMIT_BYTES
    metadata = {}
    for name, value in error.metadata.items():
        metadata[name] = _clean(value)
        budget -= len(name) + len(metadata[name].encode()) + 8
    bad_request = _bad_request(error, budget) if isinstance(error, InvalidArgument) else None
    if bad_request is not None and isinstance(error, InvalidArgument):
        metadata["violations"] = str(len(error.violations))
    _pack(status, error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata))
    if bad_request is not None:
        _pack(status, bad_request)
    if error.retry_after_s is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(max(1, round(error.retry_after_s * 1_000)))
        _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def to_grpc(error: ServiceError) -> GrpcStatus:
    """Returns what to abort a call with, in the form that `grpc_status.rpc_status` and its like read."""
    status = to_proto(error)
    return GrpcStatus(error.code, status.message, ((DETAILS_KEY, status.SerializeToString()),))


def _bad_request(error: InvalidArgument, budget: int) -> error_details_pb2.BadRequest:
    """Packs as many violations as fit; the first is there in any case, cut to the room that is left."""
    detail = error_details_pb2.BadRequest()
    for violation in error.violations[:VIOLATION_LIMIT]:
        field, description = _clean(violation.field), _clean(violation.description, 2 * VALUE_LIMIT)
        if not detail.field_violations:
            field = cut_bytes(field, FIRST_LIMIT_BYTES)
            description = cut_bytes(description, max(FIRST_LIMIT_BYTES, budget - len(field.encode()) - 8))
        budget -= len(field.encode()) + len(description.encode()) + 8
        if budget < 0 and detail.field_violations:
            break
        detail.field_violations.add(field=field, description=description)
    return detail


def _clean(text: str, limit: int = VALUE_LIMIT) -> str:
    return cut_bytes(cut(text, limit), 3 * limit)


def _pack(status: status_pb2.Status, detail: Message) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)
