"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_cli.durations import parse_duration, show_duration, show_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("5m", 300), ("1h30m", 5400), ("500ms", 0.5), ("1.5s", 1.5), ("2d", 172800), ("0s", 0),
        ("1d2h3m4s5ms", 93784.005), ("PT30S", 30), ("PT1H30M", 5400), ("P1D", 86400), ("P1DT0.5S", 86400.5),
    ],
)  # fmt: skip
def test_what_is_one(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "s", "-5s", "5 s", "1h 30m", "P", "PT", "P1DT", "PT5", "5x", "1.5.2s", "infs", "٣s", "5s\n"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="write a duration with its unit, for example 30s"):
        parse_duration(text)


def test_longer_than_time_itself() -> None:
    with pytest.raises(ValueError, match="too long"):
        parse_duration("9" * 30 + "d")


@given(st.integers(0, 30 * 86_400_000))
def test_what_is_shown_is_read_again(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert parse_duration(show_duration(span)) == span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0123, "12 ms"), (0.9999, "1.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"),
     (185, "3 min 05 s"), (7_800, "2 h 10 min")],
)  # fmt: skip
def test_measured_times_for_people(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text
