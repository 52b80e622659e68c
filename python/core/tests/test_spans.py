"""Spans of time in words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.spans import span

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"), (12, "12 ms"), (999, "999 ms"), (1_000, "1 s"), (2_000, "2 s"), (54_134, "54.1 s"),
        (59_949, "59.9 s"), (59_950, "1 min"), (MINUTE, "1 min"), (90_000, "1 min 30 s"), (HOUR - 500, "1 h"),
        (HOUR, "1 h"), (3_651_363, "1 h 1 min"), (2 * DAY - 1, "48 h"), (2 * DAY, "2 d"), (30 * DAY + HOUR, "30 d 1 h"),
    ],
)  # fmt: skip
def test_in_the_two_largest_units(ms: int, words: str) -> None:
    assert span(ms) == words


@given(st.integers(0, 400 * DAY))
def test_the_words_are_near_the_span(ms: int) -> None:
    sizes = {"ms": 1, "s": 1_000, "min": MINUTE, "h": HOUR, "d": DAY}
    told = [(float(number), unit) for number, unit in re.findall(r"([0-9.]+) ([a-z]+)", span(ms))]
    assert 1 <= len(told) <= 2
    assert abs(sum(number * sizes[unit] for number, unit in told) - ms) <= max(0.05 * ms, 0.5)
