"""The fleet by itself: registrations, ledgers, and the choice against one that looks at every worker."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from taskyard_core.fleet import Fleet, Registration, Worker
from taskyard_core.ready import ReadyQueue
from taskyard_core.records import Instance, Policy
from taskyard_core.selectors import Selector
from taskyard_core.transitions import WorkerState

W = WorkerState


def test_a_registration_survives_and_passes_over_what_is_new() -> None:
    full = Registration("h", 1, ("a", "b"), 3, "http", "http://x", "g:1", (("k", "v"),), "build", 1, 2, 3)
    assert Registration.load(full.dump()) == full
    assert Registration.load(json.dumps({**json.loads(full.dump()), "newer": 1})) == full
    assert Registration.load("{}") == Registration()


def instance(policy: Policy, number: int) -> Instance:
    made = Instance()
    made.id, made.policy, made.run_id = f"i{number}", policy, ""
    return made


shapes = st.tuples(
    st.sampled_from([("a",), ("b",), ("*",), ("a", "b")]),
    st.sampled_from([(), (("zone", "x"),), (("zone", "y"), ("gpu", "1"))]),
    st.integers(1, 3),
    st.integers(0, 2),
)
asks = st.builds(
    Policy, selector=st.sampled_from(["", "zone=x", "gpu", "!gpu"]), gpus=st.integers(0, 1),
    affinity=st.sampled_from(["", "zone=y"]),
)  # fmt: skip
actions = st.lists(st.tuples(st.sampled_from("ttttrdhg"), st.sampled_from("ab"), asks, st.integers(0, 99)), max_size=40)


@given(shapes=st.lists(shapes, min_size=1, max_size=6), actions=actions, seed=st.integers(0, 9))
def test_the_choice_is_that_of_someone_who_looks_at_every_worker(
    shapes: list[tuple[tuple[str, ...], tuple[tuple[str, str], ...], int, int]],
    actions: list[tuple[str, str, Policy, int]],
    seed: int,
) -> None:
    rng = random.Random(seed)
    fleet = Fleet(rng.random)
    for n, (types, labels, slots, gpus) in enumerate(shapes):
        offer = Registration(capabilities=types, labels=labels, max_concurrency=slots, gpus=gpus)
        worker = Worker(f"w{n}", "t", 1, offer, W.HEALTHY)
        worker.stream, worker.credit_limit = object(), 1_000
        fleet.add(worker)
        fleet.touch(worker)
    held: list[tuple[Worker, Instance]] = []
    queues: dict[tuple[str, Policy], ReadyQueue] = {}
    for number, (what, task_type, policy, pick) in enumerate(actions):
        worker = fleet.workers[f"w{pick % len(shapes)}"]
        if what == "t":
            queue = queues.setdefault((task_type, policy), ReadyQueue("t", "k", task_type, policy))
            wanted = instance(policy, number)
            chosen = fleet.choose(queue, wanted, None)
            check(fleet, task_type, policy, chosen)
            if chosen is not None:
                fleet.hold(chosen, wanted)
                chosen.sent += 1
                held.append((chosen, wanted))
        elif what == "r" and held:
            holder, done = held.pop(pick % len(held))
            assert fleet.release(holder, done)
            assert not fleet.release(holder, done)
            fleet.touch(holder)
        elif what == "d":
            worker.state = W.UNHEALTHY
        elif what == "h":
            worker.state = W.HEALTHY
            fleet.touch(worker)
        elif what == "g":
            worker.rejected ^= {task_type}
            fleet.touch(worker)


def check(fleet: Fleet, task_type: str, policy: Policy, chosen: Worker | None) -> None:
    able = [
        worker
        for worker in fleet.workers.values()
        if worker.state == W.HEALTHY
        and worker.room() > 0
        and worker.fits(policy)
        and task_type not in worker.rejected
        and ({"*", task_type} & set(worker.registration.capabilities))
        and Selector.parse(policy.selector).matches(dict(worker.registration.labels))
    ]
    liked = [
        w for w in able if policy.affinity and Selector.parse(policy.affinity).matches(dict(w.registration.labels))
    ]
    able = liked or able
    if not able:
        assert chosen is None
        return
    assert chosen in able
    assert chosen is not None
    assert load(chosen) == min(load(worker) for worker in able)


def load(worker: Worker) -> tuple[float, int]:
    """Least loaded first, then more free slots."""
    top, held = worker.registration.max_concurrency, len(worker.attempts)
    return (held / top, held - top)


def test_the_heap_of_a_class_stays_small() -> None:
    fleet = Fleet(random.Random(1).random)
    worker = Worker("w", "t", 1, Registration(capabilities=("*",), max_concurrency=2), W.HEALTHY)
    worker.stream, worker.credit_limit = object(), 10_000
    fleet.add(worker)
    queue = ReadyQueue("t", "k", "a", Policy())
    for n in range(2_000):
        fleet.touch(worker)
        assert fleet.choose(queue, instance(Policy(), n), None) is worker
    (klass,) = fleet.classes.values()
    assert len(klass.heap) <= 70


def test_a_class_goes_with_its_last_worker_and_the_version_says_so() -> None:
    fleet = Fleet(random.Random(1).random)
    workers = [Worker(f"w{n}", "t", 1, Registration(capabilities=("a",)), W.UNHEALTHY) for n in range(2)]
    for worker in workers:
        fleet.add(worker)
    version = fleet.version
    fleet.remove(workers[0])
    assert (len(fleet.classes), fleet.version) == (1, version)
    fleet.add_again(workers[1], Registration(capabilities=("b",)))
    assert len(fleet.classes) == 1
    assert fleet.version > version
    fleet.remove(workers[1])
    assert fleet.classes == {}
