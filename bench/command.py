"""Runs one benchmark in this process, or all of them, each in a process of its own, and writes results.md."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from bench import machine
from bench.bars import BARS, judge
from bench.child import ChildFailed
from bench.cluster import WrongEnd
from bench.dag_real import dag_real
from bench.figures import Report
from bench.gateway import gateway
from bench.latency import latency
from bench.peers.environment import PeerFailed
from bench.plan import FOLDER, BadPlan, Plan, plan_of
from bench.results import write_results
from bench.submit_single import submit_single
from bench.throughput import throughput, throughput_mysql
from bench.workflows import dag_chain, runs
from taskyard_cli.problems import BadFile

EXIT_FAILED = 1
EXIT_USAGE = 64
EXIT_BUSY = 75
PROFILE_SCALE = 0.3

BENCHMARKS: dict[str, Callable[[Plan, Path], Awaitable[Report]]] = {
    "throughput": throughput,
    "throughput-mysql": throughput_mysql,
    "submit-single": submit_single,
    "latency": latency,
    "runs": runs,
    "dag-chain": dag_chain,
    "dag-real": dag_real,
    "gateway": gateway,
}
VERSIONS = ("taskyard-scheduler", "grpcio", "protobuf", "sqlalchemy", "pymysql", "uvicorn", "uvloop")


def main(arguments: Sequence[str]) -> int:
    """Runs what is named, or all; returns the exit code."""
    unknown = [name for name in arguments if name not in BENCHMARKS]
    if unknown:
        print(f"there is no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        plan = plan_of(os.environ)
        if len(arguments) != 1:
            return run_all(list(arguments) or list(BENCHMARKS), plan)
        print(run_one(arguments[0], plan).line())
        return 0
    except BadPlan as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_USAGE
    except machine.MachineBusy as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_BUSY
    except (ChildFailed, WrongEnd, PeerFailed, FileNotFoundError, BadFile) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_FAILED


def run_one(name: str, plan: Plan) -> Report:
    """Runs a benchmark and returns its report, with the machine, the versions and the verdicts in its detail."""
    busy = machine.look(anyway=plan.anyway)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=FOLDER))
    try:
        facts = machine.facts(folder, busy)
        report = asyncio.run(measure(name, plan, folder))
    finally:
        if plan.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    report.detail["settings"] |= {"machine": facts, "versions": versions(), "scale": plan.scale}
    report.detail["bars"] = judge(report)
    show_profiles(name, plan)
    return report


async def measure(name: str, plan: Plan, folder: Path) -> Report:
    """Runs one benchmark."""
    return await BENCHMARKS[name](plan, folder)


def versions() -> dict[str, str]:
    """Returns the versions of what takes part."""
    return {name: importlib.metadata.version(name) for name in VERSIONS}


def profiles(name: str) -> list[Path]:
    """Returns the profiles of a benchmark."""
    return sorted((FOLDER / "profiles").glob(f"{name}-*.txt"))


def show_profiles(name: str, plan: Plan) -> None:
    """Prints where the time went, when the plan asked for it."""
    if plan.profile:
        for path in profiles(name):
            print(f"\n== {path.stem}\n{path.read_text(encoding='utf-8')}", file=sys.stderr)


def run_all(names: list[str], plan: Plan) -> int:
    """Runs benchmarks one after the other, writes results.md, and prints one JSON object: reports by name."""
    reports: dict[str, dict[str, Any]] = {}
    failed = []
    for name in names:
        print(f"== {name}", file=sys.stderr)
        report = run_apart(name, {})
        if report is None:
            failed.append(name)
            continue
        print(json.dumps(report))
        reports[name] = report
    if not plan.profile:
        for name in missed(reports):
            print(f"== {name}, again, to see where the time goes", file=sys.stderr)
            scale = str(min(plan.scale, PROFILE_SCALE))
            run_apart(name, {"PROFILE": "scheduler", "SCALE": scale, "REPEATS": "1", "PEERS": "0"})
    if plan.scale == 1 and set(names) == set(BENCHMARKS) and not failed:
        write_results(reports, {name: profiles(name) for name in missed(reports)})
    for name in failed:
        print(f"bench: {name} failed", file=sys.stderr)
    return EXIT_FAILED if failed else 0


def run_apart(name: str, environ: dict[str, str]) -> dict[str, Any] | None:
    """Runs a benchmark in a process of its own, so that none inherits another's memory; None when it failed."""
    for path in profiles(name):
        path.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "bench", name], env=os.environ | environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        return None
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def missed(reports: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the benchmarks of which some figure does not reach its bar."""
    return [
        name for name in BARS if name in reports
        and any(told["verdict"] != "reached" for told in reports[name]["detail"]["bars"].values())
    ]  # fmt: skip
