"""The retry policy's waits, bounds and the kinds that end it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.retry import FailureKind, RetryPolicy, next_retry

RETRIED = {FailureKind.HANDLER_ERROR, FailureKind.TIMEOUT, FailureKind.WORKER_LOST}
valid_policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 1_000),
    first_delay_ms=st.integers(0, 1_000_000),
    factor=st.floats(1, 1_000),
    max_delay_ms=st.integers(1_000_000, 30 * 24 * 3_600_000),
    jitter=st.floats(0, 1),
)


def middle() -> float:
    return 0.5


def test_the_default_waits_double_up_to_a_minute() -> None:
    waits = [RetryPolicy().delay_ms(failures, middle) for failures in range(1, 9)]
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_jitter_moves_a_wait_by_a_fifth_at_most() -> None:
    policy = RetryPolicy()
    assert policy.delay_ms(1, lambda: 0.0) == 800
    assert policy.delay_ms(1, lambda: math.nextafter(1.0, 0.0)) == 1_200


@given(valid_policies, st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_every_wait_stays_within_its_bounds(policy: RetryPolicy, failures: int, drawn: float) -> None:
    assert policy.violations("retry") == []
    wait = policy.delay_ms(failures, lambda: drawn)
    assert 0 <= wait <= policy.max_delay_ms * (1 + policy.jitter) + 1
    assert wait >= math.floor(policy.first_delay_ms * (1 - policy.jitter))


def test_a_first_wait_of_zero_stays_zero_even_when_the_power_overflows() -> None:
    assert RetryPolicy(first_delay_ms=0, factor=1_000.0).delay_ms(10**6, middle) == 0


def test_a_wait_follows_at_least_one_failure() -> None:
    with pytest.raises(ValueError, match="at least one failure"):
        RetryPolicy().delay_ms(0, middle)


@pytest.mark.parametrize("kind", FailureKind)
def test_only_errors_of_the_moment_are_retried(kind: FailureKind) -> None:
    following = next_retry(RetryPolicy(), kind, 1, 5_000, middle)
    assert following == (6_000 if kind in RETRIED else None)
    assert kind.retryable == (kind in RETRIED)


def test_the_last_attempt_is_final() -> None:
    policy = RetryPolicy(max_attempts=3)
    results = [next_retry(policy, FailureKind.TIMEOUT, spent, 0, middle) for spent in (1, 2, 3, 4)]
    assert results == [1_000, 2_000, None, None]
    assert next_retry(RetryPolicy(max_attempts=1), FailureKind.TIMEOUT, 1, 0, middle) is None


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (RetryPolicy(max_attempts=0), "max_attempts"),
        (RetryPolicy(max_attempts=1_001), "max_attempts"),
        (RetryPolicy(first_delay_ms=-1), "first_delay_ms"),
        (RetryPolicy(factor=0.5), "factor"),
        (RetryPolicy(factor=math.nan), "factor"),
        (RetryPolicy(factor=math.inf), "factor"),
        (RetryPolicy(max_delay_ms=-5), "max_delay_ms"),
        (RetryPolicy(max_delay_ms=999), "max_delay_ms"),
        (RetryPolicy(jitter=1.5), "jitter"),
        (RetryPolicy(jitter=math.nan), "jitter"),
    ],
)
def test_a_bad_policy_names_its_field_and_value(policy: RetryPolicy, field: str) -> None:
    (violation,) = policy.violations("step.retry")
    assert violation.field == f"step.retry.{field}"
    assert str(getattr(policy, field)) in violation.description
