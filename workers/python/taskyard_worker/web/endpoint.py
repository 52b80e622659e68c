"""An OpenAI-compatible endpoint: asked with its key, waited for as it says, its refusals told for people.

Not what is asked: `llm` and `embeddings` know the calls. The key stands in no error and no log.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from taskyard_worker.errors import NonRetryable, Retryable
from taskyard_worker.web.connections import broken, connected, read_at_most, shown
from taskyard_worker.web.statuses import EXCERPT, MAY_WAIT, excerpt, failure, without
from taskyard_worker.web.waiting import Patience

MAX_REFUSAL_BYTES = 64 * 1024
NO_CREDIT = "insufficient_quota"
"""A 429 that no waiting helps: the account is out of credit."""
_SETTING = "TASKYARD_LLM_API_KEY"


class Endpoint:
    """An endpoint.

    Args:
        base_url: Its address up to the path that calls are appended to, such as https://host/v1.
        api_key: Sent as a bearer token; empty: none is.
    """

    def __init__(self, base_url: str, api_key: str) -> None:
        self._base = base_url.rstrip("/")
        self._key = api_key

    @asynccontextmanager
    async def answer(self, path: str, payload: dict[str, Any], patience: Patience) -> AsyncIterator[httpx.Response]:
        """Ask until it answers, and give the answer, whose body is still to be read. Closes the connection at the end.

        Args:
            path: The call, such as /chat/completions.
            payload: Sent as JSON.
            patience: How long it may be waited for.

        Raises:
            NonRetryable: It refuses the request.
            Retryable: It cannot be reached, the connection broke, also while the body was read, or it is overloaded.
        """
        asked = f"POST {shown(httpx.URL(self._base + path))}"
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with connected(headers) as client:
                while True:
                    async with client.stream("POST", self._base + path, json=payload) as response:
                        if response.is_success:
                            yield response
                            return
                        refusal, code = await self._refusal(asked, response)
                    if response.status_code not in MAY_WAIT or code == NO_CREDIT:
                        raise NonRetryable(refusal) if code == NO_CREDIT else failure(response.status_code, refusal)
                    await patience.wait(refusal, response.headers.get("retry-after"))
        except httpx.TransportError as error:
            raise broken(asked, error) from error
        except httpx.DecodingError as error:
            raise Retryable(f"{asked}: the answer is not compressed as it says: {error}") from error

    async def _refusal(self, asked: str, response: httpx.Response) -> tuple[str, str]:
        """Return what it answered, for people, and its code for programs."""
        status = response.status_code
        text = f"{asked} was answered {status}"
        body = await read_at_most(response, MAX_REFUSAL_BYTES, lambda: failure(status, text))
        said, code = reason_of(body)
        if status in (401, 403):
            text += f" ({_SETTING} of the worker is {'not the right one' if self._key else 'not set'})"
        told = without(said, [self._key])[:EXCERPT] or excerpt(body, [self._key])
        return f"{text}: {told}" if told else text, code


def reason_of(body: bytes) -> tuple[str, str]:
    """Return the message and the code of an error's body; empty where it has none."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""
    if isinstance(error, str):
        return error, ""
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("message") or ""), str(error.get("code") or error.get("type") or "")
