"""The built-in task type `sleep`. Loads quickly, since an exclusive task runs it in a process."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from taskyard_worker.errors import InvalidInput

MAX_SLEEP_S = 30 * 24 * 3600.0


async def sleep(seconds: Any) -> dict[str, float]:
    """Sleep, at most 30 days; what is cancelled wakes at once.

    Raises:
        InvalidInput: `seconds` is no number in range.
    """
    try:
        wait_s = float(seconds)
    except (TypeError, ValueError):
        wait_s = math.nan
    if isinstance(seconds, bool) or not 0 <= wait_s <= MAX_SLEEP_S:
        raise InvalidInput(f"'seconds' is {seconds!r}; it must be a number from 0 to {MAX_SLEEP_S:.0f}")
    if wait_s > 0:  # what suspends has its start told on its own, and costs an asyncio task
        await asyncio.sleep(wait_s)
    return {"slept_seconds": wait_s}
