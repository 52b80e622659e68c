"""Ready queues beyond memory: what spills comes back, in order, once, whatever happens meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest
from enginekit import FakeWorker, Lab, task
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.engine.events import Cancel, Submit
from taskyard_core.engine.recovery import refill, refills
from taskyard_core.ready import HEAD_LIMIT, ReadyQueue
from taskyard_core.records import Row, TaskState

S = TaskState


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_LIMIT", 8)


def drain(lab: Lab, worker: FakeWorker) -> list[str]:
    """Lets a worker do everything; returns the ids in the order in which they came."""
    order: list[str] = []
    while worker.held:
        for id in list(worker.held):
            order.append(id)
            worker.finish(id)
        lab.settle()
    return order


def test_beyond_ten_thousand_only_sql_holds_them_and_none_is_lost() -> None:
    lab = Lab()
    count = HEAD_LIMIT + 3_000
    ids = [outcome.id for outcome in lab.submit(*(task() for _ in range(count)))]
    c = lab.engine.cluster
    assert len(c.instances) <= HEAD_LIMIT
    assert c.waiting_count() == c.live_count() == count
    assert drain(lab, lab.worker(slots=2_000)) == ids
    assert (c.waiting_count(), c.live_count()) == (0, 0)


def test_large_inputs_spill_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_core.ready.HEAD_BYTES", 20_000)
    lab = Lab()
    ids = [lab.add(input_json="x" * 4_000) for _ in range(10)]
    (queue,) = lab.engine.cluster.queues.values()
    assert queue.spilled > 0
    assert queue.head_bytes <= 20_000
    assert drain(lab, lab.worker(slots=1)) == ids


def test_one_huge_task_stays() -> None:
    lab = Lab()
    id = lab.add(input_json="x" * 70_000_000)
    assert id in lab.engine.cluster.instances


def test_what_has_a_deadline_stays_where_its_timer_is(small: None) -> None:
    lab = Lab()
    ids = [lab.add(queued_ms=5_000) for _ in range(20)]
    assert set(ids) <= set(lab.engine.cluster.instances)
    lab.wait(5_000)
    assert {lab.state(id) for id in ids} == {S.TIMEOUT}


@pytest.mark.parametrize("deadline", ["queued_ms", "total_ms"])
def test_a_new_leader_keeps_the_deadlines_of_all_that_waits(small: None, deadline: str) -> None:
    def bound(milliseconds: int) -> dict[str, Any]:
        return {deadline: milliseconds}

    lab = Lab()
    others = [lab.add() for _ in range(30)]
    ids = [lab.add(**bound(60_000 + n)) for n in range(30)]
    lab.wait(30_000)
    cancelled = ids.pop(25)
    lab.cancel(cancelled)
    lab.now += 10_000
    lab.recover()
    late = lab.add(**bound(90_000))
    assert set(ids) <= set(lab.engine.cluster.instances)
    assert len(set(others) & set(lab.engine.cluster.instances)) < len(others), "the rest of the others is in SQL"
    lab.wait(20_028)
    assert [lab.state(id) for id in ids[-2:]] == [S.TIMEOUT, S.QUEUED]
    lab.wait(1)
    assert {lab.state(id) for id in ids} == {S.TIMEOUT}
    assert sorted(drain(lab, lab.worker(slots=3))) == sorted([*others, late])


def test_deadlines_that_pass_while_nobody_leads_are_kept_by_the_next_leader(small: None) -> None:
    lab = Lab()
    ids = [lab.add(total_ms=60_000) for _ in range(20)]
    lab.now += 120_000
    lab.recover()
    lab.wait(1)
    assert {lab.state(id) for id in ids} == {S.TIMEOUT}


def test_a_cancel_of_what_is_not_read_back_yet_leaves_no_other_behind(small: None) -> None:
    lab = Lab()
    ids = [lab.add(total_ms=60_000) for _ in range(20)]
    lab.engine = lab._engine(2)
    lab.engine.begin(lab.now)
    lab._restore_queues()
    lab.cancel(ids[-1])
    lab.refill(4)
    lab.cancel(ids[10])
    while any(queue.wants_refill() for queue in lab.engine.cluster.queues.values()):
        lab.refill(4)
    lab.wait(60_000)
    assert [lab.state(id) for id in ids] == [S.CANCELLED if n in (10, 19) else S.TIMEOUT for n in range(20)]


@given(seed=st.integers(0, 10_000), slots=st.integers(1, 4))
def test_order_is_kept_across_spills(seed: int, slots: int) -> None:
    rng = random.Random(seed)
    lab = Lab(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taskyard_core.ready.HEAD_LIMIT", 8)
        for _ in range(rng.randrange(5, 40)):
            lab.add(priority=rng.randint(1, 10))
            lab.now += rng.randrange(40_000)
        waiting = sorted((v["order_key"], id) for id, v in lab.tables.instances.items())
        order = drain(lab, lab.worker(slots=slots))
    keys = {id: key for key, id in waiting}
    assert sorted(order) == sorted(keys)
    assert [keys[id] for id in order] == [key for key, _ in waiting]


def test_cancel_of_a_spilled_task(small: None) -> None:
    lab = Lab()
    ids = [lab.add() for _ in range(30)]
    gone = [id for id in ids if id not in lab.engine.cluster.instances][3]
    assert lab.cancel(gone) == S.CANCELLED
    assert lab.engine.cluster.waiting_count() == 29
    assert sorted(drain(lab, lab.worker(slots=3))) == sorted(set(ids) - {gone})


def read(lab: Lab) -> tuple[ReadyQueue, list[Row]]:
    """Begins a refill of the one queue and reads its rows: as of the last commit."""
    (queue,) = lab.engine.cluster.queues.values()
    queue.refilling = True
    order, id = queue.floor or (0, "")
    return queue, lab.tables.ready(queue.tenant, queue.key, (order, id[:-1]), 100)


@pytest.mark.parametrize("when", ["before the read", "during the read"])
@pytest.mark.parametrize("spilled", [True, False])
def test_a_refill_does_not_bring_back_what_was_cancelled_meanwhile(small: None, when: str, spilled: bool) -> None:
    """The rows that a refill reads are of the last commit; the cancel is not in it yet."""
    lab = Lab()
    c = lab.engine.cluster
    lab.submit(*(task() for _ in range(9)))
    victim = next(id for id in lab.tables.instances if (id not in c.instances) == spilled)
    (queue,) = c.queues.values()
    queue.lower_floor((0, ""))
    event = Cancel("reply", victim, "no", lab.stored(victim))
    if when == "before the read":
        lab.handle(event)
    queue, rows = read(lab)
    if when == "during the read":
        lab.handle(event)
    assert victim in [row[1] for row in rows]
    refill(c, queue, rows, more=False)
    assert victim not in c.instances
    lab.settle()
    assert lab.state(victim) == S.CANCELLED
    assert len(queue) == 8


def test_what_spills_while_a_refill_is_read_is_read_by_the_next(small: None) -> None:
    lab = Lab()
    lab.submit(*(task() for _ in range(12)))
    queue, rows = read(lab)
    lab.handle(Submit("reply", "default", [task(priority=10) for _ in range(12)]))
    refill(lab.engine.cluster, queue, rows, more=False)
    assert queue.floor is not None
    lab.settle()
    assert len(queue) == 24
    assert len(drain(lab, lab.worker(slots=5))) == 24


def test_one_read_at_a_time(small: None) -> None:
    lab = Lab()
    lab.submit(*(task() for _ in range(20)))
    (queue,) = lab.engine.cluster.queues.values()
    queue.live, live = 0, queue.live
    assert refills(lab.engine.cluster) == [queue]
    assert refills(lab.engine.cluster) == []
    queue.live = live


def test_a_failed_read_is_tried_again(small: None) -> None:
    lab = Lab()
    lab.submit(*(task() for _ in range(20)))
    read(lab)[0].refilling = False  # as the shell does when the database was away
    assert len(drain(lab, lab.worker(slots=4))) == 20


def test_requeued_tasks_may_spill_too(small: None) -> None:
    lab = Lab()
    worker = lab.worker(slots=6)
    held = [lab.add(priority=10) for _ in range(6)]
    more = [lab.add() for _ in range(20)]
    for id in held:
        worker.finish(id, 11)
    worker.frame(draining=True)
    lab.settle()
    assert lab.engine.cluster.waiting_count() == 26
    assert sorted(drain(lab, lab.worker("w2", slots=3))) == sorted(held + more)


def test_queues_come_back_after_recovery(small: None) -> None:
    lab = Lab()
    ids = [lab.add("a", priority=n % 10 + 1) for n in range(25)] + [lab.add("b") for _ in range(3)]
    lab.recover()
    assert lab.engine.cluster.waiting_count() == 28
    assert sorted(drain(lab, lab.worker(slots=3))) == sorted(ids)
