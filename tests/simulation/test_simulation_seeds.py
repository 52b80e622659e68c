"""Thousands of histories of the whole system, and that each is the same whenever and wherever it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation import coverage, faults, pool, seed

SEEDS = 2_000
FIRST = 1
LEAST_TASKS = 50
REPOSITORY = Path(__file__).parents[2]


def seeds_wanted() -> int:
    return int(os.environ.get("SEEDS", str(SEEDS)))


@pytest.mark.timeout(4 * 3600)
def test_simulation_keeps_every_promise(record_property: Callable[[str, object], None]) -> None:
    count = seeds_wanted()
    total = pool.run_all(FIRST, count)
    record_property("finding", coverage.report(total))
    assert not total.failed, total.complaint()
    if count >= SEEDS:
        assert coverage.missing(total, faults.kinds()) == []
    assert total.least_tasks >= LEAST_TASKS


def digest_in_another_process(number: int, hash_seed: str) -> str:
    environ = {**os.environ, "PYTHONPATH": "tests", "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "simulation", "--seed", str(number)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.split("trace ")[1].split()[0]


@pytest.mark.parametrize("number", [1, 5, 8, 11])
def test_simulation_repeats_itself_whatever_the_hash_seed(number: int) -> None:
    digests = {digest_in_another_process(number, hash_seed) for hash_seed in ("0", "1", "4242")}
    assert digests == {seed.run(number).digest}


def test_simulation_different_seeds_differ() -> None:
    assert seed.run(21).digest != seed.run(22).digest


def test_simulation_failure_says_how_to_replay_it() -> None:
    total = pool.Total(seeds=1, failed={77: ["at 1.000 s: done stays done: it did not"]})
    assert "python -m simulation --seed 77 --trace" in total.complaint()
    assert "done stays done" in total.complaint()
