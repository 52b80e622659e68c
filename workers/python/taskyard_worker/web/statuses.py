"""Which HTTP answers may become others when they are asked for again."""

from __future__ import annotations

from collections.abc import Iterable

from taskyard_worker.errors import NonRetryable, Retryable

MAY_WAIT = frozenset({429, 503})
"""Their Retry-After is waited for."""
_PASSING = frozenset({408, 425, 429})
"""Refusals of the moment among those that blame the request."""
EXCERPT = 500
"""Characters of an answer that an error shows."""
_LEAST_SECRET = 4


def failure(status: int, text: str) -> NonRetryable | Retryable:
    """Return the failure of a request that was answered with a status that nobody wanted.

    Redirects and what blames the request stay what they are; the rest may pass.
    """
    lasting = 300 <= status < 500 and status not in _PASSING
    return NonRetryable(text) if lasting else Retryable(text)


def excerpt(body: bytes, secrets: Iterable[str]) -> str:
    """Return the beginning of an answer's body for an error, without the secrets that the request carried."""
    text = " ".join(without(body[: 8 * EXCERPT].decode(errors="replace"), secrets).split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def without(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which none of the secrets stands; a server may repeat what it was sent."""
    parts = {part for secret in secrets for part in (secret, *secret.split()) if len(part) >= _LEAST_SECRET}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "[hidden]")
    return text
