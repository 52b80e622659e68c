from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs.admission import AttemptLog, LogLimits, admit, cost, cut_line

SMALL = LogLimits(line_bytes=100, attempt_bytes=1_000)


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(text=text, stream="stdout") for text in texts]


def texts(kept: list[LogLine]) -> list[str]:
    return [line.text for line in kept]


def test_lines_already_kept_are_skipped_by_number() -> None:
    kept, log = admit(AttemptLog(next_line=2), 1, lines("b", "c"), SMALL)
    assert texts(kept) == ["c"]
    assert log.next_line == 3


def test_a_gap_keeps_nothing_and_says_where_to_go_on() -> None:
    kept, log = admit(AttemptLog(next_line=2), 3, lines("d"), SMALL)
    assert (kept, log.next_line) == ([], 2)


def test_a_line_too_long_is_cut_between_characters_with_a_mark_that_tells_its_length() -> None:
    line = LogLine(text="é" * 100, stream="stderr", level="", time=Timestamp(seconds=7))
    cut = cut_line(line, 100)
    assert len(cut.text.encode()) <= 100
    assert cut.text.startswith("é")
    assert cut.text.endswith("... [cut: the line has 200 bytes]")
    assert (cut.stream, cut.time.seconds) == ("stderr", 7)
    assert len(line.text) == 100, "the caller's object is not changed"


def test_labels_from_outside_are_cut_too() -> None:
    cut = cut_line(LogLine(text="x", stream="s" * 5_000, level="l" * 5_000, partial=True), 100)
    assert cut.partial
    assert (len(cut.stream), len(cut.level), cut.text) == (16, 16, "x")


def test_a_full_log_ends_with_a_line_that_says_so_and_takes_no_more() -> None:
    kept, log = admit(AttemptLog(), 0, lines(*["x" * 90] * 20), SMALL)
    assert log.closed
    assert "truncated" in kept[-1].text
    assert "1,000 bytes" in kept[-1].text
    assert log.next_line == len(kept) < 20
    assert admit(log, log.next_line, lines("more"), SMALL) == ([], log)


def test_empty_lines_fill_a_log_too() -> None:
    _, log = admit(AttemptLog(), 0, [LogLine()] * 10_000, SMALL)
    assert log.closed


@given(
    st.lists(st.text(max_size=40), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20),
)
def test_whatever_order_chunks_come_in_the_log_is_a_prefix_within_its_limit(
    written: list[str], chunks: list[tuple[int, int]]
) -> None:
    sent = [LogLine(text=text) for text in written]
    log, stored = AttemptLog(), list[LogLine]()
    for start, count in chunks:
        kept, log = admit(log, start, sent[start : start + count], SMALL)
        stored += kept
        assert log.next_line == len(stored)
    body = stored[:-1] if log.closed else stored
    assert body == [cut_line(line, SMALL.line_bytes) for line in sent[: len(body)]]
    assert sum(map(cost, body)) <= SMALL.attempt_bytes
