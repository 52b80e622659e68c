"""Repeats a unary call that may safely be repeated, within one overall deadline. Not for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from taskyard_worker.link import LinkError

WAITS_S = (0.1, 0.2, 0.4)
JITTER = 0.2

Answer = TypeVar("Answer")


def repeatable(error: LinkError) -> bool:
    """Tell whether the scheduler may answer the same call later."""
    return error.code == "UNAVAILABLE" or (error.code == "RESOURCE_EXHAUSTED" and error.retry_after is not None)


async def with_retries(
    method: str, call: Callable[[float], Awaitable[Answer]], timeout: float, random: Random
) -> Answer:
    """Make a call, and up to three more after waits of 100, 200 and 400 ms with jitter.

    Args:
        method: The method's name, which the last error gives.
        call: Makes the call with a deadline in seconds.
        timeout: Deadline of all tries together, in seconds.
        random: Source of the jitter.

    Raises:
        LinkError: The last try's error.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    waits = iter(WAITS_S)
    while True:
        try:
            return await call(max(0.001, end - loop.time()))
        except LinkError as error:
            last = error
        wait = next(waits, None)
        if wait is not None and repeatable(last):
            wait = max(wait * random.uniform(1 - JITTER, 1 + JITTER), last.retry_after or 0.0)
            if loop.time() + wait < end:
                await asyncio.sleep(wait)
                continue
        raise LinkError(last.code, last.reason, f"{method}: {last.message}", last.retry_after) from last
