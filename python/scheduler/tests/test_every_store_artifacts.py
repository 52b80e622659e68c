"""Every store: artifacts, what refers to them, and that only what nothing refers to is deleted."""

from __future__ import annotations

import pytest
from store_rows import (
    NOW,
    changes,
    checkpoint,
    column,
    instance,
    instance_update,
    new_id,
    run,
    run_update,
    task_definition,
    workflow,
)

from taskyard_core.records import ARTIFACT_COLUMNS, Row
from taskyard_scheduler.store.port import Condition, Store

SHA = "a" * 64


def artifact(id: str = "", *, tenant: str = "default", size: int = 3, name: str = "f", at: int = NOW) -> Row:
    return (tenant, id or new_id(at), name, "text/csv", size, SHA, "", at)


async def stored(store: Store, *rows: Row) -> list[str]:
    await store.commit(1, changes(1, artifact_inserts=list(rows)))
    return [row[1] for row in rows]


async def holders(store: Store, id: str, tenant: str = "default") -> list[tuple[str, str]]:
    return await store.artifact_holders(tenant, id, 100)


async def test_an_artifact_comes_back_as_it_was_written(store: Store) -> None:
    row = ("default", new_id(), "Bericht 汉字.csv", "text/csv; charset=utf-8", 5 << 40, SHA, new_id(), NOW)
    await stored(store, row)
    assert await store.get_artifact("default", row[1]) == row
    assert await store.get_artifact("other", row[1]) is None
    assert len(row) == len(ARTIFACT_COLUMNS)


async def test_artifacts_are_listed_in_both_orders_by_pages_and_conditions(store: Store) -> None:
    rows = [artifact(size=n, name=f"n{n}") for n in range(5)]
    *ids, _ = await stored(store, *rows, artifact(tenant="other"))
    newest = await store.list_artifacts("default", [], None, 3, newest_first=True)
    assert [row[1] for row in newest] == ids[:1:-1]
    rest = await store.list_artifacts("default", [], newest[-1][1], 3, newest_first=True)
    assert [row[1] for row in rest] == ids[1::-1]
    large = await store.list_artifacts("default", [Condition("size", ">=", 3)], None, 9, newest_first=False)
    assert [row[2] for row in large] == ["n3", "n4"]


@pytest.mark.parametrize("field", ["params_json", "input_json", "output_json"])
async def test_a_new_instance_refers_to_what_its_texts_name(store: Store, field: str) -> None:
    one, two, three = await stored(store, artifact(), artifact(), artifact())
    text = f'{{"a": "artifact://{one}", "b": ["artifact://{two}#/x/0", "artifact:\\/\\/{three}"]}}'
    await store.commit(1, changes(2, instance_inserts=[row := instance(**{field: text}), instance()]))
    expected = [("task", column(row, "id"))]
    assert [await holders(store, id) for id in (one, two, three)] == [expected] * 3


async def test_a_result_refers_to_what_it_names_and_twice_is_once(store: Store) -> None:
    [id] = await stored(store, artifact())
    row = instance(input_json=f'{{"x": "artifact://{id}"}}')
    await store.commit(1, changes(2, instance_inserts=[row]))
    update = instance_update(column(row, "id"), output_json=f'"artifact://{id}#"', revision=3)
    await store.commit(1, changes(3, instance_updates=[update]))
    assert await holders(store, id) == [("task", column(row, "id"))]


async def test_a_deleted_or_rewritten_instance_lets_go(store: Store) -> None:
    one, two, kept = await stored(store, artifact(), artifact(), artifact())
    gone = instance(input_json=f'"artifact://{one}"')
    anew = instance(input_json=f'"artifact://{two}"')
    await store.commit(
        1,
        changes(2, instance_inserts=[gone, anew], checkpoint_upserts=[checkpoint(gone[1], 1, f"artifact://{one}")]),
    )
    assert await holders(store, one) == [("checkpoint", gone[1]), ("task", gone[1])]
    rewritten = instance(id=anew[1], input_json=f'"artifact://{kept}"')
    deletes = [("default", gone[1])]
    await store.commit(1, changes(3, instance_deletes=deletes, instance_rewrites=[rewritten]))
    assert [await holders(store, id) for id in (one, two, kept)] == [[], [], [("task", anew[1])]]


async def test_a_checkpoint_refers_to_what_the_last_one_names(store: Store) -> None:
    one, two = await stored(store, artifact(), artifact())
    id = new_id()
    await store.commit(1, changes(2, checkpoint_upserts=[checkpoint(id, 1, f"artifact://{one}")]))
    await store.commit(1, changes(3, checkpoint_upserts=[checkpoint(id, 2, f"artifact://{two}")]))
    assert [await holders(store, one), await holders(store, two)] == [[], [("checkpoint", id)]]


async def test_runs_definitions_workflows_and_variables_refer_too(store: Store) -> None:
    ids = await stored(store, *(artifact() for _ in range(6)))
    uris = [f"artifact://{id}" for id in ids]
    flow = run(inputs_json=f'{{"a": "{uris[0]}"}}', variables_json=f'{{"b": "{uris[1]}"}}')
    lists = {
        "run_inserts": [flow],
        "task_definition_upserts": [task_definition("t", definition=f"x{uris[2]}y".encode())],
        "variable_upserts": [("default", "v", uris[3].encode(), NOW)],
        "workflow_inserts": [workflow("w", 3, definition=b"\xff" + uris[4].encode())],
    }
    await store.commit(1, changes(2, **lists))
    await store.commit(1, changes(3, run_updates=[run_update(flow[1], output_json=f'"{uris[5]}#"', revision=3)]))
    assert [await holders(store, id) for id in ids] == [
        [("run", flow[1])], [("run", flow[1])], [("task definition", "t")], [("variable", "v")], [("workflow", "w 3")],
        [("run", flow[1])],
    ]  # fmt: skip
    replaced = [task_definition("t", definition=b"none", updated_at=NOW + 1)]
    gone = [("default", "v")]
    await store.commit(1, changes(4, task_definition_upserts=replaced, variable_deletes=gone))
    assert [await holders(store, id) for id in ids[2:4]] == [[], []]


async def test_only_what_nothing_refers_to_is_deleted(store: Store) -> None:
    used, unused, other = await stored(store, artifact(), artifact(), artifact(tenant="other"))
    late = new_id()
    row = instance(input_json=f'["artifact://{used}"]')
    await store.commit(1, changes(2, instance_inserts=[row], artifact_inserts=[artifact(late)]))
    # One that comes into use in the very commit that would delete it stays.
    using = instance(input_json=f'["artifact://{late}"]')
    deletes = [("default", id) for id in (used, unused, late, new_id())]
    await store.commit(1, changes(3, artifact_deletes=deletes, instance_inserts=[using]))
    assert await store.known_artifacts("default", [used, unused, late]) == {used, late}
    assert await store.known_artifacts("other", [other]) == {other}
    await store.commit(1, changes(4, instance_deletes=[("default", row[1])], artifact_deletes=[("default", used)]))
    assert await store.known_artifacts("default", [used, late]) == {late}


async def test_an_artifact_refers_to_others_until_it_is_gone(store: Store) -> None:
    outer, inner = new_id(), new_id()
    reference = ("default", inner, "artifact", outer, 0)
    await store.commit(
        1, changes(1, artifact_inserts=[artifact(outer), artifact(inner)], reference_upserts=[reference])
    )
    row = instance(output_json=f'"artifact://{outer}#"')
    await store.commit(1, changes(2, instance_inserts=[row]))
    both = [("default", outer), ("default", inner)]
    await store.commit(1, changes(3, artifact_deletes=both))
    assert await holders(store, inner) == [("artifact", outer)], "what is kept keeps what it names"
    await store.commit(1, changes(4, instance_deletes=[("default", row[1])]))
    await store.commit(1, changes(5, artifact_deletes=both))
    assert await holders(store, inner) == []
    assert await store.known_artifacts("default", [outer, inner]) == {inner}
    await store.commit(1, changes(6, artifact_deletes=both))
    assert await store.load_artifacts(("", ""), 9) == []


async def test_artifacts_of_all_tenants_are_loaded_by_pages(store: Store) -> None:
    first, second = await stored(store, artifact(tenant="a", at=NOW), artifact(tenant="b", at=NOW - 5))
    await store.commit(
        1, changes(2, instance_inserts=[instance(tenant="b", params_json=f'{{"x":"artifact://{second}"}}')])
    )
    [page] = await store.load_artifacts(("", ""), 1)
    assert page == ("a", first, NOW, False)
    assert await store.load_artifacts(page[:2], 9) == [("b", second, NOW - 5, True)]


async def test_a_commit_that_is_repeated_refers_once(store: Store) -> None:
    [id] = await stored(store, artifact())
    made = changes(2, instance_inserts=[row := instance(input_json=f'"artifact://{id}"')])
    await store.commit(1, made)
    await store.commit(1, made)
    assert await holders(store, id) == [("task", row[1])]
    assert made.reference_upserts == [], "what a batch holds is not changed by the store"


async def test_a_refused_row_leaves_no_reference(store: Store) -> None:
    [id] = await stored(store, artifact())
    row = instance(input_json=f'"artifact://{id}"', revision=None)
    with pytest.raises(Exception, match="refused"):
        await store.commit(1, changes(2, instance_inserts=[row]))
    assert await holders(store, id) == []


async def test_many_references_in_one_commit(store: Store) -> None:
    ids = await stored(store, *(artifact() for _ in range(900)))
    row = instance(input_json="[" + ",".join(f'"artifact://{id}"' for id in ids) + "]")
    await store.commit(1, changes(2, instance_inserts=[row]))
    assert all([await holders(store, id) == [("task", row[1])] for id in ids[::100]])
    await store.commit(
        1, changes(3, instance_deletes=[("default", row[1])], artifact_deletes=[("default", i) for i in ids])
    )
    assert await store.load_artifacts(("", ""), 1) == []
