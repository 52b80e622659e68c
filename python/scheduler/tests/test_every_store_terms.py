"""Every store: terms count up and fence what came before them; what was committed outlives who wrote it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from store_databases import SHARED_STORES
from store_rows import NOW, changes, column, instance, worker

from taskyard_scheduler.store.port import Deposed, ElectionConflict, Store


async def test_terms_count_up_and_revisions_stay(store: Store) -> None:
    assert (await store.begin_term("b", NOW)).term == 2
    await store.commit(2, changes(1, instance_inserts=[instance()]))
    begun = await store.begin_term("c", NOW)
    assert (begun.term, begun.revision) == (3, 1)


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


@pytest.mark.parametrize("connect", SHARED_STORES, indirect=True)
async def test_two_connections_share_one_database(store: Store, connect: Callable[[], Awaitable[Store]]) -> None:
    other = await connect()
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    assert await other.get_instances("default", [column(row, "id")]) == [(*row, None, 0)]
    assert (await other.begin_term("other", NOW)).term == 2
    with pytest.raises(Deposed):
        await store.commit(1, changes(2))
    await other.commit(2, changes(2))
