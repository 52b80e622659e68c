"""`runs` and `dag-chain`: workflows of no-op steps, from the start of a run until its end is durable."""

from __future__ import annotations

import time
from pathlib import Path

from bench.cluster import Cluster, Setup, running
from bench.database import Sqlite
from bench.figures import Report, cost_per, figure, median, percentile
from bench.load import call_repeatedly, runs_ended, until
from bench.plan import Plan
from taskyard.v1.workflows_pb2 import Workflow, WorkflowStep

RUNS = 20_000
CALLERS = 16
WARM_UP_RUNS = 1_000
FAN_OUT = 1_000
FAN_OUT_REPEATS = 7
CHAIN = 40
CHAIN_REPEATS = 25
CONCURRENCY = 1000

ONE = Workflow(name="one", steps=[WorkflowStep(id="only", task_type="noop")])


def wide(width: int) -> Workflow:
    """Returns a workflow of so many steps that all may run at once."""
    return Workflow(name="wide", steps=[WorkflowStep(id=f"s{n}", task_type="noop") for n in range(width)])


def chain(length: int) -> Workflow:
    """Returns a workflow of so many steps, each of which waits for the one before."""
    steps = [WorkflowStep(id=f"s{n}", task_type="noop", needs=[f"s{n - 1}"] if n else []) for n in range(length)]
    return Workflow(name="chain", steps=steps)


async def runs(plan: Plan, folder: Path) -> Report:
    """Starts runs of a one-step workflow by 16 callers; then single runs of 1,000 parallel steps."""
    count = plan.count(RUNS)
    async with running(folder, Sqlite(folder), Setup(CONCURRENCY, plan.profile, "runs")) as cluster:
        await cluster.client.apply_workflow(ONE)
        await cluster.client.apply_workflow(wide(FAN_OUT))
        await _many_runs(cluster, plan.count(WARM_UP_RUNS, least=20))
        before = cluster.costs()
        rate = await _many_runs(cluster, count)
        cost = cost_per(before, cluster.costs(), count)
        fan_outs = [await one_run(cluster, "wide", FAN_OUT) for _ in range(FAN_OUT_REPEATS + 2)][2:]
    detail = {
        "runs": count, "callers": CALLERS, "cost_us_per_run": cost,
        "fanout_1000_s": figure(median(fan_outs)), "fanout_1000_max_s": figure(max(fan_outs)),
        "settings": cluster.facts,
    }  # fmt: skip
    return Report("runs", figure(rate), "runs/s", detail)


async def dag_chain(plan: Plan, folder: Path) -> Report:
    """Runs a chain of 40 steps again and again, one run at a time."""
    repeats = plan.count(CHAIN_REPEATS, least=3)
    async with running(folder, Sqlite(folder), Setup(None, plan.profile, "dag-chain")) as cluster:
        await cluster.client.apply_workflow(chain(CHAIN))
        await one_run(cluster, "chain", CHAIN)
        taken = [await one_run(cluster, "chain", CHAIN) * 1000 / CHAIN for _ in range(repeats)]
    detail = {
        "steps": CHAIN, "repeats": repeats, "p90_ms": figure(percentile(taken, 90)), "max_ms": figure(max(taken)),
        "settings": cluster.facts,
    }  # fmt: skip
    return Report("dag-chain", figure(median(taken)), "ms/step", detail)


async def _many_runs(cluster: Cluster, count: int) -> float:
    """Returns runs a second, from the first start until the last run has ended durably."""
    client = cluster.client
    start = time.perf_counter()
    cluster.submitted_runs += count
    cluster.submitted_tasks += count
    await call_repeatedly(CALLERS, count, lambda: client.start_run("one"))
    await until(lambda: runs_ended(client), cluster.submitted_runs, cluster.check)
    return count / (time.perf_counter() - start)


async def one_run(cluster: Cluster, workflow: str, steps: int) -> float:
    """Returns the seconds from a run's start to its end, known at the client."""
    start = time.perf_counter()
    cluster.submitted_runs += 1
    cluster.submitted_tasks += steps
    handle = await cluster.client.start_run(workflow)
    await handle.result()
    return time.perf_counter() - start
