"""What every gRPC call passes on its way to a handler: who calls and may they, and errors said in one form.

Put ErrorInterceptor first, AuthInterceptor second. Handlers raise a ServiceError and may ask for
`current_identity()`. Nothing here knows any one service.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from structlog.typing import FilteringBoundLogger

from taskyard_service.access import OPEN_METHODS, Access
from taskyard_service.errors import Internal, PermissionDenied, ServiceError
from taskyard_service.identity import CURRENT, TokenVerifier
from taskyard_service.status import to_grpc

MethodHandler: TypeAlias = Any
"""grpc.RpcMethodHandler: which of its behaviours is set depends on what the method streams."""
Behavior: TypeAlias = Callable[[Any, Any], Any]
Continuation: TypeAlias = Callable[[grpc.HandlerCallDetails], Awaitable[MethodHandler]]
Translate: TypeAlias = Callable[[Exception], ServiceError | None]
"""Turns an exception of a lower layer, such as the core's InvalidInput, into an answer; None: not known."""
CountError: TypeAlias = Callable[[str, str], None]
"""Called with method and code name for each call that ends with an error of ours."""


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Lets a call through when its token is good and its role may call the method; all else is refused.

    Args:
        verifier: Checks tokens.
        access: Roles by full method name. A method that is missing is refused to everyone.
        open_methods: Methods that need no token.
        count_error: Told of each refusal.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        access: Access,
        *,
        open_methods: frozenset[str] = OPEN_METHODS,
        count_error: CountError = lambda _method, _code: None,
    ) -> None:
        self._verifier = verifier
        self._access = access
        self._open = open_methods
        self._count_error = count_error

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Refuses the call, or passes it on with the identity set."""
        method = handler_call_details.method
        if method in self._open:
            return await continuation(handler_call_details)
        authorization = None
        for name, value in handler_call_details.invocation_metadata:
            if name == "authorization":
                authorization = cast(str, value)
                break
        try:
            identity = self._verifier.identify(authorization)
            if identity.role not in self._access.get(method, ()):
                raise self._not_allowed(method, identity.role)
        except ServiceError as error:
            self._count_error(method, error.code.name)
            return _refusal(error)
        CURRENT.set(identity)
        return await continuation(handler_call_details)

    def _not_allowed(self, method: str, role: str) -> PermissionDenied:
        allowed = ", ".join(sorted(self._access.get(method, ())))
        who = f"it takes one of: {allowed}" if allowed else "nobody may"
        return PermissionDenied(
            "ROLE_NOT_ALLOWED",
            f"the role {str(role)!r} may not call {method}; {who}",
            metadata={"role": role, "method": method},
        )


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Answers a call whose handler raised: a ServiceError as what it says, anything else as INTERNAL.

    What is not expected is logged with its traceback under an incident id; the caller sees only the id.

    Args:
        log: Where incidents go.
        translate: Turns exceptions of lower layers into a ServiceError.
        count_error: Told of each call that ends so.
        incident_id: Returns a new id.
    """

    def __init__(
        self,
        log: FilteringBoundLogger,
        *,
        translate: Translate = lambda _error: None,
        count_error: CountError = lambda _method, _code: None,
        incident_id: Callable[[], str] = lambda: secrets.token_hex(6),
    ) -> None:
        self._log = log
        self._translate = translate
        self._count_error = count_error
        self._incident_id = incident_id
        self._wrapped: dict[str, tuple[MethodHandler, MethodHandler]] = {}

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> MethodHandler:
        """Returns the method's handler, wrapped; each is wrapped once."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None and known[0] is handler:
            return known[1]
        wrapped = self._wrap(method, handler)
        if not isinstance(handler, _Refusal):
            self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _wrap(self, method: str, handler: MethodHandler) -> MethodHandler:
        kind = _kind(handler)
        behavior: Behavior = getattr(handler, kind)
        answer = self._answering_stream if handler.response_streaming else self._answering_one
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        return make(
            answer(method, behavior),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _answering_one(self, method: str, behavior: Behavior) -> Behavior:
        async def answer(request: Any, context: Any) -> Any:
            try:
                return await behavior(request, context)
            except grpc.aio.BaseError:
                raise
            except Exception as error:
                await self._abort(method, context, error)

        return answer

    def _answering_stream(self, method: str, behavior: Behavior) -> Behavior:
        async def answer(request: Any, context: Any) -> None:
            try:
                await run_stream(behavior, request, context)
            except grpc.aio.BaseError:
                raise
            except Exception as error:
                await self._abort(method, context, error)

        return answer

    async def _abort(self, method: str, context: Any, error: Exception) -> None:
        known = error if isinstance(error, ServiceError) else self._translate(error)
        if known is None:
            known = self.incident(method, error)
        self._count_error(method, known.code.name)
        status = to_grpc(known)
        await context.abort(status.code, status.details, status.trailing_metadata)

    def incident(self, method: str, error: BaseException) -> Internal:
        """Logs what nobody expected under a new id, and returns what the caller is told: the id."""
        incident = self._incident_id()
        self._log.error("call failed", method=method, incident=incident, exc_info=error)
        return Internal(
            "INTERNAL",
            f"something went wrong in the server; its log has the details under incident {incident}",
            metadata={"incident": incident},
        )


async def run_stream(behavior: Behavior, request: Any, context: Any) -> None:
    """Runs a streaming handler of either form: one that yields its answers, or one that writes them."""
    answers = behavior(request, context)
    if not hasattr(answers, "__aiter__"):
        await answers
        return
    # Closed here and now, not when the garbage collector finds it: a watcher gives back what it holds.
    async with aclosing(cast(Any, answers)) as messages:
        async for message in cast(AsyncIterator[Any], messages):
            await context.write(message)


def _kind(handler: MethodHandler) -> str:
    request = "stream" if handler.request_streaming else "unary"
    response = "stream" if handler.response_streaming else "unary"
    return f"{request}_{response}"


class _Refusal(grpc.RpcMethodHandler):  # type: ignore[type-arg]  # generic in its stubs only
    """Ends a call of any kind with an error before its first message is read."""

    def __init__(self, behavior: Behavior) -> None:
        self.request_streaming = True
        self.response_streaming = True
        self.request_deserializer = None
        self.response_serializer = None
        self.unary_unary = None
        self.unary_stream = None
        self.stream_unary = None
        self.stream_stream = behavior


def _refusal(error: ServiceError) -> _Refusal:
    async def refuse(_request: Any, _context: Any) -> None:
        raise error

    return _Refusal(refuse)
