"""The engine against its model (enginemodel.py), through any order of events, faults and recoveries."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
from enginekit import START_MS, TENANT, StepSpec, retrying, task
from enginemodel import Model
from enginepost import PostedWorker, PostLab
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from taskyard_core import ready
from taskyard_core.engine import Batch
from taskyard_core.engine.events import (
    Cancel,
    CancelRun,
    Deregister,
    NewRun,
    NewTask,
    Refused,
    Register,
    Retry,
    StartRuns,
    Submit,
    WorkerFrame,
)
from taskyard_core.records import ENDED, TaskState

S = TaskState
AHEAD = 3
"""So many batches may be on their way into SQL."""
SMALL_HEAD = 6
"""Ready queues spill here beyond so few, so that spilling is nothing rare."""

TASKS: tuple[dict[str, Any], ...] = (
    {"policy_parts": {}},
    {"policy_parts": {"retry": retrying(2, 500)}, "task_type": "b"},
    {"policy_parts": {"retry": retrying(3, 0), "exclusive": True}, "task_type": "b"},
    {"policy_parts": {"selector": "zone=x"}},
    {"policy_parts": {"cpu_millis": 600, "queued_ms": 20_000}},
    {"policy_parts": {"total_ms": 90_000, "retry": retrying(5, 2_000)}},
    {"policy_parts": {"run_ms": 3_000, "start_ms": 1_000}, "priority": 1},
)
WORKERS: tuple[dict[str, Any], ...] = (
    {"types": ("*",), "slots": 2},
    {"types": ("*",), "slots": 1, "labels": {"zone": "x"}, "cpu_millis": 1_000},
    {"types": ("b",), "slots": 3},
    {"types": ("noop",), "slots": 2, "cpu_millis": 1_000},
)
STATUSES = (S.SUCCESS, S.SUCCESS, S.FAILED, S.TIMEOUT, S.CANCELLED, 11, 12)
WAITS = (0, 1, 15, 400, 1_000, 5_000, 11_000, 31_000, 61_000, 3_600_000, 25 * 3_600_000)
RUN_STEPS: tuple[StepSpec, ...] = (
    ("a", [], {}),
    ("b", ["a"], {"retry": retrying(1), "params": {"x": "${steps.a.output.v}"}}),
    ("c", ["a"], {"rule": "all_done"}),
    ("d", ["b", "c"], {"rule": "one_failed"}),
    ("e", ["b", "c"], {"rule": "none_failed"}),
    ("f", ["d", "e"], {"rule": "one_success"}),
)
picks = st.integers(0, 1_000)


@dataclass
class Flight:
    """A sealed batch, the pins that its events hold, and the instances that they retried."""

    batch: Batch
    pinned: list[str]
    retried: set[str]


class EngineMachine(RuleBasedStateMachine):
    """Random histories."""

    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed: int) -> None:
        self.head_limit = ready.HEAD_LIMIT
        ready.HEAD_LIMIT = SMALL_HEAD
        self.lab = PostLab()
        self.lab.random.seed(seed)
        self.lab.plan("wf", RUN_STEPS)
        self.model = Model(self.lab)
        self.sealed: deque[Flight] = deque()  # on their way into SQL, the oldest first
        self.operations: list[tuple[Any, list[str]]] = []  # events whose rows are read, and what they pinned
        self.pinned: list[str] = []  # by events that are handled and not sealed yet
        self.retried: set[str] = set()  # since the last seal

    # Clients.

    @rule(kind=st.sampled_from(TASKS), count=st.integers(1, 4), request=st.none() | st.integers(0, 5))
    def submit(self, kind: dict[str, Any], count: int, request: int | None) -> None:
        tasks: list[NewTask | Refused] = []
        for n in range(count):
            parts = {name: value for name, value in kind.items() if name != "policy_parts"}
            new = task(**parts, **kind["policy_parts"])
            if request is not None:
                new.request_id, new.request_hash = f"{request}-{n}", b"0" * 15 + bytes([TASKS.index(kind)])
            tasks.append(new)
        self.lab.engine.handle(Submit("submit", TENANT, tasks), self.lab.now)

    @rule()
    def start_run(self) -> None:
        self.lab.engine.handle(StartRuns("run", TENANT, [NewRun("wf", 1)]), self.lab.now)

    @rule(pick=picks, again=st.booleans())
    def ask_about(self, pick: int, again: bool) -> None:
        """A caller wants an instance cancelled or retried: it is pinned and its rows are read."""
        ids = sorted(self.lab.tables.instances)
        if not ids:
            return
        id = ids[pick % len(ids)]
        c, tables = self.lab.engine.cluster, self.lab.tables
        c.pin(id)
        row = c.instances.get(id) or tables.instance(id)
        event: Any = Retry("retry", id, row) if again else Cancel("cancel", id, "enough", row)
        pins = [id]
        if again and row.run_id:
            c.pin(row.run_id)
            pins.append(row.run_id)
            if row.run_id not in c.runs:
                event.run_row = tables.run_row(row.run_id)
                event.run_instances = tables.steps(row.run_id)
        self.operations.append((event, pins))

    @precondition(lambda self: self.operations)
    @rule(pick=picks)
    def act_on(self, pick: int) -> None:
        """The rows are read: the event is handled."""
        event, pins = self.operations.pop(pick % len(self.operations))
        self.lab.engine.handle(event, self.lab.now)
        self.pinned += pins
        reply, value = self.lab.engine.cluster.batch.answers[-1]
        assert reply == event.reply
        if isinstance(event, Retry) and not isinstance(value, Refused):
            self.retried.add(event.task_id)
            instance = self.lab.engine.cluster.find(event.task_id)
            assert instance is not None
            self.model.reopened.add(instance.run_id)

    @rule(pick=picks)
    def cancel_run(self, pick: int) -> None:
        live = sorted(self.lab.engine.cluster.runs)
        if live:
            self.lab.engine.handle(CancelRun("cancel", live[pick % len(live)], "enough"), self.lab.now)

    # Workers.

    @rule(pick=st.integers(0, len(WORKERS) - 1))
    def register(self, pick: int) -> None:
        worker = self.lab.workers.get(f"w{pick}")
        if worker is None:
            shape = dict(WORKERS[pick])
            made = self.lab.make_worker(f"w{pick}", *shape.pop("types"), **shape)
            worker = PostedWorker(self.lab, made.id, made.registration)
            worker.inbox = []
            self.lab.workers[worker.id] = worker
        self.lab.engine.handle(Register(worker, worker.id, TENANT, worker.registration), self.lab.now)

    def _worker(self, pick: int) -> PostedWorker | None:
        known = [worker for worker in self.lab.workers.values() if worker.epoch]
        return known[pick % len(known)] if known else None  # type: ignore[return-value]

    @rule(pick=picks)
    def open_stream(self, pick: int) -> None:
        worker = self._worker(pick)
        if worker is not None:
            worker.hello()

    @rule(pick=picks)
    def break_stream(self, pick: int) -> None:
        worker = self._worker(pick)
        if worker is not None and worker.stream is not None:
            worker.drop_stream()

    @rule(pick=picks)
    def read_frame(self, pick: int) -> None:
        waiting = [w for w in self.lab.workers.values() if w.inbox]  # type: ignore[attr-defined]
        if waiting:
            waiting[pick % len(waiting)].read()  # type: ignore[attr-defined]

    @rule(pick=picks)
    def read_all(self, pick: int) -> None:
        worker = self._worker(pick)
        while worker is not None and worker.inbox:
            worker.read()
        if worker is not None and worker.stream is not None:
            worker.frame()

    @rule(pick=picks, which=picks)
    def start(self, pick: int, which: int) -> None:
        worker = self._worker(pick)
        if worker is not None and worker.held and worker.stream is not None:
            worker.start(sorted(worker.held)[which % len(worker.held)])

    @rule(pick=picks, which=picks, status=st.sampled_from(STATUSES), kind=st.sampled_from(("", "INVALID_INPUT")))
    def finish(self, pick: int, which: int, status: int, kind: str) -> None:
        worker = self._worker(pick)
        if worker is None or not worker.held or worker.stream is None:
            return
        id = sorted(worker.held)[which % len(worker.held)]
        output = '{"v": 1}' if which % 2 else ""
        self.model.told.append((worker.id, worker.finish(id, status, error_kind=kind, output_json=output)))

    @rule(pick=picks, which=picks, data=st.text(max_size=3))
    def checkpoint(self, pick: int, which: int, data: str) -> None:
        worker = self._worker(pick)
        if worker is not None and worker.held and worker.stream is not None:
            worker.checkpoint(sorted(worker.held)[which % len(worker.held)], which % 3 + 1, data)

    @precondition(lambda self: self.model.told)
    @rule(pick=picks, other=st.booleans())
    def tell_again(self, pick: int, other: bool) -> None:
        """A result comes twice, late, or from a worker that never had the task."""
        id, result = self.model.told[pick % len(self.model.told)]
        worker = self._worker(pick) if other else self.lab.workers[id]
        if worker is not None:
            self.lab.engine.handle(WorkerFrame(worker.id, worker.epoch, results=[result], reply="acks"), self.lab.now)

    @rule(pick=picks, all_of_them=st.booleans())
    def beat(self, pick: int, all_of_them: bool) -> None:
        worker = self._worker(pick)
        if worker is not None:
            worker.beat(*([] if all_of_them else sorted(worker.held)[:1]))

    @rule(pick=picks)
    def drain(self, pick: int) -> None:
        worker = self._worker(pick)
        if worker is not None and worker.stream is not None:
            worker.frame(draining=True)

    @rule(pick=picks)
    def deregister(self, pick: int) -> None:
        worker = self._worker(pick)
        if worker is not None:
            worker.stream = None
            worker.held.clear()
            self.lab.engine.handle(Deregister("left", worker.id, worker.epoch), self.lab.now)

    @rule(pick=picks)
    def restart_worker(self, pick: int) -> None:
        """A worker is killed: it forgets what it held and keeps its spool."""
        worker = self._worker(pick)
        if worker is not None:
            worker.held.clear()
            worker.stream = None
            worker.epoch = 0
            self.lab.engine.handle(Register(worker, worker.id, TENANT, worker.registration), self.lab.now)

    # The network, time, the database.

    @rule(pick=picks, count=st.integers(1, 5))
    def deliver(self, pick: int, count: int) -> None:
        for _ in range(count):
            streams = [stream for stream, posted in self.lab.mail.items() if posted]
            if not streams:
                return
            event = self.lab.mail[streams[pick % len(streams)]].pop(0)
            self.lab.engine.handle(event, self.lab.now)

    @rule(ms=st.sampled_from(WAITS))
    def tick(self, ms: int) -> None:
        self.lab.now += ms
        self.lab.engine.tick(self.lab.now)

    @precondition(lambda self: len(self.sealed) < AHEAD)
    @rule()
    def seal(self) -> None:
        self.sealed.append(Flight(self.lab.seal(), self.pinned, self.retried))
        self.pinned, self.retried = [], set()
        self.model.dispatch_is_complete()

    @precondition(lambda self: self.sealed)
    @rule()
    def commit(self) -> None:
        flight = self.sealed.popleft()
        for id in flight.pinned:
            self.lab.engine.cluster.unpin(id)
        self._apply(flight)
        self.lab.carry_out(flight.batch)
        self._answer(flight.batch)
        if not self.sealed:
            self.lab.refill(limit=4)

    @precondition(lambda self: self.sealed)
    @rule(kind=st.sampled_from(["instance_inserts", "run_inserts", "run_updates"]), number=st.integers(0, 3))
    def refuse(self, kind: str, number: int) -> None:
        """The database refuses a row of the oldest batch; those behind it are sealed already."""
        batch = self.sealed[0].batch
        rows = getattr(batch.changes, kind)
        if number < len(rows):
            self.lab.engine.drop_refused(batch, kind, rows[number][:2], "no")

    @rule()
    def settle(self) -> None:
        for _ in range(3):
            while self.sealed:
                self.commit()
            self.seal()
            self.commit()

    @rule(written=st.integers(0, AHEAD))
    def crash(self, written: int) -> None:
        """The leader dies, when so many of the commits in flight were written; nobody was told of them."""
        for flight in islice(self.sealed, written):
            self._apply(flight)
        self.sealed.clear()
        self.operations.clear()
        self.pinned.clear()
        self.retried.clear()
        self.lab.mail.clear()
        for worker in self.lab.workers.values():
            worker.inbox.clear()  # type: ignore[attr-defined]
        self.lab.engine.seal()  # nothing of it is committed
        done = len(self.lab.batches)
        self.lab.recover()
        for batch in self.lab.batches[done:]:
            self._answer(batch)
        self.model.note_tables()

    # What becomes of a batch, and the end.

    def _apply(self, flight: Flight) -> None:
        self.lab.write(flight.batch)
        self.model.note_commit(flight.retried)

    def _answer(self, batch: Batch) -> None:
        for reply, value in batch.answers:
            if isinstance(reply, PostedWorker):
                reply.epoch = value.epoch
        self.model.note_answers(batch)

    @invariant()
    def all_holds(self) -> None:
        """Everything that must hold after each step."""
        if hasattr(self, "model"):
            self.model.check(in_flight=bool(self.sealed))

    def teardown(self) -> None:
        if not hasattr(self, "lab"):
            return
        try:
            self._run_to_the_end()
        finally:
            ready.HEAD_LIMIT = self.head_limit

    def _run_to_the_end(self) -> None:
        """With workers that do their work, everything ends: nothing can be stuck."""
        self.crash(written=True)
        lab = self.lab
        lab.posting = False
        lab.workers.clear()
        for n in range(2):
            lab.worker(f"end{n}", slots=5, labels={"zone": "x"}, cpu_millis=5_000)
        for _ in range(400):
            lab.settle()
            while any(worker.held for worker in lab.workers.values()):
                for worker in lab.workers.values():
                    for id in list(worker.held):
                        self.model.told.append((worker.id, worker.finish(id, S.SUCCESS, output_json='{"v": 1}')))
                lab.settle()
            for worker in lab.workers.values():
                worker.beat()
            if not lab.engine.cluster.live_count() and not lab.engine.cluster.runs:
                break
            lab.wait(5_000)
        live = [i for i in lab.tables.instances.values() if i["phase"] != ENDED]
        assert not live, f"stuck: {[(i['id'], TaskState(i['state']).name, i['worker_id']) for i in live]}"
        assert all(run["ended_at"] is not None for run in lab.tables.runs.values())
        assert lab.now >= START_MS


EXAMPLES = int(os.environ.get("TASKYARD_MACHINE_EXAMPLES", "60"))


NO_HEALTH_CHECKS = [HealthCheck(check) for check in HealthCheck]


def test_engine_machine() -> None:
    run_state_machine_as_test(
        EngineMachine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=60, deadline=None, suppress_health_check=NO_HEALTH_CHECKS
        ),
    )


@pytest.mark.long
def test_engine_machine_long() -> None:
    run_state_machine_as_test(
        EngineMachine,
        settings=settings(
            max_examples=1_500, stateful_step_count=80, deadline=None, suppress_health_check=NO_HEALTH_CHECKS
        ),
    )
