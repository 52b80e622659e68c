"""The transport over gRPC: one channel, the token with each call, statuses turned into exceptions.

No retries: calls.py repeats what may be repeated.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from taskyard_client.cancellation import own_cancellation
from taskyard_client.certificates import BadCertificates, check_certificates, read_certificates
from taskyard_client.errors import CLOSED_MEANWHILE, ClientClosed, InvalidInput, TaskyardError, Violation
from taskyard_client.statuses import error_of
from taskyard_client.tokens import BadToken, clean_token
from taskyard_client.transport import Method, Req, Res

MAX_MESSAGE_BYTES = 16 << 20
"""Largest message in either direction."""

_ADDRESS = re.compile(r"(?:[^\s:/\[\]]+|\[[0-9A-Fa-f:.%]+\]):([0-9]{1,5})")
_DETAILS_KEY = "grpc-status-details-bin"

# A restarted scheduler must be found within the waits of calls.py, so reconnects are quick at first. The
# keepalive notices a peer that went without a word.
_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcTransport:
    """A gRPC channel to one scheduler, opened by the first call.

    Args:
        address: `host:port`; IPv6 as `[::1]:9090`. White space at its ends does not count.
        token: JWT that goes with each call; None for none. White space at its ends does not count.
        ca: File with certificates to trust, or its content; makes the channel encrypted. None: plain text.

    Raises:
        InvalidInput: The address is not of that form, the token cannot be sent, or the file cannot be read or has
            no certificate.
    """

    def __init__(self, address: str, token: str | None, *, ca: str | Path | bytes | None = None) -> None:
        address = address.strip()
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[1]) < 65536:
            say = f"`{address[:200]}` is not host:port; write for example 127.0.0.1:9090"
            raise InvalidInput(say, [Violation("address", say)])
        self._address = address
        bearer = _bearer(token or "")
        self._metadata = (("authorization", f"Bearer {bearer}"),) if bearer else ()
        self._ca = None if ca is None else _certificates(ca)
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[str, Any] = {}
        self._closed = False

    @property
    def address(self) -> str:
        """Where it goes."""
        return self._address

    async def unary(self, method: Method[Req, Res], request: Req, timeout: float) -> Res:
        """See Transport.unary."""
        call = self._calls.get(method.path) or self._open(method, "unary_unary")
        with own_cancellation():
            try:
                response: Res = await call(request, timeout=timeout, metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                raise self._error(error, method) from None  # what it says is in ours
            except asyncio.CancelledError:
                raise self._ended() from None
        return response

    async def stream(self, method: Method[Req, Res], request: Req) -> AsyncGenerator[Res, None]:
        """See Transport.stream."""
        call = (self._calls.get(method.path) or self._open(method, "unary_stream"))(request, metadata=self._metadata)
        responses = aiter(call)
        try:
            while (response := await self._next(responses, method)) is not None:
                yield response
        finally:
            call.cancel()

    async def _next(self, responses: AsyncIterator[Res], method: Method[Any, Res]) -> Res | None:
        with own_cancellation():
            try:
                return await anext(responses, None)
            except grpc.aio.AioRpcError as error:
                raise self._error(error, method) from None
            except asyncio.CancelledError:
                raise self._ended() from None

    async def close(self) -> None:
        """See Transport.close."""
        self._closed = True
        self._calls.clear()
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def upload(self, method: Method[Req, Res], requests: AsyncIterator[Req]) -> Res:
        """See Transport.upload."""
        call = (self._calls.get(method.path) or self._open(method, "stream_unary"))(metadata=self._metadata)
        with own_cancellation():
            try:
                await _send_all(call, requests)
                response: Res = await call
            except grpc.aio.AioRpcError as error:
                raise self._broken_off(error, method) from None
            except asyncio.CancelledError:
                raise self._ended() from None
            finally:
                call.cancel()
        return response

    def _open(self, method: Method[Req, Res], kind: str) -> Any:
        if self._closed:
            raise ClientClosed("the client is closed; make a new one")
        if self._channel is None:
            self._channel = self._connect()
        make: Any = getattr(self._channel, kind)
        call = make(method.path, method.request.SerializeToString, method.response.FromString)
        self._calls[method.path] = call
        return call

    def _connect(self) -> grpc.aio.Channel:
        if self._ca is None:
            return grpc.aio.insecure_channel(self._address, options=_OPTIONS)
        return grpc.aio.secure_channel(
            self._address, grpc.ssl_channel_credentials(root_certificates=self._ca), options=_OPTIONS
        )

    def _ended(self) -> BaseException:
        """Returns what a cancelled call is to its caller: closing the channel cancels calls, not those who wait."""
        return ClientClosed(CLOSED_MEANWHILE) if self._closed else asyncio.CancelledError()

    def _broken_off(self, error: grpc.aio.AioRpcError, method: Method[Any, Any]) -> TaskyardError:
        """Returns the error of a call that was sending: of a connection that breaks meanwhile gRPC says INTERNAL."""
        told = self._error(error, method)
        if error.code() is not grpc.StatusCode.INTERNAL or told.reason:
            return told
        made = error_of("UNAVAILABLE", error.details() or "it broke", address=self._address, changes=method.changes)
        made.method = str(method)
        return made

    def _error(self, error: grpc.aio.AioRpcError, method: Method[Any, Any]) -> TaskyardError:
        made = _error_of(error, self._address, changes=method.changes)
        made.method = str(method)
        return made


async def _send_all(call: Any, requests: AsyncIterator[Any]) -> None:
    """Sends messages until there are no more, or the other side has ended the call, whose word then says more."""
    try:
        async for request in requests:
            await call.write(request)
        await call.done_writing()
    except asyncio.InvalidStateError:
        return


def _bearer(token: str) -> str:
    try:
        return clean_token(token)
    except BadToken as error:
        raise InvalidInput(str(error), [Violation("token", str(error))]) from None


def _certificates(ca: str | Path | bytes) -> bytes:
    try:
        if isinstance(ca, bytes):
            check_certificates(ca)
            return ca
        return read_certificates(Path(ca))
    except BadCertificates as error:
        what = "what was given" if isinstance(ca, bytes) else f"the file {ca}"
        say = f"{what} {error}"
        raise InvalidInput(say, [Violation("ca", say)]) from None


def _error_of(error: grpc.aio.AioRpcError, address: str, *, changes: bool) -> TaskyardError:
    reason, facts, violations, retry_after = "", {}, [], None
    for detail in _details(error).details:
        kind = detail.TypeName()
        if kind == "google.rpc.ErrorInfo":
            info = error_details_pb2.ErrorInfo.FromString(detail.value)
            reason, facts = info.reason, dict(info.metadata)
        elif kind == "google.rpc.BadRequest":
            bad = error_details_pb2.BadRequest.FromString(detail.value)
            violations = [Violation(each.field, each.description) for each in bad.field_violations]
        elif kind == "google.rpc.RetryInfo":
            delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
            retry_after = delay.seconds + delay.nanos / 1e9
    return error_of(
        error.code().name,
        error.details() or "no details",
        address=address,
        changes=changes,
        reason=reason,
        facts=facts,
        violations=violations,
        retry_after=retry_after,
    )


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return status_pb2.Status()
