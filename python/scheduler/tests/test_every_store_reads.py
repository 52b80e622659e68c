"""Every store: what callers ask for by id, by key and by filter, page by page, also while commits go on."""

from __future__ import annotations

import asyncio

import pytest
from store_rows import NOW, changes, column, instance, new_id, run, task_definition, workflow, workflow_head

from taskyard_core.records import Row
from taskyard_scheduler.store.port import Condition, Found, Groups, Store, StoreError


async def test_what_does_not_exist_is_none_or_empty(store: Store) -> None:
    assert await store.get_run("default", new_id()) is None
    assert await store.get_request("default", "r") is None
    assert await store.get_workflow("default", "flow", 0) is None
    assert await store.get_instances("default", []) == []
    assert await store.get_attempts("default", new_id()) == []
    assert await store.find_requests("instance", "default", []) == {}


async def test_reads_go_on_during_commits(store: Store) -> None:
    batches = [[instance() for _ in range(50)] for _ in range(12)]
    sizes: list[int] = []

    async def write() -> None:
        for revision, batch in enumerate(batches, 1):
            await store.commit(1, changes(revision, instance_inserts=batch))
            seen = await store.list_instances("default", [], None, 10_000, newest_first=False)
            assert len(seen) >= 50 * revision  # an answered commit is seen

    async def read() -> None:
        while not writing.done():
            sizes.append(len(await store.list_instances("default", [], None, 10_000, newest_first=False)))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(write(), name="write")
        group.create_task(read(), name="read")
    assert all(size % 50 == 0 for size in sizes)  # never half of a commit
    assert sizes == sorted(sizes)


async def test_requests_and_keys_are_found_in_their_tenant(store: Store) -> None:
    made = instance(request_id="r", request_hash=b"h" * 16, idempotency_key="k")
    begun = run(request_id="r", request_hash=b"g" * 16, idempotency_key="k")
    await store.commit(
        1, changes(1, instance_inserts=[made, instance(tenant="t", request_id="s")], run_inserts=[begun])
    )
    id, run_id = column(made, "id"), begun[1]
    assert await store.find_requests("instance", "default", ["r", "s", "R"]) == {"r": Found(id, b"h" * 16)}
    assert await store.find_requests("run", "default", ["r"]) == {"r": Found(run_id, b"g" * 16)}
    assert await store.find_keys("instance", "default", ["k", "r"]) == {"k": Found(id, None)}
    assert await store.find_keys("run", "default", ["k"]) == {"k": Found(run_id, None)}
    assert await store.find_requests("instance", "t", ["r"]) == {}


async def test_many_requests_at_once(store: Store) -> None:
    rows = [instance(request_id=f"r{n}") for n in range(1200)]
    await store.commit(1, changes(1, instance_inserts=rows))
    found = await store.find_requests("instance", "default", [f"r{n}" for n in range(0, 2400, 2)])
    assert {name: hit.id for name, hit in found.items()} == {f"r{n}": column(rows[n], "id") for n in range(0, 1200, 2)}
    assert len(await store.get_instances("default", [column(row, "id") for row in rows])) == 1200


@pytest.mark.parametrize("newest_first", [False, True])
async def test_lists_are_paged_by_id(store: Store, newest_first: bool) -> None:
    rows = [instance() for _ in range(8)]
    runs = [run() for _ in range(8)]
    await store.commit(
        1, changes(1, instance_inserts=[*rows, instance(tenant="t")], run_inserts=[*runs, run(tenant="t")])
    )
    for listed, expected in ((store.list_instances, rows), (store.list_runs, runs)):
        got: list[Row] = []
        after = None
        while page := await listed("default", [], after, 3, newest_first=newest_first):
            got += page
            after = page[-1][1]
        assert got == sorted(expected, reverse=newest_first)


@pytest.mark.parametrize(
    "after", ["\0", "a\0b", "\x7f", "a" * 3_000, "😀" * 700, "\uffff", "\U0010ffff", "%_'\"\\;--", " ", "\ud7ff\ue000"]
)
async def test_a_list_goes_on_after_any_text(store: Store, after: str) -> None:
    """Keys of pages come from outside; nobody but the client says that they were ours once."""
    rows, runs = [instance(id=id) for id in ("!", "m")], [run(id=id) for id in ("!", "m")]
    made = changes(
        1, instance_inserts=rows, run_inserts=runs, workflow_inserts=[workflow("m", 1)],
        task_definition_upserts=[task_definition("m")],
    )  # fmt: skip
    await store.commit(1, made)
    for newest_first in (True, False):
        found = await store.list_instances("default", [], after, 9, newest_first=newest_first)
        assert {column(row, "id") for row in found} <= {"!", "m"}
        assert len(await store.list_runs("default", [], after, 9, newest_first=newest_first)) == len(found)
    found = await store.list_workflows("default", [], after, 9)
    assert len(await store.list_task_definitions("default", [], after, 9)) == len(found)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([Condition("state", "==", 2)], [1]),
        ([Condition("state", "!=", 2)], [0, 2, 3]),
        ([Condition("state", "in", (2, 3))], [1, 2]),
        ([Condition("state", "in", ())], []),
        ([Condition("task_name", "==", "A")], [1]),
        ([Condition("task_name", ">=", "a")], [0, 2, 3]),
        ([Condition("created_at", ">", NOW + 1)], [2, 3]),
        ([Condition("created_at", ">=", NOW + 1)], [1, 2, 3]),
        ([Condition("created_at", "==", NOW + 1)], [1]),
        ([Condition("created_at", "<=", NOW + 1)], [0, 1]),
        ([Condition("created_at", "<", NOW + 1), Condition("state", "==", 6)], [0]),
        ([Condition("run_id", "==", "r1")], [2, 3]),
        ([Condition("run_id", "==", "r1"), Condition("step_id", "==", "s")], [3]),
        ([Condition("run_id", "==", "")], [0, 1]),
        ([Condition("run_id", "!=", "")], [2, 3]),
        ([Condition("ended_at", ">", 0)], [1]),
        ([Condition("ended_at", "!=", 0)], [1]),
        ([Condition("id", "==", "nothing")], []),
        ([Condition("error_message", "==", "' OR 1=1 --")], []),
    ],
    ids=str,
)
async def test_lists_are_filtered(store: Store, where: list[Condition], expected: list[int]) -> None:
    rows = [
        instance(task_name="a", created_at=NOW, state=6),
        instance(task_name="A", created_at=NOW + 1, state=2, ended_at=NOW),
        instance(task_name="b", created_at=NOW + 2, state=3, run_id="r1"),
        instance(task_name="z🧪", created_at=NOW + 3, state=4, run_id="r1", step_id="s"),
    ]
    await store.commit(1, changes(1, instance_inserts=rows))
    got = await store.list_instances("default", where, None, 99, newest_first=False)
    assert [rows.index(row) for row in got] == expected


async def test_a_filter_by_an_unknown_column_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="instances has no column 'colour'"):
        await store.list_instances("default", [Condition("colour", "==", 1)], None, 9, newest_first=True)


async def test_records_are_counted_by_a_column(store: Store) -> None:
    rows = [instance(state=3, error_kind=kind) for kind in ["b", "a", "b", "A", "z🧪", ""]]
    others = [instance(state=2), instance(tenant="t", error_kind="b", state=3)]
    runs = [run(version=version) for version in (7, 10, 10)]
    await store.commit(1, changes(1, instance_inserts=rows + others, run_inserts=[*runs, run(tenant="t")]))
    failed = [Condition("state", "==", 3)]
    assert await store.count_records("instance", "default", failed) == 6
    every = [("b", 2), ("", 1), ("A", 1), ("a", 1), ("z🧪", 1)]
    assert await store.count_groups("instance", "default", failed, "error_kind", 9) == Groups(6, every)
    assert await store.count_groups("instance", "default", failed, "error_kind", 2) == Groups(6, every[:2])
    assert await store.count_groups("instance", "default", [], "state", 9) == Groups(7, [(3, 6), (2, 1)])
    assert await store.count_groups("run", "default", [], "version", 9) == Groups(3, [(10, 2), (7, 1)])
    assert await store.count_groups("run", "nobody", [], "version", 9) == Groups(0, [])


async def test_records_are_not_counted_by_what_is_no_column(store: Store) -> None:
    for kind in ("instance", "run"):
        with pytest.raises(StoreError, match="has no column 'colour'"):
            await store.count_groups(kind, "default", [], "colour", 9)


async def test_workflows_show_their_newest_version(store: Store) -> None:
    rows = [
        workflow("b", 1),
        workflow("a", 1),
        workflow("a", 2),
        workflow("a", 10),
        workflow("c", 3, tenant="t"),
    ]
    await store.commit(1, changes(1, workflow_inserts=rows))
    assert await store.load_workflows() == [rows[3], rows[0], rows[4]]
    assert await store.list_workflows("default", [], "", 9) == [rows[3], rows[0]]
    assert await store.list_workflows("default", [], "a", 9) == [rows[0]]
    assert await store.list_workflows("default", [Condition("version", "==", 1)], "", 9) == [rows[0]]
    assert await store.get_workflow("default", "a", 0) == rows[3]
    assert await store.get_workflow("default", "a", 2) == rows[2]
    assert await store.get_workflow("default", "a", 3) is None


async def test_deleted_workflows_are_kept_and_not_listed(store: Store) -> None:
    rows = [workflow("a", 1), workflow("a", 2), workflow("b", 1), workflow("c", 1), workflow("a", 1, tenant="t")]
    deleted = workflow_head("a", deleted_version=2, source="team")
    other = workflow_head("b", source="team")
    await store.commit(1, changes(1, workflow_inserts=rows, workflow_head_upserts=[deleted, other]))
    assert await store.load_workflow_heads() == [deleted, other]
    assert await store.load_workflows() == [rows[1], rows[2], rows[3], rows[4]]
    assert await store.get_workflow("default", "a", 0) == rows[1]
    assert await store.list_workflows("default", [], "", 9) == [rows[2], rows[3]]
    assert await store.list_workflows("t", [], "", 9) == [rows[4]]
    in_team, in_none = Condition("source", "==", "team"), Condition("source", "==", "")
    assert await store.list_workflows("default", [in_team], "", 9) == [rows[2]]
    assert await store.list_workflows("default", [in_none], "", 9) == [rows[3]]
    assert await store.list_workflows("default", [Condition("source", "in", ("team", "x"))], "b", 9) == []
    again = workflow("a", 3)
    await store.commit(1, changes(2, workflow_inserts=[again]))
    assert await store.list_workflows("default", [in_team, Condition("version", ">", 2)], "", 9) == [again]
    moved = workflow_head("a", deleted_version=2, source="other")
    await store.commit(1, changes(3, workflow_head_upserts=[moved]))
    assert await store.list_workflows("default", [in_team], "", 9) == [rows[2]]


async def test_task_definitions_are_listed_by_name(store: Store) -> None:
    rows = [task_definition(name, number=n) for n, name in enumerate(["c", "a", "b"])]
    await store.commit(1, changes(1, task_definition_upserts=[*rows, task_definition("a", tenant="t")]))
    assert await store.list_task_definitions("default", [], "", 2) == [rows[1], rows[2]]
    assert await store.list_task_definitions("default", [], "b", 2) == [rows[0]]
    assert await store.list_task_definitions("default", [Condition("number", ">", 0)], "", 9) == [
        rows[1],
        rows[2],
    ]
