"""What the store port promises, asked of every implementation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from servers import MariaDB
from store_databases import empty_database
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
    run_update,
    task_definition,
    worker,
    workflow,
)

from taskyard_core.records import Phase, Row, TaskState
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import (
    Condition,
    Deposed,
    ElectionConflict,
    Found,
    RowsRefused,
    Store,
    StoreError,
)

START = ("", "")


@pytest.fixture(scope="module")
def shared_mariadb(mariadb: MariaDB) -> str:
    """One database for all tests of this module: to make one takes longer than a test."""
    return mariadb.create_database()


@pytest.fixture(params=["sqlite", "memory", "mysql"])
async def connect(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Gives a function that opens one more store on the same, at first empty, database."""
    opened: list[Store] = []
    database = MemoryDatabase()
    url = f"sqlite:///{tmp_path / 'taskyard.db'}"
    if request.param == "mysql":
        url = request.getfixturevalue("shared_mariadb")
        empty_database(url)

    async def open_one() -> Store:
        store = MemoryStore(database) if request.param == "memory" else open_store(url)
        opened.append(store)
        await store.open()
        return store

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(connect: Callable[[], Awaitable[Store]]) -> Store:
    """A store whose first term has begun."""
    opened = await connect()
    await opened.begin_term("test", NOW)
    return opened


async def test_terms_count_up_and_revisions_stay(store: Store) -> None:
    assert (await store.begin_term("b", NOW)).term == 2
    await store.commit(2, changes(1, instance_inserts=[instance()]))
    begun = await store.begin_term("c", NOW)
    assert (begun.term, begun.revision) == (3, 1)


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


async def test_what_does_not_exist_is_none_or_empty(store: Store) -> None:
    assert await store.get_run("default", new_id()) is None
    assert await store.get_request("default", "r") is None
    assert await store.get_workflow("default", "flow", 0) is None
    assert await store.get_instances("default", []) == []
    assert await store.get_attempts("default", new_id()) == []
    assert await store.find_requests("instance", "default", []) == {}


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


# Terms and repetition.


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


async def test_a_deposed_term_writes_nothing(store: Store) -> None:
    await store.commit(1, changes(1, worker_upserts=[worker("w")]))
    await store.begin_term("other", NOW)
    for revision in (1, 2):  # also not when it looks like a repetition
        with pytest.raises(Deposed, match="term 1 has ended, the present one is 2"):
            await store.commit(1, changes(revision, worker_deletes=["w"]))
    assert await store.load_workers() == [worker("w")]


async def test_the_election_is_recorded_once(store: Store) -> None:
    await store.record_election("local")
    await store.record_election("local")
    with pytest.raises(ElectionConflict, match=r"'local'.*'etcd'.*set its election to 'local'"):
        await store.record_election("etcd")


async def test_settings_are_said(store: Store) -> None:
    assert await store.settings()


async def test_what_was_committed_is_there_after_reopening(
    store: Store, connect: Callable[[], Awaitable[Store]]
) -> None:
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    await store.close()
    await store.close()
    again = await connect()
    assert await again.get_instances("default", [column(row, "id")]) == [(*row, None, 0)]
    begun = await again.begin_term("again", NOW)
    assert (begun.term, begun.revision) == (2, 1)


@pytest.mark.parametrize("connect", ["memory", "mysql"], indirect=True)  # one process holds a SQLite file
async def test_two_connections_share_one_database(store: Store, connect: Callable[[], Awaitable[Store]]) -> None:
    other = await connect()
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    assert await other.get_instances("default", [column(row, "id")]) == [(*row, None, 0)]
    assert (await other.begin_term("other", NOW)).term == 2
    with pytest.raises(Deposed):
        await store.commit(1, changes(2))
    await other.commit(2, changes(2))


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


# Refused rows.


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


# Texts and sizes.

TEXTS = [
    "", " ", "a ", "nul\x00 in it", "\x01\x1f\x7f", "quote ' \" ` \\ \\' %s :name ? ${x} {0}",
    "line\r\n\ttab",    "🧪 emoji 👩‍👩‍👧", "汉字 \U00020000", "\u2028\ufeff\uffff", "e\u0301 é",
    "-- /* */ ;", "\\\\", "\x1a\x08", "NULL",
]  # fmt: skip


async def test_every_text_comes_back_byte_for_byte(store: Store) -> None:
    rows = [instance(params_json=text, policy_json=text, traceparent=text) for text in TEXTS]
    blobs = [task_definition(f"d{n:02}", definition=text.encode()) for n, text in enumerate(TEXTS)]
    blobs.append(task_definition("d99", definition=bytes(range(256))))
    await store.commit(1, changes(1, instance_inserts=rows, task_definition_upserts=blobs))
    updates = [
        instance_update(column(row, "id"), output_json=text, error_message=text, error_kind=text)
        for row, text in zip(rows, TEXTS, strict=True)
    ]
    await store.commit(1, changes(2, instance_updates=updates))
    got = await store.list_instances("default", [], None, 99, newest_first=False)
    for name in ("params_json", "policy_json", "traceparent", "output_json", "error_message", "error_kind"):
        assert [column(row, name) for row in got] == TEXTS, name
    assert await store.load_task_definitions() == blobs


async def test_large_values_come_back_whole(store: Store) -> None:
    large = "aé🧪\\'\x00" * 400_000  # more than 4 MB in UTF-8
    rows = [instance(params_json=large + str(n)) for n in range(5)]
    await store.commit(1, changes(1, instance_inserts=[*rows, instance()]))
    updates = [instance_update(column(row, "id"), output_json=large + "out") for row in rows]
    await store.commit(1, changes(2, instance_updates=updates))
    for number, row in enumerate(rows):
        [got] = await store.get_instances("default", [column(row, "id")])
        assert column(got, "params_json") == large + str(number)
        assert column(got, "output_json") == large + "out"


async def test_names_are_compared_bytewise(store: Store) -> None:
    names = ["a", "A", "á", "a\u0301", "ａ", "ß", "ss", "z", "Z", "🧪", "\uffee"]
    definitions = [task_definition(name) for name in names]
    await store.commit(1, changes(1, task_definition_upserts=definitions))
    got = [row[1] for row in await store.list_task_definitions("default", [], "", 99)]
    assert got == sorted(names, key=str.encode)
    found = await store.list_task_definitions("default", [Condition("name", "==", "a")], "", 99)
    assert [row[1] for row in found] == ["a"]


# Recovery and refill.


async def pages(
    load: Callable[..., Awaitable[list[Row]]], *args: Any, key: Callable[[Row], Any], first: Any
) -> list[Row]:
    """Reads everything by pages of 3."""
    found: list[Row] = []
    after = first
    while page := await load(*args, after, 3):
        assert len(page) <= 3
        found += page
        after = key(page[-1])
    return found


async def test_instances_of_a_phase_are_paged_by_key(store: Store) -> None:
    rows = [
        instance(tenant=tenant, phase=phase, id=new_id())
        for phase in (Phase.PENDING, Phase.READY, Phase.IN_FLIGHT, Phase.ENDED)
        for tenant in ("b", "default", "a")
        for _ in range(4)
    ]
    marked = column(rows[0], "tenant"), column(rows[0], "id")
    await store.commit(
        1,
        changes(1, instance_inserts=rows, checkpoint_upserts=[(*marked, 7, "data"), ("a", marked[1], 1, "")]),
    )
    for phase in (Phase.PENDING, Phase.IN_FLIGHT):
        got = await pages(store.load_instances, phase, key=lambda row: row[:2], first=START)
        assert [row[:-2] for row in got] == sorted(row for row in rows if column(row, "phase") == phase)
        assert [row[-2:] for row in got if row[:2] == marked] == [("data", 7)] * (phase == Phase.PENDING)
        assert all(row[-2:] == (None, 0) for row in got if row[:2] != marked)


async def test_live_runs_are_paged_by_key(store: Store) -> None:
    rows = [run(tenant=t, ended_at=e) for t in ("b", "a") for e in (None, NOW) for _ in range(5)]
    await store.commit(1, changes(1, run_inserts=rows))
    live = sorted(row for row in rows if row[-5] is None)
    assert await pages(store.load_runs, key=lambda row: row[:2], first=START) == live
    await store.commit(1, changes(2, run_updates=[run_update(live[0][1], tenant="a")]))
    assert await store.load_runs(START, 99) == live[1:]


async def test_ready_instances_come_in_the_order_of_their_queue(store: Store) -> None:
    rows = [instance(order_key=key) for key in (5, 3, 3, 9, 3, 1, 5)]
    others = [
        instance(order_key=0, queue="other"),
        instance(order_key=0, tenant="t"),
        instance(phase=Phase.PENDING),
    ]
    await store.commit(1, changes(1, instance_inserts=rows + others))
    got = await pages(
        store.load_ready,
        "default",
        "greet",
        key=lambda row: (column(row, "order_key"), column(row, "id")),
        first=(-(1 << 62), ""),
    )
    assert [row[:-2] for row in got] == sorted(rows, key=lambda row: (column(row, "order_key"), column(row, "id")))
    assert await store.count_ready() == [
        ("default", "greet", 7, 1), ("default", "other", 1, 0), ("t", "greet", 1, 0),
    ]  # fmt: skip


async def test_ready_follows_updates(store: Store) -> None:
    row = instance()
    id = column(row, "id")
    await store.commit(1, changes(1, instance_inserts=[row]))
    for revision, phase in enumerate((Phase.IN_FLIGHT, Phase.READY, Phase.PENDING, Phase.READY, Phase.ENDED), 2):
        update = instance_update(id, phase=phase, order_key=revision)
        await store.commit(1, changes(revision, instance_updates=[update]))
        ready = [("default", "greet", 1, revision)] if phase == Phase.READY else []
        assert await store.count_ready() == ready
        in_flight = await store.load_instances(Phase.IN_FLIGHT, START, 9)
        assert len(in_flight) == (phase == Phase.IN_FLIGHT)


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


async def test_request_ids_since_a_time(store: Store) -> None:
    def made(at: int, **given: Any) -> dict[str, Any]:
        return {"created_at": at, "id": new_id(at), "request_hash": b"h" * 16} | given

    old, new, late = (
        made(NOW - 1, request_id="old"),
        made(NOW, request_id="new"),
        made(NOW + 9, request_id="x"),
    )
    # Its source had seen a later time than its record says.
    ahead = made(NOW, request_id="ahead", id=new_id(NOW + 500), tenant="z")
    rows = [instance(**old), instance(**new), instance(**ahead), instance(**made(NOW + 1))]
    await store.commit(1, changes(1, instance_inserts=rows, run_inserts=[run(**late)]))
    got = await store.load_request_ids(NOW, 3)
    assert got is not None
    assert sorted(got) == [
        ("default", "new", new["id"], b"h" * 16),
        ("default", "x", late["id"], b"h" * 16),
        ("z", "ahead", ahead["id"], b"h" * 16),
    ]
    assert await store.load_request_ids(NOW, 2) is None
    assert await store.load_request_ids(NOW + 10, 9) == []
    assert len(await store.load_request_ids(-5, 9) or []) == 4


# Questions.


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


async def test_task_definitions_are_listed_by_name(store: Store) -> None:
    rows = [task_definition(name, number=n) for n, name in enumerate(["c", "a", "b"])]
    await store.commit(1, changes(1, task_definition_upserts=[*rows, task_definition("a", tenant="t")]))
    assert await store.list_task_definitions("default", [], "", 2) == [rows[1], rows[2]]
    assert await store.list_task_definitions("default", [], "b", 2) == [rows[0]]
    assert await store.list_task_definitions("default", [Condition("number", ">", 0)], "", 9) == [
        rows[1],
        rows[2],
    ]
