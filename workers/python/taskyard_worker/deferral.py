"""What `ctx.defer` gives a handler to return: the attempt's result comes later, from outside, by its token.

Imports nothing heavy, since the processes of isolated handlers use it; `outcome` makes statuses of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from taskyard_worker.errors import NonRetryable

MAX_DEFER_S = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Deferral:
    """The wish that the result comes from outside. `timeout_ms`: how long it is waited for; 0: the default, 7 days."""

    timeout_ms: int


def deferral(timeout: float | timedelta | None) -> Deferral:
    """Return a wish to wait for `timeout` (seconds or a timedelta), or raise ValueError."""
    if timeout is None:
        return Deferral(0)
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_DEFER_S):
        raise ValueError(
            f"ctx.defer waits for {timeout!r}, but a result from outside is waited for more than 0 s and at most "
            f"{MAX_DEFER_S:.0f} s (30 days)"
        )
    return Deferral(max(1, round(seconds * 1000)))


def returned(value: object, wanted: Deferral | None) -> Deferral | None:
    """Return the deferral that a handler returned; None when it returned an output.

    Args:
        value: What it returned.
        wanted: What its last call of `ctx.defer` gave it; None when there was none.

    Raises:
        NonRetryable: It asked for a deferral and returned something else: of the two results one would be lost.
    """
    if wanted is None:
        return None
    if isinstance(value, Deferral):
        return value
    what = "nothing" if value is None else f"a {type(value).__name__}"
    raise NonRetryable(
        f"the handler called ctx.defer and returned {what}: write `return ctx.defer(...)` for a result from outside, "
        "or leave the call out"
    )
