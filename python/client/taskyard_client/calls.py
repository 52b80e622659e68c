"""Makes calls: one overall deadline, repeats within it, and streams that go on where they were cut.

What may be repeated: everything that this client sends, since each call is a read or carries request ids.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from taskyard_client.errors import Overloaded, TaskyardError, Unavailable
from taskyard_client.transport import Method, Req, Res, Transport, UploadingTransport

WAITS = (0.1, 0.2, 0.4)
"""Seconds between one attempt of a call and the next."""

JITTER = 0.2
"""Random share by which a wait varies in both directions."""

STREAM_WAIT_LIMIT = 5.0
"""Longest wait before a stream is opened again, in seconds."""


def pause_after(error: TaskyardError, wait: float, rng: random.Random) -> float | None:
    """Returns how long to wait before another try, in seconds; None when another try is wrong."""
    jittered = wait * (1 + JITTER * (2 * rng.random() - 1))
    if isinstance(error, Unavailable):
        return jittered
    if isinstance(error, Overloaded) and error.retry_after is not None:
        return max(jittered, error.retry_after)
    return None


class Caller:
    """Makes calls over one transport.

    Args:
        transport: The way to the scheduler.
        timeout: Seconds that a call may take, all its attempts included, unless it says otherwise. A stream
            that brings nothing but failures for so long is given up.
        rng: Draws the jitter.
    """

    def __init__(self, transport: Transport, *, timeout: float, rng: random.Random) -> None:
        self.transport = transport
        self.timeout = timeout
        self._rng = rng

    async def call(self, method: Method[Req, Res], request: Req, timeout: float | None = None) -> Res:
        """Makes a call, again where that can help.

        Args:
            method: Which.
            request: What to send; not changed.
            timeout: Seconds for all attempts together. None: the client's.

        Raises:
            TaskyardError: The last attempt's; names the method and how often it was tried.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.timeout if timeout is None else timeout)
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self.transport.unary(method, request, max(deadline - loop.time(), 0.001))
            except TaskyardError as error:
                error.method, error.attempts = str(method), attempt
                pause = pause_after(error, WAITS[attempt - 1], self._rng) if attempt <= len(WAITS) else None
                if pause is None or loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    async def upload(self, method: Method[Req, Res], requests: Callable[[], AsyncIterator[Req]], *, again: bool) -> Res:
        """Sends a stream and returns the one answer.

        Args:
            method: Which.
            requests: Returns what to send, from the beginning.
            again: Whether that can be had a second time. What fails for the client's timeout is given up.

        Raises:
            TaskyardError: The last attempt's.
        """
        transport = self.transport
        if not isinstance(transport, UploadingTransport):
            raise TypeError(f"{type(transport).__name__} carries no uploads")
        attempt, waited = 0, 0.0
        while True:
            attempt += 1
            try:
                return await transport.upload(method, requests())
            except TaskyardError as error:
                error.method, error.attempts = str(method), attempt
                pause = pause_after(error, min(WAITS[0] * 2 ** (attempt - 1), STREAM_WAIT_LIMIT), self._rng)
                if not again or pause is None or waited + pause >= self.timeout:
                    raise
            waited += pause
            await asyncio.sleep(pause)

    async def stream(
        self, method: Method[Req, Res], request: Callable[[], Req], finished: Callable[[], bool]
    ) -> AsyncGenerator[Res, None]:
        """Yields what a stream brings, over cuts.

        Args:
            method: Which.
            request: Says from where to go on; asked each time the stream is opened.
            finished: Tells whether everything was seen; an end before that is a cut.

        Raises:
            TaskyardError: The stream cannot be opened, or not within the client's timeout after a cut.
        """
        loop = asyncio.get_running_loop()
        failures, failing_since = 0, loop.time()
        while True:
            opened, heard = loop.time(), False
            error: TaskyardError = Unavailable(
                f"the scheduler at {self.transport.address} ended the stream before its end"
            )
            try:
                async with aclosing(self.transport.stream(method, request())) as responses:
                    async for response in responses:
                        heard = True
                        yield response
                if finished():
                    return
            except TaskyardError as failure:
                error = failure
            now = loop.time()
            # A stream may have nothing to say for long: that it stood is a good sign as well.
            if heard or now - opened > self.timeout:
                failures, failing_since = 0, now
            failures += 1
            error.method, error.attempts = str(method), failures
            pause = pause_after(error, min(WAITS[0] * 2 ** (failures - 1), STREAM_WAIT_LIMIT), self._rng)
            if pause is None or now + pause >= failing_since + self.timeout:
                raise error
            await asyncio.sleep(pause)
