"""Whether and when a failed attempt is followed by another.

Not for requeues that spend no retry: a draining worker, an assignment that was never acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from taskyard_core.violations import Violation, cut

MAX_ATTEMPTS_LIMIT = 1_000
MAX_DELAY_LIMIT_MS = 30 * 24 * 3_600_000
MAX_FACTOR = 1_000.0


class FailureKind(StrEnum):
    """Why an attempt failed, and through it whether another may follow."""

    HANDLER_ERROR = "HANDLER_ERROR"
    """The handler raised. Retried."""
    TIMEOUT = "TIMEOUT"
    """The attempt ran longer than its run timeout. Retried."""
    WORKER_LOST = "WORKER_LOST"
    """A started attempt's worker died or its lease ended. Retried, and spends one attempt."""
    INVALID_INPUT = "INVALID_INPUT"
    """The handler refused its input. Never retried: the input stays the same."""
    PERMISSION_DENIED = "PERMISSION_DENIED"
    """The handler was not allowed to do its work. Never retried."""
    CANCELLED = "CANCELLED"
    """Somebody cancelled it. Never retried."""
    NON_RETRYABLE = "NON_RETRYABLE"
    """The handler said that another attempt is useless. Never retried."""
    NEVER_STARTED = "NEVER_STARTED"
    """No worker acknowledged its start, five times over. Never retried: the requeues were its retries."""
    UNKNOWN_TASK_TYPE = "UNKNOWN_TASK_TYPE"
    """Workers that offer the type handed it back as unknown for good. Never retried."""
    OUTPUT_TOO_LARGE = "OUTPUT_TOO_LARGE"
    """The output is too large even for an artifact. Never retried."""
    RESULT_NOT_STORABLE = "RESULT_NOT_STORABLE"
    """The output is no JSON or holds text that cannot be stored. Never retried."""
    TEMPLATE_ERROR = "TEMPLATE_ERROR"
    """A template of the step found no value at run time. Never retried: upstream outputs stay the same."""

    @property
    def retryable(self) -> bool:
        """Whether an attempt that failed in this way may be followed by another."""
        return self in _RETRYABLE


_RETRYABLE = frozenset({FailureKind.HANDLER_ERROR, FailureKind.TIMEOUT, FailureKind.WORKER_LOST})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how fast failed attempts are repeated.

    Attributes:
        max_attempts: Executions in all, the first included: 1 (no retry) to 1,000.
        first_delay_ms: Wait before the second attempt, 0 to 30 days.
        factor: Each further wait is so many times the one before, 1 to 1,000.
        max_delay_ms: No wait is longer, before jitter; `first_delay_ms` to 30 days.
        jitter: Each wait is drawn evenly from `wait * (1 - jitter)` to `wait * (1 + jitter)`, 0 to 1. It
            is applied after the cap, so that waits at the cap spread too.
    """

    max_attempts: int = 3
    first_delay_ms: int = 1_000
    factor: float = 2.0
    max_delay_ms: int = 60_000
    jitter: float = 0.2

    def delay_ms(self, failures: int, random: Callable[[], float]) -> int:
        """Return the wait after the `failures`-th failed attempt.

        Args:
            failures: Failed attempts so far, at least 1.
            random: Returns a float of [0, 1).

        Raises:
            ValueError: `failures` is below 1.
        """
        if failures < 1:
            raise ValueError(f"a wait follows at least one failure, not {failures}")
        try:
            wait = min(self.first_delay_ms * self.factor ** (failures - 1), float(self.max_delay_ms))
        except OverflowError:  # the power left the floats' range: far beyond any cap
            wait = float(self.max_delay_ms if self.first_delay_ms else 0)
        return round(wait * (1.0 + self.jitter * (2.0 * random() - 1.0)))

    def violations(self, prefix: str) -> list[Violation]:
        """Return what is wrong with the policy; each field's path begins with `prefix` and a dot."""
        checks = (
            _outside(f"{prefix}.max_attempts", self.max_attempts, 1, MAX_ATTEMPTS_LIMIT),
            _outside(f"{prefix}.first_delay_ms", self.first_delay_ms, 0, MAX_DELAY_LIMIT_MS),
            _outside(f"{prefix}.factor", self.factor, 1.0, MAX_FACTOR),
            _outside(f"{prefix}.max_delay_ms", self.max_delay_ms, 0, MAX_DELAY_LIMIT_MS),
            _outside(f"{prefix}.jitter", self.jitter, 0.0, 1.0),
        )
        found = [violation for violation in checks if violation is not None]
        if not found and self.max_delay_ms < self.first_delay_ms:
            found.append(
                Violation(
                    f"{prefix}.max_delay_ms",
                    f"{self.max_delay_ms} is less than first_delay_ms ({self.first_delay_ms}); raise it or"
                    " lower the first delay",
                )
            )
        return found


def next_retry(
    policy: RetryPolicy, kind: FailureKind, attempts_spent: int, now_ms: int, random: Callable[[], float]
) -> int | None:
    """Return when the next attempt may start, or None when the failure is final.

    Args:
        policy: The instance's policy.
        kind: Why the last attempt failed.
        attempts_spent: Attempts that counted so far, the failed one included.
        now_ms: The time of the failure.
        random: Returns a float of [0, 1).
    """
    if not kind.retryable or attempts_spent >= policy.max_attempts:
        return None
    return now_ms + policy.delay_ms(attempts_spent, random)


def _outside(field: str, value: float, low: float, high: float) -> Violation | None:
    if math.isfinite(value) and low <= value <= high:
        return None
    return Violation(field, f"{cut(value)} is outside {low} to {high}; choose a value within")
