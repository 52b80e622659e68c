"""What two snapshots say together, without a screen: rates, their line, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from top_snapshots import status

from taskyard_cli.top.figures import KEPT, History, rates, sparkline


def test_a_rate_is_what_ended_between_two_readings() -> None:
    assert rates(status(SUCCESS=10), status(SUCCESS=40, FAILED=5), 2.5) == {"SUCCESS": 12.0, "FAILED": 2.0}
    assert rates(status(SUCCESS=10), status(SUCCESS=10), 1.0) == {"SUCCESS": 0.0}


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        (status(term=1, SUCCESS=10), status(term=2, SUCCESS=12), 1.0),
        (status(SUCCESS=10), status(SUCCESS=12), 0.0),
        (status(SUCCESS=10), status(SUCCESS=9), 1.0),
    ],
    ids=["another term counts anew", "no time between", "a counter that went back"],
)
def test_what_cannot_be_compared_has_no_rate(before: object, after: object, seconds: float) -> None:
    assert rates(before, after, seconds) is None  # type: ignore[arg-type]


def test_looking_at_a_status_does_not_change_it() -> None:
    before, after = status(), status(FAILED=1)
    rates(before, after, 1.0)
    assert (before, after) == (status(), status(FAILED=1))


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], 5, ""),
        ([0, 0], 5, "▁▁"),
        ([0, 1, 1000], 5, "▁▂█"),
        ([5, None, 5], 5, "█ █"),
        ([1, 2, 3], 2, "▆█"),
    ],
)
def test_a_line_shows_the_last_ones_and_tells_little_from_nothing(
    values: list[float | None], width: int, line: str
) -> None:
    assert sparkline(values, width) == line


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e12)), max_size=50), st.integers(1, 60))
def test_a_line_is_as_long_as_what_it_shows(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    assert all((shown == " ") == (value is None) for shown, value in zip(line, values[-width:], strict=True))


def test_a_reading_that_failed_is_a_gap_and_spoils_no_rate() -> None:
    history = History()
    seen = []
    for at, ended in ((0.0, 0), (1.0, 8), (None, 0), (61.0, 800), (62.0, 804)):
        if at is None:
            history.gap()
        else:
            history.take(at, status(SUCCESS=ended))
        seen.append(history.now)
    # What ended in the minute without readings is no rate of a second.
    assert seen == [None, {"SUCCESS": 8.0}, None, None, {"SUCCESS": 4.0}]
    assert history.line(10) == "█ ▅"
    for at in range(100, 100 + 2 * KEPT):
        history.take(at, status(SUCCESS=at))
    assert len(history.line(10_000)) == KEPT
