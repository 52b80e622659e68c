"""Every store: rows that break a rule are refused by name, with the rule, and nothing of their commit is written."""

from __future__ import annotations

from typing import Any

import pytest
from store_rows import (
    NOW,
    attempt,
    changes,
    column,
    instance,
    instance_update,
    new_id,
    request,
    run,
    run_update,
    worker,
    workflow,
)

from taskyard_core.records import Row
from taskyard_scheduler.store.port import RowsRefused, Store


async def test_refused_rows_are_named_and_nothing_is_written(store: Store) -> None:
    await store.commit(1, changes(1, instance_inserts=[instance(request_id="r", idempotency_key="k")]))
    good = [instance() for _ in range(300)]
    by_request, by_key = instance(request_id="r"), instance(idempotency_key="k")
    missing, twin = new_id(), instance(request_id="new")
    rows = [*good[:100], by_request, *good[100:250], twin, by_key, *good[250:], instance(request_id="new")]
    commit = changes(
        2, instance_inserts=rows, worker_upserts=[worker("w")], instance_updates=[instance_update(missing)]
    )
    with pytest.raises(RowsRefused) as caught:
        await store.commit(1, commit)
    refused = {(row.kind, row.key): row.reason for row in caught.value.rows}
    assert refused == {
        ("instance_inserts", ("default", column(by_request, "id"))): "request_id is taken",
        ("instance_inserts", ("default", column(by_key, "id"))): "idempotency_key is taken",
        ("instance_inserts", ("default", column(rows[-1], "id"))): "request_id is taken",
        ("instance_updates", ("default", missing)): "there is no such row",
    }
    assert len(await store.list_instances("default", [], None, 999, newest_first=False)) == 1
    assert await store.load_workers() == []
    await store.commit(1, changes(2, instance_inserts=good))
    assert len(await store.list_instances("default", [], None, 999, newest_first=False)) == 301


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        ("instance_inserts", instance(id="seen"), "id is taken"),
        ("run_inserts", run(id="seen"), "id is taken"),
        ("run_inserts", run(request_id="seen"), "request_id is taken"),
        ("run_inserts", run(idempotency_key="seen"), "idempotency_key is taken"),
        ("run_updates", run_update("unseen"), "there is no such row"),
        ("request_inserts", request("seen"), "request_id is taken"),
        ("workflow_inserts", workflow("seen", 1), "version is taken"),
        ("attempt_inserts", attempt("seen", 1), "attempt is taken"),
    ],
)
async def test_each_rule_has_its_words(store: Store, kind: str, row: Row, reason: str) -> None:
    await store.commit(
        1,
        changes(
            1,
            instance_inserts=[instance(id="seen")],
            run_inserts=[run(id="seen"), run(request_id="seen", idempotency_key="seen")],
            request_inserts=[request("seen")],
            workflow_inserts=[workflow("seen", 1)],
            attempt_inserts=[attempt("seen", 1)],
        ),
    )
    with pytest.raises(RowsRefused) as caught:
        await store.commit(1, changes(2, **{kind: [row]}))
    assert [(refused.kind, refused.reason) for refused in caught.value.rows] == [(kind, reason)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"params_json": "a\ud800b"},
        {"error_message": "\udcff"},
        {"task_name": None},
        {"created_at": 1 << 63},
        {"order_key": -(1 << 63) - 1},
    ],
    ids=str,
)
async def test_values_that_no_database_takes_are_refused(store: Store, wrong: dict[str, Any]) -> None:
    row, good = instance(**({"created_at": NOW} | wrong), id=new_id()), instance()
    with pytest.raises(RowsRefused) as caught:
        await store.commit(1, changes(1, instance_inserts=[good, row, instance()]))
    assert [refused.key for refused in caught.value.rows] == [("default", column(row, "id"))]
    await store.commit(1, changes(1, instance_inserts=[good]))
    if set(wrong) <= {"error_message", "order_key"}:
        update = instance_update(column(good, "id"), **wrong)
        with pytest.raises(RowsRefused) as caught:
            await store.commit(1, changes(2, instance_updates=[update]))
        assert [refused.kind for refused in caught.value.rows] == ["instance_updates"]
