"""Every store: a commit writes all of its lists or nothing, once, and in the order of the calls."""

from __future__ import annotations

import asyncio

import pytest
from store_rows import (
    NOW,
    attempt,
    changes,
    checkpoint,
    column,
    instance,
    instance_update,
    new_id,
    request,
    run,
    task_definition,
    worker,
    workflow,
    workflow_head,
)

from taskyard_core.records import TaskState
from taskyard_scheduler.store.port import Found, RowsRefused, Store, StoreError


async def test_every_list_comes_back_as_it_was_written(store: Store) -> None:
    standing, step, flow = instance(params_json="{}", request_hash=b"\x00\xff" * 8), new_id(), new_id()
    of_run = instance(id=step, run_id=flow, step_id="a", workflow="flow")
    the_run, the_worker, definition = run(id=flow), worker("w"), task_definition("greet")
    await store.commit(
        1,
        changes(
            1,
            instance_inserts=[standing, of_run],
            attempt_inserts=[attempt(step, 2), attempt(step, 1)],
            run_inserts=[the_run],
            checkpoint_upserts=[checkpoint(step, 3, "half-way")],
            worker_upserts=[the_worker],
            request_inserts=[request("r")],
            task_definition_upserts=[definition],
            workflow_inserts=[workflow("flow", 1)],
            workflow_head_upserts=[workflow_head("flow", source="team")],
        ),
    )
    got = await store.get_instances("default", [column(standing, "id"), step, new_id()])
    assert sorted(got) == sorted([(*standing, None, 0), (*of_run, "half-way", 3)])
    assert await store.get_attempts("default", step) == [attempt(step, 1), attempt(step, 2)]
    assert await store.get_run("default", flow) == the_run
    assert await store.run_instances("default", flow) == [(*of_run, "half-way", 3)]
    assert await store.load_workers() == [the_worker]
    assert await store.get_request("default", "r") == request("r")
    assert await store.load_task_definitions() == [definition]
    assert await store.get_workflow("default", "flow", 1) == workflow("flow", 1)
    assert await store.load_workflow_heads() == [workflow_head("flow", source="team")]


async def test_an_update_keeps_what_does_not_change(store: Store) -> None:
    first, second = instance(params_json='{"x": 1}'), instance()
    id = column(first, "id")
    await store.commit(1, changes(1, instance_inserts=[first, second]))
    update = instance_update(id, output_json='{"y": 2}', duration_ms=7, revision=2)
    await store.commit(1, changes(2, instance_updates=[update]))
    [row] = await store.get_instances("default", [id])
    assert (column(row, "params_json"), column(row, "output_json")) == ('{"x": 1}', '{"y": 2}')
    assert (column(row, "state"), column(row, "duration_ms")) == (TaskState.SUCCESS, 7)
    assert await store.get_instances("default", [column(second, "id")]) == [(*second, None, 0)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1030, 2500])
async def test_any_number_of_rows_in_one_commit(store: Store, count: int) -> None:
    rows = [instance(request_id=f"r{n}", request_hash=b"%16d" % n) for n in range(count)]
    await store.commit(1, changes(1, instance_inserts=rows))
    updates = [instance_update(column(row, "id"), duration_ms=n) for n, row in enumerate(rows)]
    await store.commit(1, changes(2, instance_updates=updates))
    got = await store.list_instances("default", [], None, count + 1, newest_first=False)
    assert [column(row, "duration_ms") for row in got] == list(range(count))
    assert [column(row, "request_id") for row in got] == [f"r{n}" for n in range(count)]
    deletes = [("default", column(row, "id")) for row in rows]
    await store.commit(1, changes(3, instance_deletes=deletes))
    assert await store.list_instances("default", [], None, 1, newest_first=False) == []


async def test_upserts_replace_and_deletes_remove(store: Store) -> None:
    id = new_id()
    await store.commit(
        1,
        changes(
            1,
            instance_inserts=[instance(id=id)],
            attempt_inserts=[attempt(id, 1)],
            checkpoint_upserts=[checkpoint(id, 1, "a")],
            worker_upserts=[worker("w"), worker("v")],
            task_definition_upserts=[task_definition("a"), task_definition("b")],
        ),
    )
    later = worker("w", epoch=2, registration_json='{"host": "h"}')
    await store.commit(
        1,
        changes(
            2,
            checkpoint_upserts=[checkpoint(id, 2, "b")],
            worker_upserts=[later],
            worker_deletes=["v"],
            task_definition_upserts=[task_definition("a", definition=b"new", updated_at=NOW + 1)],
            task_definition_deletes=[("default", "b")],
        ),
    )
    assert await store.load_workers() == [later]
    assert (await store.get_instances("default", [id]))[0][-2:] == ("b", 2)
    assert await store.load_task_definitions() == [task_definition("a", definition=b"new", updated_at=NOW + 1)]
    await store.commit(1, changes(3, instance_deletes=[("default", id), ("default", new_id())]))
    assert await store.get_instances("default", [id]) == []
    assert await store.get_attempts("default", id) == []
    await store.commit(1, changes(4, instance_inserts=[instance(id=id)]))  # the checkpoint went with the first
    assert (await store.get_instances("default", [id]))[0][-2:] == (None, 0)


async def test_deletes_come_before_inserts(store: Store) -> None:
    row = instance(request_id="r")
    await store.commit(1, changes(1, instance_inserts=[row], worker_upserts=[worker("w")]))
    again = instance(request_id="r")
    await store.commit(
        1,
        changes(
            2,
            instance_deletes=[("default", column(row, "id"))],
            instance_inserts=[again],
            worker_deletes=["w"],
            worker_upserts=[worker("w", epoch=5)],
        ),
    )
    assert await store.find_requests("instance", "default", ["r"]) == {"r": Found(column(again, "id"), None)}
    assert await store.load_workers() == [worker("w", epoch=5)]


async def test_a_repeated_commit_writes_nothing_twice(store: Store) -> None:
    commit = changes(1, instance_inserts=[instance()], worker_upserts=[worker("w")])
    await store.commit(1, commit)
    await store.commit(1, commit)
    assert len(await store.list_instances("default", [], None, 9, newest_first=False)) == 1
    await store.commit(1, changes(2, worker_deletes=["w"]))
    assert await store.load_workers() == []


async def test_a_commit_that_others_followed_is_still_a_repetition(store: Store) -> None:
    first, second = changes(1, instance_inserts=[instance()]), changes(2, instance_inserts=[instance()])
    for commit in (first, second, first, second):
        await store.commit(1, commit)
    assert len(await store.list_instances("default", [], None, 9, newest_first=False)) == 2


async def test_commits_follow_each_other_in_the_order_of_the_calls(store: Store) -> None:
    rows = [instance() for _ in range(20)]
    asked = [
        asyncio.ensure_future(store.commit(1, changes(revision, instance_inserts=[row])))
        for revision, row in enumerate(rows, 1)
    ]
    await asyncio.gather(*asked)
    assert len(await store.list_instances("default", [], None, 99, newest_first=False)) == 20


async def test_what_follows_a_refused_commit_is_not_written_either(store: Store) -> None:
    await store.commit(1, changes(1, instance_inserts=[instance(request_id="r")]))
    bad = asyncio.ensure_future(store.commit(1, changes(2, instance_inserts=[instance(request_id="r")])))
    behind = changes(3, instance_inserts=[instance()])
    following = asyncio.ensure_future(store.commit(1, behind))
    with pytest.raises(RowsRefused):
        await bad
    with pytest.raises(StoreError, match="commit 3 does not follow 1"):
        await following
    await store.commit(1, changes(2))
    await store.commit(1, behind)
    assert len(await store.list_instances("default", [], None, 9, newest_first=False)) == 2


async def test_a_commit_out_of_order_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="commit 2 does not follow 0"):
        await store.commit(1, changes(2, instance_inserts=[instance()]))
    assert await store.list_instances("default", [], None, 9, newest_first=False) == []
    await store.commit(1, changes(1))
