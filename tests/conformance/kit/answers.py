"""How the scripted scheduler refuses a call: with code, words and details as the contract has them."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status


async def abort(context: Any, code: str, reason: str) -> None:
    """Ends a call with the details that the contract promises."""
    packed = AnyMessage()
    packed.Pack(ErrorInfo(domain="taskyard", reason=reason))
    number = grpc.StatusCode[code]
    status = Status(code=number.value[0], message=f"told by the scenario: {reason}", details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(number, status.message)
