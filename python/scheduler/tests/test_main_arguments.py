"""The command line of the scheduler: help needs no settings, and an argument that it does not know is refused."""

from __future__ import annotations

import pytest

from taskyard_scheduler.main import EXIT_SETTINGS, main


def test_help_needs_no_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"], {}) == 0
    shown = capsys.readouterr()
    assert "usage: taskyard scheduler" in shown.out
    assert "TASKYARD_SECRET" in shown.out
    assert shown.err == ""


def test_an_argument_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "5"], {"TASKYARD_SECRET": "x" * 40}) == EXIT_SETTINGS
    assert "unrecognized arguments: --port 5" in capsys.readouterr().err


def test_no_arguments_are_those_of_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    """A program that calls `main()` keeps its own command line."""
    assert main(None, {}) == EXIT_SETTINGS
    assert "TASKYARD_SECRET is not set" in capsys.readouterr().err
