"""Finds a method that has to be awaited where nothing could await it. Loads nothing else of the worker."""

from __future__ import annotations

import asyncio

from taskyard_worker.errors import NonRetryable


def needs_await(method: str) -> None:
    """Raise NonRetryable where nothing could await: there the call would do nothing, without a word."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise NonRetryable(
            f"ctx.{method} has to be awaited, which only an `async def` handler can: call ctx.{method}_sync(...) here"
        ) from None
