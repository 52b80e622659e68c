from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from taskyard_service.logging import adopt_stdlib, make_logger


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def root_kept() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_object_with_bound_context(stream: io.StringIO) -> None:
    log = make_logger("scheduler", stream=stream).bind(scheduler_id="s-1", term=3)
    log.info("worker lost\nline two \x1b[31m", worker_id="w\n1", odd=object)
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line.pop("odd") == "<class 'object'>"
    assert line == {
        "component": "scheduler",
        "scheduler_id": "s-1",
        "term": 3,
        "event": "worker lost\nline two \x1b[31m",
        "worker_id": "w\n1",
        "level": "info",
    }
    assert "\x1b" not in stream.getvalue()


def test_levels_filter_and_a_wrong_one_is_named(stream: io.StringIO) -> None:
    log = make_logger("x", "warning", stream)
    log.info("no")
    log.warning("yes")
    assert [line["event"] for line in lines(stream)] == ["yes"]
    with pytest.raises(ValueError, match="'loud'; it must be one of: debug, info, warning, error"):
        make_logger("x", "loud")


def test_binding_does_not_change_the_logger_it_came_from(stream: io.StringIO) -> None:
    log = make_logger("x", stream=stream)
    log.bind(term=1).info("a")
    log.info("b")
    assert ["term" in line for line in lines(stream)] == [True, False]


def test_a_traceback_has_no_local_variables(stream: io.StringIO) -> None:
    def fails(token: str) -> None:
        raise ValueError("oh")

    try:
        fails("very-secret-token")
    except ValueError:
        make_logger("x", stream=stream).exception("failed")
    assert "very-secret-token" not in stream.getvalue()
    (line,) = lines(stream)
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["frames"][-1]["name"] == "fails"


@pytest.mark.usefixtures("root_kept")
def test_what_libraries_log_comes_out_in_the_same_form(stream: io.StringIO) -> None:
    adopt_stdlib(make_logger("scheduler", stream=stream))
    library = logging.getLogger("some.library")
    library.info("not this")
    library.warning("%d of %s", 3, "these")
    try:
        raise OSError("disk")
    except OSError:
        library.exception("and this")
    first, second = lines(stream)
    assert (first["event"], first["logger"], first["level"]) == ("3 of these", "some.library", "warning")
    assert (second["level"], second["exception"][0]["exc_value"]) == ("error", "disk")
