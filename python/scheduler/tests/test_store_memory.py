"""The store in memory fails where a test says so, and shares its database between its users."""

from __future__ import annotations

import asyncio

import pytest
from store_rows import NOW, changes, column, instance

from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.port import Deposed, StoreUnavailable


class FailOnce:
    """Raises the first time that a point is reached."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.seen: list[str] = []

    async def __call__(self, point: str) -> None:
        if point == self.point and point not in self.seen:
            self.seen.append(point)
            raise StoreUnavailable(point)
        self.seen.append(point)


async def begun(database: MemoryDatabase, faults: FailOnce) -> MemoryStore:
    store = MemoryStore(database, faults)
    await store.open()
    await store.begin_term("test", NOW)
    return store


@pytest.mark.parametrize(("point", "written"), [("before:commit", 0), ("after:commit", 1)])
async def test_a_commit_fails_before_or_after(point: str, written: int) -> None:
    database = MemoryDatabase()
    store = await begun(database, FailOnce(point))
    commit = changes(1, instance_inserts=[instance()])
    with pytest.raises(StoreUnavailable, match=point):
        await store.commit(1, commit)
    assert len(database.tables["instances"].rows) == written
    await store.commit(1, commit)
    assert len(database.tables["instances"].rows) == 1


async def test_a_commit_that_is_held_up_is_fenced_by_the_next_term() -> None:
    database = MemoryDatabase()
    go_on = asyncio.Event()

    async def hold_up(point: str) -> None:
        if point == "before:commit":
            await go_on.wait()

    slow, other = MemoryStore(database, hold_up), MemoryStore(database)
    await slow.begin_term("slow", NOW)
    committing = asyncio.ensure_future(slow.commit(1, changes(1, instance_inserts=[instance()])))
    await asyncio.sleep(0)
    await other.begin_term("other", NOW)
    go_on.set()
    with pytest.raises(Deposed):
        await committing
    assert not database.tables["instances"].rows


async def test_every_operation_passes_both_points() -> None:
    faults = FailOnce("never")
    store = await begun(MemoryDatabase(), faults)
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    assert await store.get_instances("default", [column(row, "id")])
    operations = ("open", "begin_term", "commit", "get_instances")
    assert faults.seen == [f"{when}:{name}" for name in operations for when in ("before", "after")]


async def test_what_was_read_does_not_change_later() -> None:
    database = MemoryDatabase()
    store = MemoryStore(database)
    await store.begin_term("test", NOW)
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    [before] = await store.get_instances("default", [column(row, "id")])
    await store.commit(1, changes(2, instance_deletes=[("default", column(row, "id"))]))
    assert before == (*row, None, 0)
