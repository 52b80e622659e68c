"""Faults that a scripted server shows: statuses with details, silence, and streams cut in the middle."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True)
class Fault:
    """What one call meets instead of its answer.

    Attributes:
        code: With which status it ends.
        message: What goes with it.
        reason: ErrorInfo's; empty: no ErrorInfo, as from a proxy.
        facts: ErrorInfo's metadata.
        violations: BadRequest's, field to description.
        retry_after: RetryInfo's delay in seconds.
        after: How many answers a stream gives before.
        late: True: the request takes effect, and only its answer is lost.
        silent: True: there is no answer at all until the caller goes.
        clean: True: a stream ends with OK.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    message: str = "scripted"
    reason: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    violations: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None
    after: int = 0
    late: bool = False
    silent: bool = False
    clean: bool = False

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        details: list[Any] = []
        if self.reason:
            details.append(error_details_pb2.ErrorInfo(reason=self.reason, domain="taskyard", metadata=self.facts))
        if self.violations:
            bad = error_details_pb2.BadRequest()
            for name, description in self.violations.items():
                bad.field_violations.add(field=name, description=description)
            details.append(bad)
        if self.retry_after is not None:
            delay = Duration()
            delay.FromNanoseconds(int(self.retry_after * 1e9))
            details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        if not details:
            return ()
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        for detail in details:
            packed = AnyMessage()
            packed.Pack(detail)
            status.details.append(packed)
        return (("grpc-status-details-bin", status.SerializeToString()),)

    async def show(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if self.silent:
            await asyncio.Event().wait()
        if not self.clean:
            await context.abort(self.code, self.message, self.trailers())


@dataclass
class Call:
    """One call as it arrived."""

    name: str
    request: Any
    token: str


class FaultInterceptor(grpc.aio.ServerInterceptor):
    """Notes each call by its name and gives it the next fault that is scripted for that name."""

    def __init__(self) -> None:
        self.faults: dict[str, deque[Fault | None]] = defaultdict(deque)
        self.calls: list[Call] = []
        self.open_calls = 0
        self._changed = asyncio.Condition()

    async def reached(self, wanted: Callable[[], bool]) -> None:
        """Returns when `wanted` holds; asked at each call and each end of a stream."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(wanted)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def named(self, name: str) -> list[Any]:
        return [call.request for call in self.calls if call.name == name]

    async def _note(self, name: str, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Fault | None:
        metadata = dict(context.invocation_metadata() or ())
        self.calls.append(Call(name, request, str(metadata.get("authorization", ""))))
        await self._tell()
        waiting = self.faults[name]
        return waiting.popleft() if waiting else None

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        name = str(handler_call_details.method).rsplit("/", 1)[1]
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(name, handler.unary_stream),
                handler.request_deserializer,
                handler.response_serializer,
            )
        if handler.request_streaming:  # of what comes in pieces nothing is noted, and nothing fails
            return handler
        return grpc.unary_unary_rpc_method_handler(
            self._unary(name, handler.unary_unary), handler.request_deserializer, handler.response_serializer
        )

    def _unary(self, name: str, inner: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            fault = await self._note(name, request, context)
            if fault is None:
                return await inner(request, context)
            if fault.late:
                await inner(request, context)
            await fault.show(context)
            return None

        return answer

    def _stream(self, name: str, inner: Callable[[Any, Any], AsyncIterator[Any]]) -> Any:
        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            fault = await self._note(name, request, context)
            given = 0
            self.open_calls += 1
            await self._tell()
            try:
                if fault is not None and fault.after == 0:
                    await fault.show(context)
                    return
                async for response in inner(request, context):
                    yield response
                    given += 1
                    if fault is not None and given == fault.after:
                        await fault.show(context)
                        return
            finally:
                self.open_calls -= 1
                await asyncio.shield(self._tell())

        return answer
