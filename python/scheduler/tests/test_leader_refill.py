"""A leader reads back what waits in the database: with every deadline in it, and without haste when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path

import pytest
from leaders import leading
from store_rows import NOW, changes, instance

from taskyard_core.policy_codec import dump_policy
from taskyard_core.ready import queue_key
from taskyard_core.records import Policy, Row, TaskState
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Store, StoreUnavailable

PATIENCE_S = 30.0
TIMED_OUT = ("default", int(TaskState.TIMEOUT))


@pytest.fixture(params=["sqlite", "memory", "mysql"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    if request.param == "memory":
        opened: Store = MemoryStore(MemoryDatabase())
    elif request.param == "sqlite":
        opened = open_store(f"sqlite:///{tmp_path / 'refill.db'}")
    else:
        opened = open_store(request.getfixturevalue("mariadb_database"))
    await opened.open()
    yield opened
    await opened.close()


async def until(leader: Leader, true: Callable[[], bool]) -> None:
    """Waits for something to be true after a commit."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await leader.committed()


def waiting(policy: Policy, number: int) -> Row:
    """A task that has waited for a minute."""
    at = NOW - 60_000
    return instance(
        policy_json=dump_policy(policy), queue=queue_key("greet", policy), created_at=at, queued_at=at, order_key=number
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_scheduler.leader.REFILL_ROWS", 7)
    monkeypatch.setattr("taskyard_core.ready.HEAD_LIMIT", 8)


@pytest.mark.parametrize("deadline", [Policy(total_ms=60_000), Policy(queued_ms=60_000)])
async def test_a_new_leader_keeps_every_deadline(small: None, store: Store, deadline: Policy) -> None:
    others = [waiting(Policy(), n) for n in range(30)]
    late = [waiting(deadline, n) for n in range(30)]
    early = [waiting(Policy(selector="a=b", total_ms=3_600_000), n) for n in range(30)]
    term = await store.begin_term("before", NOW)
    await store.commit(term.term, changes(1, instance_inserts=others + late + early))
    async with leading(store) as leader:
        await until(leader, lambda: leader.ended_counts.get(TIMED_OUT) == len(late))
        await until(leader, lambda: not any(queue.wants_refill() for queue in leader.engine.cluster.queues.values()))
        held = leader.engine.cluster.instances
        assert {row[1] for row in early} <= held.keys()
        assert len({row[1] for row in others} & held.keys()) <= 8
        assert leader.engine.cluster.waiting_count() == 60
    assert sorted(count for _, _, count, _ in await store.count_ready()) == [30, 30]


async def test_a_failed_read_is_repeated_after_a_while_and_holds_up_nothing(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard_scheduler.leader.REFILL_RETRY_S", 0.2)
    times: list[float] = []
    recovered = False

    async def faults(place: str) -> None:
        if recovered and place == "before:load_ready":
            times.append(asyncio.get_running_loop().time())
            if len(times) < 3:
                raise StoreUnavailable("cut off")

    store = MemoryStore(MemoryDatabase(), faults)
    term = await store.begin_term("before", NOW)
    await store.commit(term.term, changes(1, instance_inserts=[waiting(Policy(), n) for n in range(5)]))
    async with leading(store) as leader:
        recovered = True
        await until(leader, lambda: len(leader.engine.cluster.instances) == 5)
    assert all(after - before >= 0.19 for before, after in pairwise(times))
    assert len(times) == 3


async def test_a_head_that_is_full_by_its_bytes_is_not_read_again_and_again(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_BYTES", 3_000)  # two or three tasks
    reads = 0

    async def faults(place: str) -> None:
        nonlocal reads
        reads += place == "before:load_ready"

    store = MemoryStore(MemoryDatabase(), faults)
    term = await store.begin_term("before", NOW)
    await store.commit(term.term, changes(1, instance_inserts=[waiting(Policy(), n) for n in range(50)]))
    async with leading(store) as leader:
        await until(leader, lambda: bool(leader.engine.cluster.instances))
        await asyncio.wait_for(leader._idle.wait(), PATIENCE_S)
        assert leader.engine.cluster.waiting_count() == 50
    assert reads < 10
