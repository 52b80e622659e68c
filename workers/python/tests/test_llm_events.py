"""Server-Sent Events: the same whatever cuts the bytes, as the standard reads them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_worker.llm.events import MAX_EVENT_BYTES, EventReader, EventTooLarge

LINES = st.sampled_from([
    "data: a", "data:b", "data", "data:", "data:  two", ": keep-alive", ":", "event: x", "id: 7", "", "dat",
    "data: ü😀",
])  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def read(pieces: list[bytes]) -> list[str]:
    reader = EventReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.finish()


def by_the_standard(text: str) -> list[str]:
    """Reads a whole text the slow way; the last event counts without its blank line."""
    events: list[str] = []
    data: list[str] = []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in [*lines, "", ""]:
        if not line and data:
            events.append("\n".join(data))
            data = []
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value[1:] if value.startswith(" ") else value)
    return events


@given(st.lists(st.tuples(LINES, ENDS)), st.booleans(), st.lists(st.integers(0, 400), max_size=12))
def test_cut_anywhere_the_events_are_the_same(lines: list[tuple[str, str]], mark: bool, cuts: list[int]) -> None:
    text = ("\ufeff" if mark else "") + "".join(line + end for line, end in lines)
    data = text.encode()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert read(pieces) == read([data]) == by_the_standard(text)
    assert read([data[at : at + 1] for at in range(len(data))]) == by_the_standard(text)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_are_read(pieces: list[bytes]) -> None:
    assert read(pieces) == read([b"".join(pieces)])


def test_an_event_comes_as_soon_as_its_blank_line() -> None:
    reader = EventReader()
    assert reader.feed(b"data: one\n") == []
    assert reader.feed(b"\ndata: two\n\r") == ["one"]
    assert reader.feed(b"\n") == ["two"]
    assert reader.finish() == []


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 1000 + b"\n", b"x" * 1000])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    with pytest.raises(EventTooLarge):
        read([piece] * (MAX_EVENT_BYTES // 1000 + 2))
