"""How long a server asks to wait, and whether an attempt can."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_port import Port

from taskyard_worker.errors import Retryable
from taskyard_worker.web.statuses import excerpt, without
from taskyard_worker.web.waiting import Patience, seconds_of

NOW = 1_795_981_387.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0), (" 120 ", 120.0), ("1.5", 1.5), ("-1", None), ("", None), ("soon", None), ("1e3", None),
        ("nan", None), ("9" * 20, None),
        (format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True), 90.0),
        (format_datetime(datetime.fromtimestamp(NOW - 90, UTC), usegmt=True), 0.0),
        ("Sun, 29 Nov 2026 19:44:37 -0000", 90.0),
        ("Sun, 99 Nov 2026 19:44:37 GMT", None),
    ],
)  # fmt: skip
def test_a_header_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert seconds_of(header, NOW) == seconds


@given(st.text(max_size=40))
def test_no_header_is_too_odd(header: str) -> None:
    found = seconds_of(header, NOW)
    assert found is None or found >= 0


async def test_an_attempt_without_a_bound_waits_an_hour_at_most() -> None:
    port = Port(run_timeout_s=None)
    patience = Patience(port.ctx)
    await patience.wait("no", "0")
    with pytest.raises(Retryable, match="no, and asks to wait 3600 s, longer than this attempt can"):
        await patience.wait("no", "3600")
    assert port.logged == ["INFO no; waiting 0 s, as it asks"]


async def test_without_a_time_it_is_the_scheduler_that_waits() -> None:
    with pytest.raises(Retryable, match=r"^no$"):
        await Patience(Port().ctx).wait("no", None)


def test_an_excerpt_is_short_and_hides_what_it_must() -> None:
    assert excerpt(b" a\n\tb ", []) == "a b"
    assert len(excerpt(b"x" * 10_000, [])) == 501
    assert (
        without("key abcd and Bearer efgh or efgh", ["abcd", "Bearer efgh"]) == "key [hidden] and [hidden] or [hidden]"
    )
    assert without("to be", ["to"]) == "to be"
