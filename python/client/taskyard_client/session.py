"""What every group of calls shares: the caller, request ids, and what runs beside the callers."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

from taskyard_client.background import Background
from taskyard_client.calls import Caller
from taskyard_client.request_ids import RequestIds
from taskyard_client.transport import Method, Req, Res, Transport

T = TypeVar("T")


class Session:
    """One client's state.

    Args:
        transport: The way to the scheduler.
        timeout: Seconds that a call may take, all its attempts included.
        rng: Draws jitter and request ids.
        wall: Tells Unix milliseconds.
    """

    def __init__(self, transport: Transport, *, timeout: float, rng: random.Random, wall: Callable[[], int]) -> None:
        self.transport = transport
        self.timeout = timeout
        self.caller = Caller(transport, timeout=timeout, rng=rng)
        self.request_ids = RequestIds(wall, rng)
        self.background = Background()


def page_size_for(page_size: int, limit: int | None) -> int:
    """Returns how many to ask for at once when no more than `limit` are wanted."""
    return page_size if limit is None else max(1, min(page_size, limit))


async def pages(
    session: Session,
    method: Method[Req, Res],
    request: Req,
    items: Callable[[Res], Sequence[T]],
    limit: int | None,
) -> AsyncGenerator[T, None]:
    """Yields the items of a list, page after page.

    Args:
        session: Makes the calls.
        method: One whose request has `page_token` and whose response has `next_page_token`.
        request: For the first page; changed.
        items: Takes a page's items out of its response.
        limit: Most items in all. None: no limit.
    """
    asked: Any = request
    left = limit
    while left is None or left > 0:
        page: Any = await session.caller.call(method, request)
        found = items(page)[:left]
        for item in found:
            yield item
        left = None if left is None else left - len(found)
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token
