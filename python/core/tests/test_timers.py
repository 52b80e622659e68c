"""Timers against a dict that is too simple to be wrong, and the bound on their memory."""

from __future__ import annotations

import sys

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from taskyard_core.timers import BUCKET_MS, Timers

KEYS = st.sampled_from("abcdefgh")
TIMES = st.integers(-40, 400)


class TimersAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers()
        self.model: dict[str, int] = {}  # in order of arming

    @rule(key=KEYS, at_ms=TIMES)
    def arm(self, key: str, at_ms: int) -> None:
        self.timers.arm(key, at_ms)
        self.model.pop(key, None)
        self.model[key] = at_ms

    @rule(key=KEYS)
    def cancel(self, key: str) -> None:
        assert self.timers.cancel(key) == (self.model.pop(key, None) is not None)

    @rule(now_ms=TIMES)
    def due(self, now_ms: int) -> None:
        expected = [key for key, at in sorted(self.model.items(), key=lambda item: item[1]) if at <= now_ms]
        assert self.timers.due(now_ms) == expected
        for key in expected:
            del self.model[key]
        following = self.timers.next_ms()
        assert following is None or following > now_ms, "a caller that sleeps until then would spin"

    @invariant()
    def agrees(self) -> None:
        assert len(self.timers) == len(self.model)
        for key in "abcdefgh":
            assert self.timers.deadline(key) == self.model.get(key)
            assert (key in self.timers) == (key in self.model)
        following = self.timers.next_ms()
        if not self.model:
            assert following is None
        else:
            assert following is not None
            earliest = min(self.model.values())
            assert earliest - BUCKET_MS < following <= earliest


TestTimersAgainstDict = TimersAgainstDict.TestCase


def footprint(timers: Timers) -> int:
    inner = sum(sys.getsizeof(bucket) for bucket in timers._buckets.values())
    return sys.getsizeof(timers._at) + sys.getsizeof(timers._buckets) + sys.getsizeof(timers._heap) + inner


def test_cancelled_deadlines_leave_nothing_behind() -> None:
    timers = Timers()
    hour = 3_600_000
    for step in range(100_000):
        timers.arm(f"lease-{step}", step * 7 + hour)  # nearly every one in a bucket of its own
        timers.cancel(f"lease-{step}")
    assert len(timers) == 0
    assert footprint(timers) < 20_000


def test_rearming_far_ahead_keeps_one_bucket_per_key() -> None:
    timers = Timers()
    for step in range(100_000):
        timers.arm(f"lease-{step % 10}", step * 16 + 3_600_000)
    assert len(timers._buckets) == 10
    assert footprint(timers) < 20_000


def test_a_key_armed_again_fires_once_and_as_the_youngest() -> None:
    timers = Timers()
    timers.arm("a", 5)
    timers.arm("b", 5)
    timers.arm("a", 5)
    assert timers.due(5) == ["b", "a"]
    assert timers.due(10_000) == []


def test_within_an_opened_bucket_the_next_time_is_exact() -> None:
    timers = Timers()
    timers.arm("a", 44)
    assert timers.next_ms() == 32
    assert timers.due(32) == []
    assert timers.next_ms() == 44
    assert timers.due(44) == ["a"]
