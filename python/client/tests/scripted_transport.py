"""A transport without a network: each call meets what a test's function says, and is noted with its time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from taskyard_client.statuses import error_of
from taskyard_client.transport import Method, Req, Res


class ScriptedTransport:
    """See Transport.

    Args:
        answer: Called with the method and the request of each unary call.
        stream: Called with the method and the request of each stream.
    """

    address = "test:1"

    def __init__(
        self,
        answer: Callable[[Any, Any], Awaitable[Any]] | None = None,
        stream: Callable[[Any, Any], AsyncGenerator[Any, None]] | None = None,
    ) -> None:
        self._answer = answer
        self._stream = stream
        self.times: list[float] = []
        self.timeouts: list[float] = []
        self.requests: list[Any] = []

    def _note(self, request: Any) -> None:
        self.times.append(asyncio.get_running_loop().time())
        self.requests.append(type(request).FromString(request.SerializeToString()))

    async def unary(self, method: Method[Req, Res], request: Req, timeout: float) -> Res:
        self._note(request)
        self.timeouts.append(timeout)
        assert self._answer is not None
        try:
            async with asyncio.timeout(timeout):
                answer: Res = await self._answer(method, request)
        except TimeoutError:
            raise error_of("DEADLINE_EXCEEDED", "", address=self.address) from None
        return answer

    async def stream(self, method: Method[Req, Res], request: Req) -> AsyncGenerator[Res, None]:
        self._note(request)
        assert self._stream is not None
        async for response in self._stream(method, request):
            yield response

    async def close(self) -> None:
        pass
