"""Waits as long as a server asks for (Retry-After), within the time that the attempt has.

A task that waits here keeps its slot. The scheduler's retries have delays of their own, and spend attempts.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime

from taskyard_worker.context import Context
from taskyard_worker.errors import Retryable

MAX_WAITS = 10
"""How often one attempt waits: a server that never means it must not be asked for ever."""
MAX_WAIT_S = 3600.0
"""Longest wait of an attempt that may run as long as it likes."""
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


class Patience:
    """How long one attempt can still wait. Made at its beginning, on the event loop.

    Args:
        ctx: The attempt.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._began = asyncio.get_running_loop().time()
        self._waits = 0

    @property
    def left_s(self) -> float:
        """Seconds that the attempt may still run; at most an hour."""
        limit = self._ctx.run_timeout
        if limit is None:
            return MAX_WAIT_S
        return min(MAX_WAIT_S, limit - (asyncio.get_running_loop().time() - self._began))

    async def wait(self, refusal: str, retry_after: str | None) -> None:
        """Return when the server may be asked again.

        Args:
            refusal: What it answered, for people.
            retry_after: Its header; None: it named no time.

        Raises:
            Retryable: It named none, or a time that is too long for this attempt, or has named enough of them.
        """
        wait_s = seconds_of(retry_after, time.time()) if retry_after is not None else None
        if wait_s is None:
            raise Retryable(refusal)
        if self._waits >= MAX_WAITS:
            raise Retryable(f"{refusal}, and had asked to wait {MAX_WAITS} times before")
        if wait_s >= self.left_s:
            raise Retryable(
                f"{refusal}, and asks to wait {wait_s:.0f} s, longer than this attempt can; give the task a longer run "
                "timeout, or a longer delay before its retries"
            )
        self._waits += 1
        self._ctx.log.info("%s; waiting %g s, as it asks", refusal, wait_s)
        await asyncio.sleep(wait_s)


def seconds_of(retry_after: str, now: float) -> float | None:
    """Return how long a Retry-After header asks to wait; None when it is none.

    Args:
        retry_after: Seconds, or a date (RFC 9110, 10.2.3).
        now: Unix time in seconds.
    """
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    wait_s = at.timestamp() - now
    return max(0.0, wait_s) if math.isfinite(wait_s) else None
