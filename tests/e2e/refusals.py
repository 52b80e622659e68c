"""What a refused call says: status, machine-readable reason, fields. Read from the wire, not by our client."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True, slots=True)
class Answer:
    """A call's end. `fields` are the field violations."""

    code: grpc.StatusCode
    reason: str
    message: str
    fields: dict[str, str]
    retry_after_s: float | None


async def refused(call: Awaitable[Any]) -> Answer:
    """Returns how a call was refused; every refusal carries ErrorInfo of our domain."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return read(caught.value)


def read(error: grpc.aio.AioRpcError) -> Answer:
    """Reads an error's details."""
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert isinstance(packed, bytes), f"{error.code()} without details: {error.details()}"
    status = status_pb2.Status.FromString(packed)
    info: Any = error_details_pb2.ErrorInfo()
    bad: Any = error_details_pb2.BadRequest()
    retry: Any = error_details_pb2.RetryInfo()
    fields: dict[str, str] = {}
    wait: float | None = None
    for detail in status.details:
        if detail.Is(bad.DESCRIPTOR):
            detail.Unpack(bad)
            fields = {each.field: each.description for each in bad.field_violations}
        elif detail.Is(retry.DESCRIPTOR):
            detail.Unpack(retry)
            wait = retry.retry_delay.ToTimedelta().total_seconds()
        elif detail.Is(info.DESCRIPTOR):
            detail.Unpack(info)
    assert info.domain == "taskyard"
    assert "Traceback" not in (error.details() or "")
    return Answer(error.code(), info.reason, error.details() or "", fields, wait)
