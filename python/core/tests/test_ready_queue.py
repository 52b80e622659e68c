"""The ready queue by itself, against a sorted list."""

from __future__ import annotations

from enginekit import Lab, task
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taskyard_core import ready
from taskyard_core.engine.instances import make_instance
from taskyard_core.ready import ReadyQueue, order_key, queue_key
from taskyard_core.records import ASSIGNED, CANCELLED, Instance, Policy


class QueueMachine(RuleBasedStateMachine):
    """Pushes, pops, drops and refills; the model is a dict of what waits."""

    @initialize(deadlines=st.booleans())
    def begin(self, *, deadlines: bool) -> None:
        self.limit = ready.HEAD_LIMIT
        ready.HEAD_LIMIT = 6
        self.cluster = Lab().engine.cluster
        self.new = task(queued_ms=int(deadlines))
        policy = self.new.policy
        key = queue_key("noop", policy)
        self.queue = ReadyQueue("t", key, "noop", policy, deadlines=deadlines)
        self.memory: dict[str, Instance] = {}
        self.sql: dict[str, Instance] = {}  # spilled, committed or not
        self.fresh: set[str] = set()  # spilled since the last commit

    @rule(key=st.integers(0, 20))
    def push(self, key: int) -> None:
        instance = make_instance(self.cluster, "t", self.new)
        instance.order_key = key
        self.memory[instance.id] = instance
        for gone in self.queue.push(instance):
            self.sql[gone.id] = self.memory.pop(gone.id)
            self.fresh.add(gone.id)

    @rule()
    def pop(self) -> None:
        first = self.queue.peek()
        assert (first is None) == (not self.memory)
        if first is None:
            return
        assert first is min(self.memory.values(), key=lambda i: (i.order_key, i.id))
        assert self.queue.pop() is first
        first.state = ASSIGNED
        del self.memory[first.id]

    @rule(pick=st.integers(0, 100))
    def drop(self, pick: int) -> None:
        if self.memory:
            instance = self.memory.pop(sorted(self.memory)[pick % len(self.memory)])
            self.queue.drop(instance)
            instance.state = CANCELLED

    @rule()
    def commit(self) -> None:
        self.queue.sealed()
        self.fresh.clear()

    @rule(limit=st.integers(1, 8), late=st.booleans())
    def refill(self, limit: int, late: bool) -> None:
        if not self.queue.spilled:
            return
        readable = sorted((i.order_key, i.id) for id, i in self.sql.items() if id not in self.fresh)
        floor = self.queue.floor
        assert floor is not None
        rows = [key for key in readable if key >= floor][:limit]
        assert not [key for key in readable if key < floor], "a spilled task is below the floor"
        self.queue.refill_done(len(rows), more=len(rows) == limit, last=rows[-1] if rows else None)
        after, self.queue.floor = self.queue.floor, None
        for _, id in rows:
            instance = self.memory[id] = self.sql.pop(id)
            for gone in self.queue.push(instance):
                self.sql[gone.id] = self.memory.pop(gone.id)
        self.queue.lower_floor(after)

    @invariant()
    def counts_are_true(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert self.queue.live == len(self.memory)
        assert self.queue.spilled == len(self.sql)
        assert len(self.queue) == len(self.memory) + len(self.sql)
        assert self.queue.head_bytes == sum(ready._size(i) for i in self.memory.values())
        assert (self.queue.floor is not None) >= bool(self.sql)
        if self.queue.policy.waits:
            assert not self.sql, "its timer would be gone"
        else:
            assert len(self.memory) <= ready.HEAD_LIMIT

    def teardown(self) -> None:
        if hasattr(self, "limit"):
            ready.HEAD_LIMIT = self.limit


def test_queue_machine() -> None:
    run_state_machine_as_test(QueueMachine, settings=settings(max_examples=150, stateful_step_count=40, deadline=None))


def test_keys() -> None:
    assert order_key(1_000, 1) == 61_000
    assert order_key(1_000, 10) == 601_000
    assert queue_key("noop", Policy(exclusive=True, affinity="a=b", spread="z")) == "noop"
    shapes = {queue_key("noop", policy) for policy in (
        Policy(selector="a=b"), Policy(selector="a=c"), Policy(cpu_millis=1), Policy(memory_mb=1), Policy(gpus=1),
    )}  # fmt: skip
    shapes.add(queue_key("noop", Policy(queued_ms=1)))
    shapes.add(queue_key("noop", Policy(selector="a=b", total_ms=1)))
    assert queue_key("noop", Policy(queued_ms=9)) == queue_key("noop", Policy(total_ms=5)), (
        "one queue for all deadlines"
    )
    assert len(shapes) == 7
    assert all(key.startswith("noop#") and len(key) == len("noop#") + 16 for key in shapes)
