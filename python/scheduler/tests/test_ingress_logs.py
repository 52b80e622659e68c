"""Which lines of a log are asked for."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.tasks_pb2 import LogLine, LogSelection
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.ingress.logs import read_selection


def line(text: str, ms: int = 0) -> LogLine:
    made = LogLine(text=text)
    made.time.FromMilliseconds(ms)
    return made


def at(ms: int) -> Timestamp:
    made = Timestamp()
    made.FromMilliseconds(ms)
    return made


def test_nothing_set_is_everything() -> None:
    assert read_selection(LogSelection()) is None
    assert read_selection(LogSelection(since=Timestamp())) is None


@pytest.mark.parametrize(
    ("selection", "taken", "left"),
    [
        (LogSelection(contains="error"), ["an ERROR here", "errors"], ["err or", ""]),
        (LogSelection(contains="STRASSE"), ["die Straße"], ["strase"]),
        (LogSelection(contains="a|b"), ["a|b"], ["a", "b"]),
    ],
)
def test_a_line_has_the_text_in_it_whatever_its_case(
    selection: LogSelection, taken: list[str], left: list[str]
) -> None:
    wanted = read_selection(selection)
    assert wanted is not None
    assert [text for text in (*taken, *left) if wanted(line(text))] == taken


def test_a_line_is_not_older() -> None:
    wanted = read_selection(LogSelection(since=at(1_000), contains="x"))
    assert wanted is not None
    assert [ms for ms in (999, 1_000, 1_001) if wanted(line("x", ms))] == [1_000, 1_001]
    assert not wanted(line("y", 2_000))


def test_a_line_is_of_one_of_the_streams() -> None:
    wanted = read_selection(LogSelection(streams=["output", "stderr"], contains="x"))
    assert wanted is not None
    named = ("stdout", "stderr", "log", "output")
    assert [name for name in named if wanted(LogLine(stream=name, text="x"))] == ["stderr", "output"]
    assert not wanted(LogLine(stream="output", text="y"))


def test_a_stream_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_selection(LogSelection(streams=["output", "stdin"]))
    (violation,) = refused.value.violations
    assert violation.field == "selection.streams[1]"
    assert violation.description == "'stdin' is no stream: give stdout, stderr, log, output"
    with pytest.raises(InvalidInput, match=r"selection\.streams"):
        read_selection(LogSelection(streams=["log"] * 5))


def test_what_breaks_a_rule_is_named() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_selection(LogSelection(contains="x" * 1_001, since=Timestamp(seconds=-1)))
    assert [violation.field for violation in refused.value.violations] == ["selection.contains", "selection.since"]
