"""Sends long lists: splits them into calls, a few at a time, and puts the outcomes back in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from taskyard_client.coalescer import MAX_BYTES, MAX_IN_FLIGHT, MAX_ITEMS
from taskyard_client.errors import TaskyardError

Item = TypeVar("Item", bound=Message)
Outcome = TypeVar("Outcome")


def parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yields runs of items, each within what one call should carry; a larger item alone."""
    start, size = 0, 0
    for at, item in enumerate(items):
        bytes_ = item.ByteSize()
        if at > start and (at - start >= MAX_ITEMS or size + bytes_ > MAX_BYTES):
            yield items[start:at]
            start, size = at, 0
        size += bytes_
    if start < len(items):
        yield items[start:]


async def send_parts(
    items: Sequence[Item], send: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]]
) -> list[Outcome | TaskyardError]:
    """Sends all items and returns the outcome of each, or the error of the call that carried it.

    Raises:
        TaskyardError: Every call failed: nothing is known to have arrived.
    """
    gate = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def one(part: Sequence[Item]) -> Sequence[Outcome] | TaskyardError:
        async with gate:
            try:
                return await send(part)
            except TaskyardError as error:
                return error

    split = list(parts(items))
    if len(split) == 1:
        return list(await send(split[0]))
    answers = await asyncio.gather(*(one(part) for part in split))
    errors = [answer for answer in answers if isinstance(answer, TaskyardError)]
    if errors and len(errors) == len(answers):
        raise errors[0]
    outcomes: list[Outcome | TaskyardError] = []
    for part, answer in zip(split, answers, strict=True):
        outcomes.extend([answer] * len(part) if isinstance(answer, TaskyardError) else answer)
    return outcomes
