"""Who gets what and when: order, load, selectors, resources, and the bounds that are never exceeded."""

from __future__ import annotations

from collections import Counter

import pytest
from enginekit import Lab, retrying, task
from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.engine.events import Hello, NewTask, WorkerFrame
from taskyard_core.ready import order_key
from taskyard_core.records import TaskState

S = TaskState


def order_of(lab: Lab, types: str = "*") -> list[str]:
    """Lets one worker of one slot take everything, and returns the ids in that order."""
    worker = lab.worker("taker", types, slots=1)
    taken = []
    while worker.held:
        (id,) = worker.held
        taken.append(id)
        worker.finish(id)
        lab.settle()
    return taken


def test_priority_then_age() -> None:
    lab = Lab()
    late_low = lab.add(priority=9)
    normal = lab.add()
    first = lab.add(priority=1)
    second = lab.add(priority=1)
    assert order_of(lab) == [first, second, normal, late_low]


@pytest.mark.parametrize(("ms", "first"), [(59_000, "urgent"), (61_000, "old")])
def test_the_step_of_ageing_is_a_minute(ms: int, first: str) -> None:
    lab = Lab()
    ids = {"old": lab.add(priority=6)}
    lab.wait(ms)
    ids["urgent"] = lab.add(priority=5)
    assert order_of(lab)[0] == ids[first]


def test_order_holds_over_all_queues() -> None:
    lab = Lab()
    last = lab.add("a", priority=8)
    first = lab.add("b", priority=2)
    middle = lab.add("c", priority=5)
    assert order_of(lab) == [first, middle, last]


def test_of_one_millisecond_what_came_first_goes_first_over_all_queues() -> None:
    lab = Lab()
    types = [lab.random.choice("abcd") for _ in range(40)]
    came = [lab.add(type, total_ms=wait) for type, wait in zip(types, (0, 40_000) * 20, strict=True)]
    assert order_of(lab) == came


def test_what_nobody_can_take_blocks_nothing_else() -> None:
    lab = Lab()
    worker = lab.worker(slots=5, cpu_millis=1_000)
    stuck = [
        lab.add("a", selector="gpu=yes"),
        lab.add("a", gpus=1),
        lab.add("a", cpu_millis=2_000),
    ]
    free = lab.add("a", priority=10)
    assert list(worker.held) == [free]
    assert {lab.state(id) for id in stuck} == {S.QUEUED}


def test_a_worker_takes_only_the_types_it_offers() -> None:
    lab = Lab()
    worker = lab.worker("w", "a", "b")
    mine, not_mine = lab.add("a"), lab.add("c")
    assert mine in worker.held
    assert not_mine not in worker.held


def test_a_worker_of_another_tenant_takes_nothing() -> None:
    lab = Lab()
    lab.worker("w", tenant="other")
    assert lab.state(lab.add()) == S.QUEUED


def test_selectors_choose_by_labels() -> None:
    lab = Lab()
    java = lab.worker("java", labels={"lang": "java", "zone": "a"})
    python = lab.worker("python", labels={"lang": "python", "zone": "b"})
    id = lab.add(selector="lang=java")
    other = lab.add(selector="zone in (b,c),!spot")
    assert (id in java.held, other in python.held) == (True, True)


def test_the_least_loaded_worker_is_first() -> None:
    lab = Lab()
    big = lab.worker("big", slots=10)
    small = lab.worker("small", slots=2)
    for _ in range(6):
        lab.add()
    assert (len(big.held), len(small.held)) == (5, 1)


@pytest.mark.parametrize("same_class", [True, False])
def test_equal_workers_share_the_work(same_class: bool) -> None:
    lab = Lab()
    workers = [lab.worker(f"w{n}", slots=10, labels={} if same_class else {"n": str(n)}) for n in range(4)]
    lab.submit(*(task() for _ in range(20)))
    assert [len(worker.held) for worker in workers] == [5, 5, 5, 5]


@pytest.mark.parametrize("same_class", [True, False])
def test_ties_are_broken_at_random(same_class: bool) -> None:
    firsts: Counter[str] = Counter()
    for seed in range(120):
        lab = Lab(seed)
        workers = [lab.worker(f"w{n}", slots=3, labels={} if same_class else {"n": str(n)}) for n in range(3)]
        id = lab.add()
        firsts[next(worker.id for worker in workers if id in worker.held)] += 1
    assert min(firsts.values()) > 20


def test_affinity_prefers_while_there_is_room_and_no_longer() -> None:
    lab = Lab()
    liked = lab.worker("liked", slots=2, labels={"cache": "hot"})
    other = lab.worker("other", slots=2, labels={"cache": "cold"})
    for _ in range(3):
        lab.add(affinity="cache=hot")
    assert (len(liked.held), len(other.held)) == (2, 1)


def test_spread_puts_a_runs_steps_on_different_values() -> None:
    lab = Lab()
    lab.plan("wf", [(f"s{n}", [], {"spread": "zone"}) for n in range(4)])
    near = lab.worker("near", slots=10, labels={"zone": "a"})
    far = [lab.worker(f"far{n}", slots=2, labels={"zone": "b", "n": str(n)}) for n in range(2)]
    lab.start_run("wf")
    assert len(near.held) == 2
    assert sum(len(worker.held) for worker in far) == 2


def test_resources_are_held_and_given_back() -> None:
    lab = Lab()
    worker = lab.worker(slots=10, cpu_millis=1_000, memory_mb=100, gpus=1)
    ids = [lab.add(cpu_millis=400, memory_mb=10) for _ in range(3)]
    assert [lab.state(id) for id in ids] == [S.ASSIGNED, S.ASSIGNED, S.QUEUED]
    worker.finish(ids[0])
    lab.settle()
    assert lab.state(ids[2]) == S.ASSIGNED
    gpu = [lab.add(gpus=1), lab.add(gpus=1)]
    assert [lab.state(id) for id in gpu] == [S.ASSIGNED, S.QUEUED]


def test_resources_are_found_beyond_the_least_loaded_worker() -> None:
    lab = Lab()
    busy = lab.worker("busy", slots=4, cpu_millis=4_000)
    lab.add()
    lab.worker("idle", slots=4, cpu_millis=100)
    id = lab.add(cpu_millis=500)
    assert id in busy.held


def test_a_type_handed_back_is_kept_and_goes_elsewhere() -> None:
    lab = Lab()
    old = lab.worker("old", slots=1)
    id = lab.add("new-type")
    old.finish(id, 12, error_kind="UNKNOWN_TASK_TYPE", error_message="no handler")
    lab.settle()
    assert lab.state(id) == S.QUEUED
    assert lab.get(id).retries == lab.get(id).requeues == 0
    assert lab.why(id) == ["WORKERS_UNHEALTHY"]
    other = lab.add("known")
    assert other in old.held
    newer = lab.worker("newer", slots=1)
    assert id in newer.held


def test_a_new_session_may_know_the_type_after_all() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add("x")
    worker.finish(id, 12, error_kind="UNKNOWN_TASK_TYPE")
    lab.settle()
    worker.drop_stream()
    worker.connect()
    lab.settle()
    assert id in worker.held


def test_a_worker_that_hands_back_for_ever_does_not_loop_for_ever() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    for _ in range(10):
        if id in worker.held:
            worker.finish(id, 12, error_message="I am full")
        lab.settle()
    assert lab.state(id) == S.FAILED
    assert lab.get(id).error_kind == "NEVER_STARTED"


def test_credits_are_never_exceeded() -> None:
    lab = Lab()
    worker = lab.make_worker("w", slots=10)
    worker.register()
    worker.stream = object()
    lab.handle(Hello("w", worker.epoch, worker.stream, []))
    lab.submit(*(task() for _ in range(8)))
    assert not worker.held, "no credits, no tasks"
    worker.credits = 3
    lab.handle(WorkerFrame("w", worker.epoch, credits=3, stream=worker.stream))
    lab.settle()
    assert len(worker.held) == 3
    for id in list(worker.held):
        lab.handle(WorkerFrame("w", worker.epoch, results=[], stream=worker.stream))
        lab.settle()
        assert id in worker.held
    assert len(worker.held) == 3
    lab.handle(WorkerFrame("w", worker.epoch, credits=1, stream=worker.stream))
    worker.credits = 5
    lab.handle(WorkerFrame("w", worker.epoch, credits=5, stream=worker.stream))
    lab.settle()
    assert len(worker.held) == 5


def test_no_task_sits_behind_another() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    ids = [lab.add() for _ in range(5)]
    assert len(worker.held) == 2
    worker.finish(ids[0])
    lab.settle()
    assert len(worker.held) == 2


def test_a_queue_that_waits_for_a_full_worker_goes_to_a_new_one() -> None:
    """Workers of other labels or capabilities that come later are as good as those that were waited for."""
    lab = Lab()
    lab.worker("full", slots=1)
    ids = [lab.add() for _ in range(3)]
    other = lab.worker("other", "noop", slots=1, labels={"a": "b"})
    assert list(other.held) == [ids[1]]


def test_a_queue_survives_the_end_of_the_only_workers_it_waited_for() -> None:
    lab = Lab()
    gone = lab.worker("gone", slots=1)
    ids = [lab.add() for _ in range(2)]
    gone.leave()
    lab.settle()
    late = lab.worker("late", "noop", slots=5)
    assert set(late.held) == set(ids)


def test_a_new_worker_wakes_what_nobody_offered() -> None:
    lab = Lab()
    ids = [lab.add("rare") for _ in range(3)]
    worker = lab.worker("w", "rare", slots=2)
    assert list(worker.held) == ids[:2]


def test_a_worker_that_changes_its_capabilities_is_found_anew() -> None:
    lab = Lab()
    worker = lab.worker("w", "a")
    id = lab.add("b")
    assert not worker.held
    again = lab.make_worker("w", "b")
    again.connect()
    lab.settle()
    assert id in again.held


def test_empty_queues_of_old_selectors_are_dropped() -> None:
    lab = Lab()
    worker = lab.worker(slots=1, labels={"n": "1"})
    for n in range(2_200):
        id = lab.add(selector=f"n=1,!x{n}")
        worker.finish(id)
        lab.settle()
    assert len(lab.engine.cluster.queues) <= 1_001


def test_cancelled_entries_do_not_pile_up_in_a_queue() -> None:
    lab = Lab()
    keep = lab.add()
    for _ in range(1_500):
        lab.cancel(lab.add())
    (queue,) = lab.engine.cluster.queues.values()
    assert len(queue) == 1
    assert len(list(queue.entries())) <= 300
    assert order_of(lab) == [keep]


@given(
    tasks=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 10), st.integers(0, 90_000)), max_size=12),
    slots=st.integers(1, 3),
)
def test_the_order_is_that_of_the_keys(tasks: list[tuple[str, int, int]], slots: int) -> None:
    lab = Lab()
    keys = {}
    for type_, priority, wait in tasks:
        id = lab.add(type_, priority=priority)
        keys[id] = (order_key(lab.now, priority), id)
        lab.now += wait
    worker = lab.worker(slots=slots)
    taken: list[str] = []
    while worker.held:
        taken += sorted(worker.held, key=lambda id: keys[id])
        for id in list(worker.held):
            worker.finish(id)
        lab.settle()
    assert [keys[id][0] for id in taken] == sorted(key for key, _ in keys.values())


def test_a_requeued_task_keeps_its_place_and_a_retried_one_goes_to_the_end() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    retried = lab.add(retry=retrying(2, 0))
    requeued = lab.add()
    lab.wait(10)
    later = lab.add()
    lab.wait(10)
    worker.finish(requeued, 11)
    worker.finish(retried, S.FAILED)
    worker.frame(draining=True)
    lab.settle()
    assert order_of(lab) == [requeued, later, retried]


def test_new_task_has_defaults() -> None:
    new = task()
    assert isinstance(new, NewTask)
    assert new.priority == 5
