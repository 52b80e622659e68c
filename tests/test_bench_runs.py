"""The benchmarks on real processes, small: they measure, they print what the design names, and they do not lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wfformat_documents import SHAPES, document, encoded

from bench.child import Child, ChildFailed
from bench.cluster import Setup, WrongEnd, running
from bench.command import measure
from bench.database import Sqlite
from bench.peers.environment import LOCK
from bench.plan import Plan

ROOT = Path(__file__).resolve().parent.parent
SMALL = Plan(scale=0.01, repeats=1, peers=False)


def bench(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        env=os.environ | environ, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_last_line_is_the_report() -> None:
    done = bench("dag-chain", SCALE="0.01", ANYWAY="1")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert list(report) == ["name", "value", "unit", "detail", "peers"]
    assert report["name"] == "dag-chain"
    assert report["unit"] == "ms/step"
    assert 0 < report["value"] < 1000
    settings = report["detail"]["settings"]
    assert settings["max_concurrency"] == 10
    assert settings["synchronous"] == "FULL"
    assert settings["versions"]["grpcio"]
    assert report["detail"]["bars"]["value"]["bar"] == 3


def test_an_unknown_name_and_a_bad_plan_are_refused_in_words() -> None:
    unknown = bench("througput")
    assert unknown.returncode == 64
    assert "throughput" in unknown.stderr
    bad = bench("latency", SCALE="much")
    assert bad.returncode == 64
    assert "SCALE is 'much'" in bad.stderr


async def test_throughput_counts_every_task_in_the_database(tmp_path: Path) -> None:
    report = await measure("throughput", SMALL, tmp_path)
    assert report.detail["tasks"] == 1000
    assert report.value > 0
    assert report.detail["at_default_concurrency"] > 0
    assert report.detail["settings"]["max_concurrency"] == 1000
    # A process that used less than a clock tick of its own has no figure: the scheduler alone is sure to have one.
    assert "scheduler" in report.detail["cost_us_per_task"]


async def test_single_submissions_are_measured_with_and_without_coalescing(tmp_path: Path) -> None:
    report = await measure("submit-single", SMALL, tmp_path)
    assert report.value > 0
    assert report.detail["raw_unary"] > 0


async def test_runs_and_fan_out_are_measured(tmp_path: Path) -> None:
    report = await measure("runs", SMALL, tmp_path)
    assert report.value > 0
    assert 0 < report.detail["fanout_1000_s"] < 60


async def test_recorded_workflows_are_measured_one_by_one(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    for name in ("bacass", "srasearch-10a"):
        graph = SHAPES[name].make()
        made = document(graph, name="same", runtimes=dict.fromkeys(graph, 1e9))
        (folder / f"{name}.json").write_bytes(encoded(made))
    report = await measure("dag-real", replace(SMALL, workflows=folder), tmp_path)
    files = report.detail["files"]
    assert {name: each["tasks"] for name, each in files.items()} == {"bacass": 11, "srasearch-10a": 22}
    assert files["bacass"] | {"makespan_s": 0} == {"makespan_s": 0, "tasks": 11, "edges": 14, "depth": 5}
    assert 0 < max(each["makespan_s"] for each in files.values()) < report.detail["max_s"]
    assert report.detail["min_s"] <= report.value <= report.detail["max_s"]
    assert report.detail["at_default_concurrency"] > 0
    assert report.detail["settings"]["max_concurrency"] == 1000


def test_a_folder_without_recorded_workflows_is_said(tmp_path: Path) -> None:
    nothing = bench("dag-real", WORKFLOWS=str(tmp_path / "nowhere"), ANYWAY="1")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr.endswith("nowhere has no WfFormat files (*.json); WORKFLOWS names another folder\n")
    (tmp_path / "bad.json").write_text("[]")
    bad = bench("dag-real", WORKFLOWS=str(tmp_path), ANYWAY="1")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "bench: bad.json: is no WfFormat" in bad.stderr


@pytest.mark.usefixtures("mariadb")  # skips where there is none; the benchmark makes its own
async def test_latency_is_measured_on_both_databases(tmp_path: Path) -> None:
    report = await measure("latency", SMALL, tmp_path)
    assert 0 < report.value <= report.detail["p99_ms"]
    assert report.detail["normal_p50_ms"] > 0
    assert report.detail["mariadb_p50_ms"] > 0
    assert report.detail["mariadb_settings"]["innodb_flush_log_at_trx_commit"] == "1"


async def test_a_task_that_is_missing_from_the_database_leaves_no_figure(tmp_path: Path) -> None:
    async def count_one_too_many() -> None:
        folder = tmp_path / "cluster"
        async with running(folder, Sqlite(folder), Setup()) as cluster:
            await (await cluster.client.submit("noop")).result()
            cluster.submitted_tasks = 2

    with pytest.raises(WrongEnd, match="were submitted"):
        await count_one_too_many()


async def test_a_sampled_scheduler_leaves_its_profile(tmp_path: Path) -> None:
    plan = Plan(scale=0.005, repeats=1, peers=False, profile=frozenset({"scheduler"}))
    await measure("submit-single", plan, tmp_path)
    text = (ROOT / ".bench" / "profiles" / "submit-single-scheduler.txt").read_text()
    assert "thread MainThread: with what it calls" in text


def test_the_peers_are_pinned_by_hash_and_by_no_address() -> None:
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    pins = [number for number, line in enumerate(lines) if "==" in line and not line.startswith(" ")]
    assert pins
    assert all(lines[number + 1].strip().startswith("--hash=sha256:") for number in pins)
    assert "://" not in "".join(lines)


def test_a_process_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    child = Child("mortal", [sys.executable, "-c", "print('farewell'); raise SystemExit(3)"], tmp_path, os.environ)
    child.wait()
    with pytest.raises(ChildFailed, match="exit code 3"):
        child.check()
    assert "farewell" in child.log_tail()
    child.kill()
