"""Stored policies: compact, equal for equal ones, readable by older and newer versions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.policy_codec import dump_policy, load_policy
from taskyard_core.records import Policy
from taskyard_core.retry import RetryPolicy

texts = st.text(max_size=8)
numbers = st.integers(0, 1 << 40)
retries = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 1_000),
    first_delay_ms=numbers,
    factor=st.floats(1, 1_000),
    max_delay_ms=numbers,
    jitter=st.floats(0, 1),
)
policies = st.builds(
    Policy,
    queued_ms=numbers,
    start_ms=numbers,
    run_ms=numbers,
    total_ms=numbers,
    retry=retries,
    cpu_millis=numbers,
    memory_mb=numbers,
    gpus=numbers,
    selector=texts,
    affinity=texts,
    spread=texts,
    exclusive=st.booleans(),
)


@given(policies)
def test_a_policy_survives(policy: Policy) -> None:
    loaded = load_policy(dump_policy(policy))
    assert loaded == policy
    assert (loaded.asks, loaded.waits) == (policy.asks, policy.waits)


@given(policies, policies)
def test_equal_policies_have_equal_forms(one: Policy, other: Policy) -> None:
    assert (dump_policy(one) == dump_policy(other)) == (one == other)


def test_the_default_is_nothing() -> None:
    assert dump_policy(Policy()) == ""
    assert load_policy("") == Policy()


def test_only_what_differs_is_stored() -> None:
    policy = Policy(run_ms=5, retry=RetryPolicy(max_attempts=1))
    assert json.loads(dump_policy(policy)) == {"run_ms": 5, "retry": {"max_attempts": 1}}


def test_members_of_a_newer_version_are_passed_over() -> None:
    text = '{"run_ms": 5, "colour": "red", "asks": true, "retry": {"max_attempts": 2, "mood": 1}}'
    assert load_policy(text) == Policy(run_ms=5, retry=RetryPolicy(max_attempts=2))


@pytest.mark.parametrize(
    ("policy", "asks", "waits"),
    [
        (Policy(), False, False),
        (Policy(cpu_millis=1), True, False),
        (Policy(memory_mb=1), True, False),
        (Policy(gpus=1), True, False),
        (Policy(queued_ms=1), False, True),
        (Policy(total_ms=1), False, True),
    ],
)
def test_what_is_derived(policy: Policy, asks: bool, waits: bool) -> None:
    assert (policy.asks, policy.waits) == (asks, waits)
