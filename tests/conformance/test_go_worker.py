"""The smallest worker, in a language that the project does not use: made from the contract, it passes the core."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.kit import report
from conformance.kit.playing import Outcome, play_all
from conformance.kit.scenario import read_all

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).with_name("workers") / "go"
GO = ["sh", str(ROOT / "tools/go.sh")]
CORE = {scenario.name: scenario for scenario in read_all() if scenario.core}
SIDE_BY_SIDE = 4
NO_GO = 3
"""What tools/go.sh ends with where there is no Go."""


def run(*command: str, folder: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=os.environ | environ, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def go_worker() -> Path:
    """Builds the worker as `make conformance-go` does; returns its program."""
    if (found := run(*GO)).returncode == NO_GO:
        pytest.skip(found.stderr.strip())
    program = Path("build/go-worker/worker")
    built = run("make", str(program))
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / program


@pytest.fixture(scope="module")
def played(go_worker: Path) -> dict[str, Outcome]:
    """Every scenario of the core, played with the Go worker."""
    outcomes = asyncio.run(play_all(list(CORE.values()), [str(go_worker)], SIDE_BY_SIDE, lambda outcome: None))
    return {outcome.scenario.name: outcome for outcome in outcomes}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", CORE)
def test_the_go_worker_passes_the_core(played: dict[str, Outcome], name: str) -> None:
    assert played[name].passed, report.row(played[name]) + "\n" + report.details(played[name])
    assert played[name].history


@pytest.mark.timeout(400)
def test_its_source_is_formatted_and_vetted(go_worker: Path) -> None:
    formatted = run(*GO, "gofmt", "-d", str(SOURCES))
    assert (formatted.returncode, formatted.stdout) == (0, ""), formatted.stderr
    vetted = run(*GO, "go", "vet", ".", folder=go_worker.parent)
    assert vetted.returncode == 0, vetted.stderr


def test_without_go_the_build_says_what_to_install(tmp_path: Path) -> None:
    """A machine with nothing but a Go that is too old, seen through its PATH and places that are not there."""
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.18.10 linux/amd64\n")
    old.chmod(0o755)
    for program in ("sh", "sed", "dirname"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    done = run(*GO, "go", "version", PATH=str(tmp_path), HOME=str(tmp_path), GO_PLACES=str(tmp_path))
    assert (done.returncode, done.stdout) == (NO_GO, "")
    assert done.stderr.strip() == "no Go 1.19 or later: install it (Debian: golang-go), or put its folder on PATH"
