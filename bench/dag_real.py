"""`dag-real`: recorded scientific workflows with tasks of no length, one after the other: what scheduling adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, Setup, running
from bench.database import Sqlite
from bench.figures import Report, cost_per, figure, median, percentile
from bench.plan import Plan
from bench.workflows import CONCURRENCY, one_run
from taskyard.v1.workflows_pb2 import Workflow
from taskyard_cli.importing.graph import depth
from taskyard_cli.importing.sleeping import sleep_workflow
from taskyard_cli.importing.wfformat import read_wfformat

PASSES = 15
WARM_UP_PASSES = 3
NAME = "dag-real"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A workflow of a file, and what it is like."""

    file: str
    workflow: Workflow
    figures: Mapping[str, int]


async def dag_real(plan: Plan, folder: Path) -> Report:
    """Runs every file of the folder again and again, one run at a time."""
    recorded = read_all(plan.workflows)
    makespans, cost, facts = await _passes(plan, folder / "many", recorded, Setup(CONCURRENCY, plan.profile, NAME))
    default, _, _ = await _passes(plan, folder / "default", recorded, Setup(None, plan.profile, f"{NAME}-default"))
    sums = [sum(each.values()) for each in makespans]
    detail = {
        "files": {
            each.file: {"makespan_s": figure(median([one[each.file] for one in makespans])), **each.figures}
            for each in recorded
        },
        "passes": len(sums), "min_s": figure(min(sums)), "p90_s": figure(percentile(sums, 90)),
        "max_s": figure(max(sums)), "at_default_concurrency": figure(median([sum(one.values()) for one in default])),
        "cost_us_per_task": cost, "settings": facts,
    }  # fmt: skip
    return Report(NAME, figure(median(sums)), "s", detail)


def read_all(folder: Path) -> list[Recorded]:
    """Returns the workflows of a folder's files, with steps that end at once.

    Raises:
        FileNotFoundError: There is no such folder, or no file in it.
        BadFile: One of them is no WfFormat.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"{folder} has no WfFormat files (*.json); WORKFLOWS names another folder")
    return [_recorded(file) for file in files]


def _recorded(file: Path) -> Recorded:
    # Named by its file: recordings of one application have one name.
    workflow = sleep_workflow(read_wfformat(file.read_bytes(), file.name), 0, file.stem)
    parents = {step.id: list(step.needs) for step in workflow.steps}
    counted = {"tasks": len(parents), "edges": sum(map(len, parents.values())), "depth": depth(parents)}
    return Recorded(file.stem, workflow, counted)


async def _passes(
    plan: Plan, folder: Path, recorded: Sequence[Recorded], setup: Setup
) -> tuple[list[dict[str, float]], dict[str, float], dict[str, Any]]:
    """Returns the makespans in seconds by file of each pass, costs by process, and facts of the cluster."""
    passes = plan.count(PASSES, least=3)
    async with running(folder, Sqlite(folder), setup) as cluster:
        for each in recorded:
            await cluster.client.apply_workflow(each.workflow)
        for _ in range(plan.count(WARM_UP_PASSES)):
            await _one_pass(cluster, recorded)
        before = cluster.costs()
        makespans = [await _one_pass(cluster, recorded) for _ in range(passes)]
        tasks = passes * sum(len(each.workflow.steps) for each in recorded)
        cost = cost_per(before, cluster.costs(), tasks)
    return makespans, cost, cluster.facts


async def _one_pass(cluster: Cluster, recorded: Sequence[Recorded]) -> dict[str, float]:
    return {each.file: await one_run(cluster, each.workflow.name, len(each.workflow.steps)) for each in recorded}
