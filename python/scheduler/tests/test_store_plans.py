"""No question of the store port and no write searches a whole table, on either database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine
from store_rows import NOW, attempt, changes, checkpoint, column, instance, instance_update, run, run_update

from taskyard_core.records import Phase
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Condition, Store
from taskyard_scheduler.store.sqlite_writer import SqliteWriter
from taskyard_scheduler.store.writes import BadRow

WHOLE = 1200


@pytest.fixture
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, str, list[str]]]:
    """A store in which most instances and runs have ended, its URL, and the ids."""
    kind: str = request.param
    url = request.getfixturevalue("mariadb_database") if kind == "mysql" else f"sqlite:///{tmp_path / 'plans.db'}"
    store = open_store(url)
    await store.open()
    await store.begin_term("test", NOW)
    phases = [Phase.PENDING, Phase.READY, Phase.IN_FLIGHT] + [Phase.ENDED] * 57
    rows = [
        instance(
            phase=phases[n % 60], run_id=f"r{n // 10}" if n % 2 else "", request_id=f"q{n}", idempotency_key=f"k{n}"
        )
        for n in range(WHOLE)
    ]
    runs = [run(request_id=f"q{n}", idempotency_key=f"k{n}", ended_at=NOW if n % 20 else None) for n in range(WHOLE)]
    ids = [column(row, "id") for row in rows]
    attempts = [attempt(id, 1) for id in ids]
    checkpoints = [checkpoint(id, 1, "") for id in ids]
    await store.commit(
        1,
        changes(1, instance_inserts=rows, run_inserts=runs, attempt_inserts=attempts, checkpoint_upserts=checkpoints),
    )
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        analyze = "ANALYZE" if kind == "sqlite" else "ANALYZE TABLE instances, runs, attempts, checkpoints"
        if kind == "mysql":  # SQLite in production has no statistics, and shall do without
            connection.exec_driver_sql(analyze).all()
    yield store, url, ids
    await store.close()


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """Gathers the statements that run meanwhile."""
    seen: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, text: str, parameters: Any, *___: Any) -> None:
        if text.lstrip().startswith("SELECT"):
            seen.append((text, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def ask_everything(store: Store, ids: list[str]) -> None:
    key = ("default", ids[600])
    await store.load_runs(key, 10)
    await store.load_instances(Phase.PENDING, key, 10)
    await store.load_instances(Phase.IN_FLIGHT, key, 10)
    await store.load_ready("default", "greet", (NOW, ids[600]), 10)
    await store.count_ready()
    await store.load_request_ids(NOW + 1, 10)
    await store.find_requests("instance", "default", ["q1", "q2", "q3"])
    await store.find_requests("run", "default", ["q1", "q2", "q3"])
    await store.find_keys("instance", "default", ["k1", "k2"])
    await store.find_keys("run", "default", ["k1", "k2"])
    await store.get_instances("default", ids[:20])
    await store.get_attempts("default", ids[0])
    await store.get_run("default", ids[0])
    await store.run_instances("default", "r5")
    await store.list_instances("default", [], ids[600], 10, newest_first=True)
    await store.list_instances("default", [Condition("run_id", "==", "r5")], None, 10, newest_first=False)
    await store.list_instances("default", [Condition("state", "in", (1, 7, 10))], None, 10, newest_first=False)
    await store.list_instances("default", [Condition("state", "==", 1)], ids[600], 10, newest_first=True)
    await store.list_instances("default", [Condition("state", "==", 13)], None, 10, newest_first=False)
    await store.list_runs("default", [], None, 10, newest_first=False)


@pytest.mark.parametrize("filled", ["sqlite"], indirect=True)
async def test_sqlite_finds_everything_by_an_index(filled: tuple[Store, str, list[str]]) -> None:
    store, url, ids = filled
    with statements() as seen:
        await ask_everything(store, ids)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        for text, parameters in seen:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", parameters)
            steps = [row[3] for row in plan]
            scans = [step for step in steps if step.startswith("SCAN") and "anon" not in step]
            covered = [step for step in scans if "USING COVERING INDEX instances_ready" in step]
            assert scans == covered, (text, steps)
            if "phase = 1" in text or "phase IN" in text:
                assert any("instances_ready" in step or "instances_live" in step for step in steps), (text, steps)
    assert len(seen) >= 20


@pytest.mark.parametrize("filled", ["mysql"], indirect=True)
async def test_mysql_finds_everything_by_an_index(filled: tuple[Store, str, list[str]]) -> None:
    store, url, ids = filled
    with statements() as seen:
        await ask_everything(store, ids)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        for text, parameters in seen:
            plan = connection.exec_driver_sql(f"EXPLAIN {text}", parameters).mappings().all()
            for step in plan:
                if step["table"] in ("instances", "runs", "attempts", "checkpoints"):
                    assert step["type"] not in ("ALL", "index"), (text, plan)
                    assert int(step["rows"]) < WHOLE, (text, plan)
    assert len(seen) >= 20


class Explaining:
    """A cursor that notes the plan of each statement instead of running it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.rowcount = 0
        self.plans: list[str] = []

    def execute(self, text: str | bytes, values: Any = ()) -> None:
        plan = self._connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text!s}", tuple(values))
        self.plans += [row[3] for row in plan]


@pytest.mark.parametrize("filled", ["sqlite"], indirect=True)
@pytest.mark.parametrize("count", [1, 3, 700])
async def test_sqlite_writes_by_the_key(filled: tuple[Store, str, list[str]], count: int) -> None:
    _, url, ids = filled
    writer, steps = SqliteWriter(), SqliteWriter.steps
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        cursor = Explaining(connection)
        pairs = [("default", id) for id in ids[:count]]
        updates = [instance_update(id, duration_ms=n) for n, id in enumerate(ids[:count])]
        writer.delete(cursor, steps["instance_deletes"], pairs)
        for kind, rows in (("instance_updates", updates), ("run_updates", [run_update(id) for id in ids[:count]])):
            with pytest.raises(BadRow):  # nothing was written
                writer.update(cursor, steps[kind], rows)
    scans = [plan for plan in cursor.plans if plan.startswith("SCAN") and plan not in ("SCAN v",)]
    assert [plan for plan in scans if "ROW" not in plan] == []
