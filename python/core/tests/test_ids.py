"""Ids are UUIDs of version 7 that increase under every clock."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.ids import IdSource, time_of


@given(st.lists(st.integers(0, 2**48 - 2), min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_ids_increase_whatever_the_clock_does(times: list[int], source: random.Random) -> None:
    ids = IdSource(source.getrandbits)
    latest = -1
    previous = ""
    for now in times:
        made = ids.next(now)
        parsed = uuid.UUID(made)
        assert str(parsed) == made
        assert parsed.version == 7
        assert parsed.variant == uuid.RFC_4122
        latest = max(latest, now)
        assert time_of(made) == latest
        assert made > previous
        previous = made


def ones(bits: int) -> int:
    return (1 << bits) - 1


@pytest.mark.parametrize("bits", [ones, lambda _: 0], ids=["all ones", "all zeros"])
def test_extreme_randomness_still_gives_valid_increasing_ids(bits: Callable[[int], int]) -> None:
    ids = IdSource(bits)
    made = [ids.next(1_700_000_000_000) for _ in range(1_000)]
    assert made == sorted(set(made))
    assert {uuid.UUID(one).version for one in made} == {7}


def test_a_full_counter_carries_into_its_upper_bits_and_then_into_the_time() -> None:
    ids = IdSource(ones)
    first = ids.next(1_000)
    ids._lower = 2**48 - 1
    carried = ids.next(1_000)
    ids._upper, ids._lower = 2**26 - 1, 2**48 - 1
    later = ids.next(1_000)
    assert first < carried < later
    assert (time_of(carried), time_of(later)) == (1_000, 1_001)
    assert ids.next(1_000) > later
    assert all(uuid.UUID(one).variant == uuid.RFC_4122 for one in (carried, later))


def test_a_token_is_sixteen_hexadecimal_digits() -> None:
    assert IdSource(lambda _: 10).token() == "000000000000000a"
    assert IdSource(ones).token() == "f" * 16


def test_a_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="48 bits"):
        IdSource(ones).next(2**48)
    with pytest.raises(ValueError, match="48 bits"):
        IdSource(ones).next(-(2**20))


@pytest.mark.parametrize("text", ["", "x", "018f3b5e-7c1a-4abc-9def-0123456789ab"])
def test_the_time_of_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="version 7"):
        time_of(text)
