"""`latency`: an idle cluster, one task at a time, from submission to the durable result known at the client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bench.cluster import Cluster, Setup, running
from bench.database import Database, PrivateMariaDB, Sqlite
from bench.figures import Report, figure, median, percentile
from bench.plan import Plan

TASKS = 2_000
WARM_UP = 200
NAME = "latency"


async def latency(plan: Plan, folder: Path) -> Report:
    """Measures SQLite as shipped, then with synchronous=NORMAL, then MariaDB."""
    full, settings = await _on(plan, folder / "full", Sqlite(folder / "full"), NAME)
    normal, _ = await _on(plan, folder / "normal", Sqlite(folder / "normal", "NORMAL"), f"{NAME}-normal")
    mariadb, mariadb_settings = await _on(
        plan, folder / "mariadb", PrivateMariaDB(folder / "mariadb"), f"{NAME}-mariadb"
    )
    detail = {
        "tasks": len(full),
        "p99_ms": _ms(full, 99), "p90_ms": _ms(full, 90), "max_ms": _ms(full, 100),
        "normal_p50_ms": _ms(normal, 50), "normal_p99_ms": _ms(normal, 99),
        "mariadb_p50_ms": _ms(mariadb, 50), "mariadb_p99_ms": _ms(mariadb, 99),
        "settings": settings, "mariadb_settings": mariadb_settings,
    }  # fmt: skip
    return Report(NAME, figure(median(full) * 1000), "ms", detail)


async def _on(plan: Plan, folder: Path, database: Database, name: str) -> tuple[list[float], dict[str, Any]]:
    async with running(folder, database, Setup(None, plan.profile, name)) as cluster:
        await _one_by_one(cluster, plan.count(WARM_UP, least=20))
        taken = await _one_by_one(cluster, plan.count(TASKS, least=20))
    return taken, cluster.facts


async def _one_by_one(cluster: Cluster, tasks: int) -> list[float]:
    """Returns seconds from each submission to its result."""
    taken = []
    for _ in range(tasks):
        start = time.perf_counter()
        cluster.submitted_tasks += 1
        handle = await cluster.client.submit("noop")
        await handle.result()
        taken.append(time.perf_counter() - start)
    return taken


def _ms(values: list[float], percent: float) -> float:
    return figure(percentile(values, percent) * 1000)
