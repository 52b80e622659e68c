"""Asks an endpoint for a chat completion, and tells its text as it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from taskyard_worker.errors import NonRetryable, Retryable
from taskyard_worker.llm.answer import MAX_CHARACTERS, Answer
from taskyard_worker.llm.events import EventReader, EventTooLarge
from taskyard_worker.web.connections import read_at_most
from taskyard_worker.web.endpoint import Endpoint
from taskyard_worker.web.waiting import Patience

Tell = Callable[[str], Awaitable[None]]
"""Told each piece of the answer."""
PATH = "/chat/completions"


async def complete(endpoint: Endpoint, payload: dict[str, Any], patience: Patience, tell: Tell) -> Answer:
    """Return the whole answer.

    Args:
        endpoint: Who is asked.
        payload: Model, messages and options; that it is to be streamed is added.
        patience: How long the endpoint may be waited for.
        tell: Told the text as it comes.

    Raises:
        NonRetryable: The request is refused, or the answer is too long.
        Retryable: The endpoint cannot be reached, is overloaded, sends what is no answer, or cuts it off.
    """
    asked = {**payload, "stream": True, "stream_options": {"include_usage": True}}
    async with endpoint.answer(PATH, asked, patience) as response:
        answer = Answer()
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            await tell(answer.take_whole(await whole(response)))
        else:
            await follow(response, answer, tell)
    if not answer.complete:
        raise Retryable("the endpoint ended the stream before the answer had ended")
    return answer


async def whole(response: httpx.Response) -> str:
    """Return the body of an endpoint that does not stream."""
    body = await read_at_most(response, 8 * MAX_CHARACTERS, lambda: NonRetryable("the answer is too long"))
    return body.decode(errors="replace")


async def follow(response: httpx.Response, answer: Answer, tell: Tell) -> None:
    """Take in the events of a stream until it says that it is done, or ends."""
    events = EventReader()
    try:
        async for piece in response.aiter_bytes():
            await take(events.feed(piece), answer, tell)
            if answer.done:
                return
        await take(events.finish(), answer, tell)
    except EventTooLarge as error:
        raise Retryable("the endpoint sent an event of more than a mebibyte, which no answer is") from error


async def take(events: list[str], answer: Answer, tell: Tell) -> None:
    """Take in some events."""
    for event in events:
        if text := answer.take(event):
            await tell(text)
