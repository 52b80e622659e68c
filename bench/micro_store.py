"""The store alone: commits what the engine writes for no-op tasks, in one process, without wire or worker.

`PYTHONPATH=tests python -m bench.micro_store sqlite|normal|mariadb [TASKS [BATCH]]`. Tells the commit's time for a task
and the processor time of it in this process; each task is one insert and one update, in two commits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from bench.database import Database, PrivateMariaDB, Sqlite
from bench.figures import figure, percentile
from bench.micro_engine import START_MS, batches, clockwork
from bench.plan import FOLDER
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Store


async def measure(store: Store, tasks: int, batch: int) -> dict[str, float]:
    """Returns what commits cost on an open store."""
    start = await store.begin_term("micro", START_MS)
    one = clockwork(start.term, start.revision)
    waited: list[float] = []
    cpu_s = 0.0
    for new in batches(tasks, batch):
        one.round(new)
        sealed = [changes for changes in one.sealed if changes.revision]
        one.sealed.clear()
        cpu_start = time.process_time()
        for changes in sealed:
            began = time.perf_counter()
            await store.commit(start.term, changes)
            waited.append(time.perf_counter() - began)
        cpu_s += time.process_time() - cpu_start
    return {
        "us_per_task": figure(sum(waited) / tasks * 1e6),
        "cpu_us_per_task": figure(cpu_s / tasks * 1e6),
        "commit_p50_ms": figure(percentile(waited, 50) * 1000),
        "commit_p99_ms": figure(percentile(waited, 99) * 1000),
    }


async def run(kind: str, tasks: int, batch: int) -> dict[str, float]:
    """Makes a database, measures, and removes it."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        database: Database = PrivateMariaDB(Path(name)) if kind == "mariadb" else Sqlite(Path(name))
        database.start()
        url = database.environ().get("TASKYARD_DATABASE", f"sqlite:///{name}/taskyard.db")
        store = open_store(url, synchronous="NORMAL" if kind == "normal" else "FULL")
        try:
            await store.open()
            return await measure(store, tasks, batch)
        finally:
            await store.close()
            database.stop()


if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    sizes = [int(text) for text in given] + [50_000, 500][len(given) :]
    print(json.dumps(asyncio.run(run(kind, *sizes))))
