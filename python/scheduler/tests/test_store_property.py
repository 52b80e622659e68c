"""Whatever is committed, SQLite answers every question as the store in memory does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_databases import empty_database
from store_rows import (
    NOW,
    attempt,
    checkpoint,
    instance,
    instance_update,
    new_id,
    request,
    run,
    run_update,
    task_definition,
    worker,
    workflow,
    workflow_head,
)

from taskyard_core.records import Changes, Phase, Row
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Condition, RowsRefused, Store

TENANTS = ("default", "t🧪")
IDS = tuple(new_id(NOW + 3) for _ in range(6))  # made after every created_at
NAMES = ("a", "B", "é")
TEXTS = st.sampled_from(["", "x", "nul\x00", "🧪'\\", "%s"])
TIMES = st.integers(NOW - 2, NOW + 2)
MAYBE = st.sampled_from([None, "k1", "k2", "k3"])
PHASES = st.sampled_from([int(phase) for phase in Phase])
RUN_IDS = st.sampled_from(["", "r1", "r2"])

tenants, ids, names = st.sampled_from(TENANTS), st.sampled_from(IDS), st.sampled_from(NAMES)
keys = st.tuples(tenants, ids)


@st.composite
def rows_of(draw: st.DrawFn, /, key: st.SearchStrategy[Any], build: Any, **fields: st.SearchStrategy[Any]) -> list[Row]:
    """Draws rows whose keys differ."""
    chosen = draw(st.lists(key, max_size=4, unique=True))
    return [build(one, {name: draw(field) for name, field in fields.items()}) for one in chosen]


def one_commit() -> st.SearchStrategy[dict[str, list[Any]]]:
    """Draws the lists of a commit; what is refused and why is part of the property."""
    pairs = st.tuples(tenants, names)
    return st.fixed_dictionaries(
        {},
        optional={
            "instance_inserts": rows_of(
                keys,
                lambda k, f: instance(tenant=k[0], id=k[1], **f),
                phase=PHASES,
                order_key=TIMES,
                queued_at=TIMES,
                request_id=MAYBE,
                request_hash=st.just(b"h" * 16),
                idempotency_key=MAYBE,
                run_id=RUN_IDS,
                params_json=TEXTS,
                created_at=TIMES,
            ),
            "instance_updates": rows_of(
                keys,
                lambda k, f: instance_update(k[1], tenant=k[0], **f),
                phase=PHASES,
                order_key=TIMES,
                queued_at=TIMES,
                output_json=TEXTS,
                ended_at=st.one_of(st.none(), TIMES),
            ),
            "instance_deletes": rows_of(keys, lambda k, f: k),
            "attempt_inserts": rows_of(
                st.tuples(tenants, ids, st.integers(1, 3)),
                lambda k, f: attempt(k[1], k[2], tenant=k[0], **f),
                error_message=TEXTS,
            ),
            "run_inserts": rows_of(
                keys,
                lambda k, f: run(tenant=k[0], id=k[1], **f),
                request_id=MAYBE,
                request_hash=st.just(b"h" * 16),
                idempotency_key=MAYBE,
                ended_at=st.sampled_from([None, NOW]),
                inputs_json=TEXTS,
                created_at=TIMES,
            ),
            "run_updates": rows_of(
                keys,
                lambda k, f: run_update(k[1], tenant=k[0], **f),
                ended_at=st.sampled_from([None, NOW]),
                output_json=TEXTS,
            ),
            "checkpoint_upserts": rows_of(
                keys, lambda k, f: checkpoint(k[1], f["number"], f["data"], k[0]), number=st.integers(1, 9), data=TEXTS
            ),
            "worker_upserts": rows_of(names, lambda k, f: worker(k, **f), tenant=tenants, epoch=st.integers(1, 9)),
            "worker_deletes": rows_of(names, lambda k, f: k),
            "request_inserts": rows_of(
                pairs, lambda k, f: request(k[1], tenant=k[0], **f), response=st.binary(max_size=3)
            ),
            "task_definition_upserts": rows_of(
                pairs,
                lambda k, f: task_definition(k[1], tenant=k[0], **f),
                definition=st.binary(max_size=3),
                number=st.integers(1, 9),
            ),
            "task_definition_deletes": rows_of(pairs, lambda k, f: k),
            "workflow_inserts": rows_of(
                st.tuples(tenants, names, st.integers(1, 3)), lambda k, f: workflow(k[1], k[2], tenant=k[0])
            ),
            "workflow_head_upserts": rows_of(
                pairs,
                lambda k, f: workflow_head(k[1], tenant=k[0], **f),
                source=st.sampled_from(["", "x"]),
                deleted_version=st.integers(0, 3),
            ),
        },
    )


async def outcome(store: Store, changes: Changes) -> list[tuple[str, tuple[str, ...]]]:
    """Commits, and returns what was refused."""
    try:
        await store.commit(1, changes)
    except RowsRefused as refused:
        return [(row.kind, row.key) for row in refused.rows]
    return []


async def everything(store: Store) -> dict[str, Any]:
    """Asks every question."""
    answers: dict[str, Any] = {
        "runs": await store.load_runs(("", ""), 99),
        "pending": await store.load_instances(Phase.PENDING, ("", ""), 99),
        "in flight": await store.load_instances(Phase.IN_FLIGHT, ("default", IDS[2]), 2),
        "ready": await store.count_ready(),
        "workers": await store.load_workers(),
        "definitions": await store.load_task_definitions(),
        "workflows": await store.load_workflows(),
        "heads": await store.load_workflow_heads(),
        "request ids": sorted(await store.load_request_ids(NOW, 99) or []),
    }
    for tenant in TENANTS:
        answers[tenant] = [
            await store.load_ready(tenant, "greet", (NOW, IDS[1]), 9),
            [await store.find_requests(kind, tenant, ["k1", "k2", "k3", ""]) for kind in ("instance", "run")],
            [await store.find_keys(kind, tenant, ["k1", "k2", "k3", ""]) for kind in ("instance", "run")],
            [await store.get_request(tenant, name) for name in NAMES],
            sorted(await store.get_instances(tenant, IDS), key=repr),
            [await store.get_attempts(tenant, id) for id in IDS],
            [await store.get_run(tenant, id) for id in IDS],
            sorted(await store.run_instances(tenant, "r1"), key=repr),
            await store.list_instances(tenant, [], None, 99, newest_first=True),
            await store.list_instances(
                tenant,
                [Condition("created_at", ">=", NOW), Condition("ended_at", "!=", NOW)],
                IDS[0],
                3,
                newest_first=False,
            ),
            await store.list_runs(tenant, [Condition("state", "in", (1, 2))], IDS[4], 99, newest_first=True),
            [await store.get_workflow(tenant, name, version) for name in NAMES for version in range(4)],
            await store.list_workflows(tenant, [Condition("version", ">", 1)], "", 99),
            await store.list_workflows(tenant, [Condition("source", "==", "")], "", 99),
            await store.list_workflows(tenant, [Condition("source", "!=", "")], "", 1),
            await store.list_task_definitions(tenant, [Condition("name", "!=", "a")], "B", 99),
        ]
    return answers


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        await store.begin_term("test", NOW)
        yield store
    finally:
        await store.close()


@given(commits=st.lists(one_commit(), min_size=1, max_size=6))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
async def test_sqlite_and_memory_answer_alike(commits: list[dict[str, list[Any]]], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'property.db'}"
    empty_database(url)
    async with opened(MemoryStore(MemoryDatabase())) as model, opened(open_store(url)) as store:
        revision = 1
        for lists in commits:
            expected = await outcome(model, Changes(revision=revision, **lists))
            assert await outcome(store, Changes(revision=revision, **lists)) == expected
            revision += not expected
            assert await everything(store) == await everything(model)
