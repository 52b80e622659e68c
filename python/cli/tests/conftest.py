"""Fixtures of the command's tests: a scripted server on a loop of its own, and the command itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_served import Cli, Served
from typer.testing import CliRunner

from taskyard_cli.main import build

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def served() -> Iterator[Served]:
    running = Served()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the person who runs the tests reaches them, and times are those of UTC."""
    for name in [name for name in os.environ if name.startswith("TASKYARD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TASKYARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")
    time.tzset()


@pytest.fixture
def cli() -> Cli:
    """Runs the command with arguments."""
    return lambda *arguments, **options: CliRunner().invoke(build(), list(arguments), **options)


@pytest.fixture
def at(served: Served, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Cli:
    """Runs the command against the scripted server."""
    monkeypatch.setenv("TASKYARD_ADDRESS", served.server.address)
    monkeypatch.setenv("TASKYARD_TOKEN", "t")
    return cli


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares an output with a file of `golden/`; UPDATE_GOLDEN=1 writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        tidy = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(tidy, encoding="utf-8")
        assert tidy == path.read_text(encoding="utf-8")

    return compare
