"""`throughput` and `throughput-mysql`: no-op tasks in batches, until every result is durable."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, Setup, running
from bench.database import Database, PrivateMariaDB, Sqlite
from bench.figures import Report, cost_per, figure, median
from bench.load import BATCH, BATCHES_IN_FLIGHT, submit_batches, tasks_ended, until
from bench.peers.measure import measure_peers
from bench.plan import Plan

TASKS = 100_000
TASKS_AT_DEFAULT = 30_000
WARM_UP = 5_000
CONCURRENCY = 1000

MakeDatabase = Callable[[Path], Database]


@dataclass(frozen=True, slots=True)
class Pass:
    """One measurement: tasks a second, when the last submission was accepted, and what it cost."""

    rate: float
    accepted_rate: float
    cost_us: dict[str, float]


async def throughput(plan: Plan, folder: Path) -> Report:
    """On SQLite, beside Celery and Dramatiq."""
    report = await _measure(plan, folder, "throughput", Sqlite)
    if plan.peers:
        report.peers, report.detail["peers"] = measure_peers(plan, folder / "peers")
        for name, rate in report.peers.items():
            report.detail[f"{name}_ratio"] = figure(report.value / rate)
    return report


async def throughput_mysql(plan: Plan, folder: Path) -> Report:
    """On MariaDB."""
    return await _measure(plan, folder, "throughput-mysql", PrivateMariaDB)


async def _measure(plan: Plan, folder: Path, name: str, database: MakeDatabase) -> Report:
    tasks = plan.count(TASKS, step=BATCH)
    passes: list[Pass] = []
    settings: dict[str, Any] = {}
    for repeat in range(plan.repeats):  # each on a new database, as the first would find it
        where = folder / f"pass{repeat}"
        async with running(where, database(where), Setup(CONCURRENCY, plan.profile, name)) as cluster:
            passes.append(await one_pass(cluster, tasks, plan.count(WARM_UP, step=BATCH)))
        settings = cluster.facts
    rates = [one.rate for one in passes]
    middle = next(one for one in passes if one.rate == median(rates))
    detail = {
        "tasks": tasks, "batch": BATCH, "batches_in_flight": BATCHES_IN_FLIGHT,
        "repeats": [figure(rate) for rate in rates],
        "accepted_per_s": figure(middle.accepted_rate),
        "cost_us_per_task": middle.cost_us,
        "at_default_concurrency": await _at_default(plan, folder / "default", name, database),
        "settings": settings,
    }  # fmt: skip
    return Report(name, figure(middle.rate), "tasks/s", detail)


async def _at_default(plan: Plan, folder: Path, name: str, database: MakeDatabase) -> float:
    setup = Setup(None, plan.profile, f"{name}-default")
    async with running(folder, database(folder), setup) as cluster:
        tasks = plan.count(TASKS_AT_DEFAULT, step=BATCH)
        one = await one_pass(cluster, tasks, plan.count(WARM_UP, step=BATCH))
    return figure(one.rate)


async def one_pass(cluster: Cluster, tasks: int, warm_up: int) -> Pass:
    """Warms up, then submits so many tasks and waits until all have ended durably."""
    await _submit_and_wait(cluster, warm_up)
    before, start = cluster.costs(), time.perf_counter()
    accepted_after = await _submit_and_wait(cluster, tasks)
    taken = time.perf_counter() - start
    return Pass(tasks / taken, tasks / accepted_after, cost_per(before, cluster.costs(), tasks))


async def _submit_and_wait(cluster: Cluster, tasks: int) -> float:
    """Returns after how many seconds the last task was accepted."""
    start = time.perf_counter()
    cluster.submitted_tasks += tasks
    await submit_batches(cluster.client, tasks)
    accepted_after = time.perf_counter() - start
    await until(lambda: tasks_ended(cluster.client), cluster.submitted_tasks, cluster.check)
    return accepted_after
