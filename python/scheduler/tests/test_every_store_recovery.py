"""Every store: a new leader finds by pages what lives, what is ready in the order of its queue, and recent requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from store_rows import NOW, changes, column, instance, instance_update, new_id, run, run_update

from taskyard_core.pauses import HeldRuns
from taskyard_core.records import Phase, Row
from taskyard_scheduler.store.port import Store

START = ("", "")


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


async def test_ready_instances_are_read_without_what_is_held_back(store: Store) -> None:
    rows = [
        instance(order_key=n, run_id=run_id, workflow=workflow)
        for n, (run_id, workflow) in enumerate((("r1", "wf"), ("r2", "wf"), ("r3", "other"), ("", "")))
    ]
    await store.commit(1, changes(1, instance_inserts=rows))

    async def left(*held: tuple[str, ...]) -> list[str]:
        found = await store.load_ready("default", "greet", (-(1 << 62), ""), 9, HeldRuns(*held))
        return [column(row, "run_id") for row in found]

    assert await left((), ()) == ["r1", "r2", "r3", ""]
    assert await left(("wf",), ()) == ["r3", ""]
    assert await left((), ("r1", "r3")) == ["r2", ""]
    assert await left(("wf",), ("r3", "gone")) == [""]


async def test_pauses_are_stored_replaced_and_deleted(store: Store) -> None:
    one, two = ("default", 2, "shell", "repairs", "ann", NOW), ("", 6, "", "", "bob", NOW)
    await store.commit(1, changes(1, pause_upserts=[one, two]))
    assert await store.load_pauses() == [two, one]
    again = ("default", 2, "shell", "more repairs", "eve", NOW)
    await store.commit(1, changes(2, pause_upserts=[again], pause_deletes=[two[:3], ("default", 4, "gone")]))
    assert await store.load_pauses() == [again]


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
