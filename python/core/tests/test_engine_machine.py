"""The engine against its model (enginemodel.py), through any order of events, faults and recoveries."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Any

import pytest
from enginehands import HandRules, mostly, picks
from engineinputs import BEAT_MS, KINDS, RUN_STEPS, SHAPES, STATUSES, TASKS, WAITS
from enginekit import TENANT, task
from enginemodel import REFUSABLE, Model, refusable
from enginepost import PostedWorker, PostLab, Story
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from taskyard_core import ready
from taskyard_core.engine import Batch, Standing, sessions
from taskyard_core.engine.events import (
    CancelRun,
    Deregister,
    Hello,
    NewRun,
    NewTask,
    Refused,
    Register,
    StartRuns,
    Submit,
    WorkerFrame,
)
from taskyard_core.engine.sessions import standing
from taskyard_core.pauses import PauseScope
from taskyard_core.records import ENDED, TaskState

S = TaskState
AHEAD = 3
"""So many batches may be on their way into SQL."""
SMALL_HEAD = 6
"""Ready queues spill here beyond so few, so that spilling is nothing rare."""
TURNS = 30
"""After so many turns without a new event everything must have come to rest."""


@dataclass
class Flight:
    """A sealed batch, the pins that its events hold, and the instances that they retried."""

    batch: Batch
    pinned: list[str]
    retried: set[str]


class EngineMachine(HandRules):
    """Random histories, told to a story when they end."""

    def __init__(self, story: Story | None = None) -> None:
        super().__init__()
        self.story = story or Story()

    @initialize(
        seed=st.integers(0, 1_000),
        fleet=st.lists(SHAPES, min_size=1, max_size=2),
        kinds=st.lists(st.sampled_from(TASKS), min_size=1, max_size=6),
        run=st.booleans(),
    )
    def begin(self, seed: int, fleet: list[dict[str, Any]], kinds: list[dict[str, Any]], run: bool) -> None:
        self.head_limit = ready.HEAD_LIMIT
        ready.HEAD_LIMIT = SMALL_HEAD
        self.lab = PostLab()
        self.lab.random.seed(seed)
        self.lab.plan("wf", RUN_STEPS)
        self.model = Model(self.lab)
        self.sealed: deque[Flight] = deque()  # on their way into SQL, the oldest first
        self.operations = []
        self.pinned, self.retried = [], set()
        for number, shape in enumerate(fleet):
            self._register(number, shape if number else {**shape, "types": ("*",)})
        self._come_back()
        for kind in kinds:
            self._submit(kind, 1)
        if run:
            self._start_run()
        self._arrive()

    # Clients.

    @rule(
        kind=st.sampled_from(TASKS), count=st.integers(1, 4), request=st.none() | st.integers(0, 1),
        keyed=st.booleans(), arrives=mostly,
    )  # fmt: skip
    def submit(self, kind: dict[str, Any], count: int, request: int | None, keyed: bool, arrives: bool) -> None:
        self._submit(kind, count, request, keyed=keyed)
        self._arrive(arrives)

    def _submit(self, kind: dict[str, Any], count: int, request: int | None = None, *, keyed: bool = False) -> None:
        tasks: list[NewTask | Refused] = []
        for n in range(count):
            parts = {name: value for name, value in kind.items() if name != "policy_parts"}
            new = task(**parts, **kind["policy_parts"])
            if request is not None and keyed:
                new.idempotency_key = f"{request}-{n}"
            elif request is not None:
                new.request_id, new.request_hash = f"{request}-{n}", b"0" * 15 + bytes([TASKS.index(kind)])
            tasks.append(new)
        self.lab.engine.handle(Submit("submit", TENANT, tasks, self.lab.known()), self.lab.now)

    @rule(arrives=mostly)
    def start_run(self, arrives: bool) -> None:
        self._start_run()
        self._arrive(arrives)

    def _start_run(self) -> None:
        self.lab.engine.handle(StartRuns("run", TENANT, [NewRun("wf", 1)]), self.lab.now)

    @rule(pick=picks)
    def cancel_run(self, pick: int) -> None:
        live = sorted(self.lab.engine.cluster.runs)
        if live:
            self.lab.engine.handle(CancelRun("cancel", live[pick % len(live)], "enough"), self.lab.now)

    # Workers.

    def _register(self, number: int, shape: dict[str, Any]) -> None:
        worker = self.lab.workers.get(f"w{number}")
        if worker is None:
            parts = dict(shape)
            worker = self.lab.make_worker(f"w{number}", *parts.pop("types"), **parts)
        self.lab.engine.handle(Register(worker, worker.id, TENANT, worker.registration), self.lab.now)

    def _come_back(self) -> None:
        """Every worker without a stream opens one, in the session that it has or in a new one."""
        away = [worker for worker in self.lab.workers.values() if worker.stream is None]
        for worker in away:
            if standing(self.lab.engine.cluster, worker.id, worker.epoch) > Standing.NO_STREAM:
                self.lab.engine.handle(Register(worker, worker.id, TENANT, worker.registration), self.lab.now)
        self._arrive()
        for worker in away:
            worker.hello()
        self._arrive()

    def _worker(self, pick: int) -> PostedWorker | None:
        known = [worker for worker in self.lab.workers.values() if worker.epoch]
        return known[pick % len(known)] if known else None

    @rule(number=st.integers(0, 3), shape=SHAPES)
    def register(self, number: int, shape: dict[str, Any]) -> None:
        self._register(number, shape)

    @rule()
    def come_back(self) -> None:
        self._come_back()

    @rule(pick=picks)
    def open_stream(self, pick: int) -> None:
        worker = self._worker(pick)
        if worker is not None:
            worker.hello()

    @precondition(lambda self: self.lab.connected())
    @rule(pick=picks)
    def open_stream_that_is_overtaken(self, pick: int) -> None:
        """What a worker says as it opens a stream arrives after it has opened another and was given work on that."""
        connected = self.lab.connected()
        worker = connected[pick % len(connected)]
        worker.hello()
        late = worker.stream, self.lab.mail.pop(worker.stream)
        worker.hello()
        self._arrive()
        self.lab.mail.update([late])

    @precondition(lambda self: self.lab.connected())
    @rule(pick=picks)
    def break_stream(self, pick: int) -> None:
        connected = self.lab.connected()
        connected[pick % len(connected)].drop_stream()

    @rule(pick=picks)
    def read_frame(self, pick: int) -> None:
        waiting = [worker for worker in self.lab.workers.values() if worker.inbox]
        if waiting:
            waiting[pick % len(waiting)].read()

    @precondition(lambda self: self.lab.held())
    @rule(pick=picks, arrives=mostly)
    def start(self, pick: int, arrives: bool) -> None:
        held = self.lab.held()
        worker, id = held[pick % len(held)]
        if worker.may_run(id):
            worker.start(id)
        self._arrive(arrives)

    @precondition(lambda self: self.lab.held())
    @rule(pick=picks, status=st.sampled_from(STATUSES), kind=st.sampled_from(KINDS), arrives=mostly)
    def finish(self, pick: int, status: int, kind: str, arrives: bool) -> None:
        held = self.lab.held()
        worker, id = held[pick % len(held)]
        if worker.may_run(id):
            self._finish(worker, id, status, kind, '{"v": 1}' if pick % 2 else "")
        self._arrive(arrives)

    def _finish(self, worker: PostedWorker, id: str, status: int, kind: str = "", output: str = '{"v": 1}') -> None:
        self.model.told.append((worker.id, worker.finish(id, status, error_kind=kind, output_json=output)))

    @rule(
        kind=st.none() | st.sampled_from(TASKS), count=st.integers(1, 6), failing=st.integers(0, 3), final=st.booleans()
    )
    def work(self, kind: dict[str, Any] | None, count: int, failing: int, final: bool) -> None:
        """A good while: tasks or a run come, workers start and finish much of what they hold, one attempt fails."""
        if kind is None:
            self._start_run()
        else:
            self._submit(kind, count // 2)
        self._come_back()
        for number in range(count):
            for worker, id in self.lab.held()[:1]:
                if worker.may_run(id):
                    worker.start(id)
                    status = S.FAILED if number == failing else S.SUCCESS
                    self._finish(worker, id, status, "INVALID_INPUT" if final else "")
            self._arrive()

    @precondition(lambda self: self.lab.held())
    @rule(pick=picks, number=st.integers(1, 3), data=st.text(max_size=3))
    def checkpoint(self, pick: int, number: int, data: str) -> None:
        held = self.lab.held()
        worker, id = held[pick % len(held)]
        worker.checkpoint(id, number, data)

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

    @rule(pick=picks, types=st.none() | st.sampled_from((("*",), ("b",))), back=mostly)
    def restart_worker(self, pick: int, types: tuple[str, ...] | None, back: bool) -> None:
        """A worker is killed: it forgets what it held and keeps its spool; it may offer other types now."""
        worker = self._worker(pick)
        if worker is None:
            return
        worker.forget()
        if types is not None:
            worker.registration = replace(worker.registration, capabilities=types)
        self.lab.engine.handle(Register(worker, worker.id, TENANT, worker.registration), self.lab.now)
        if back:
            self._come_back()

    # The network, time, the database.

    def _deliver(self, pick: int) -> bool:
        """Lets one event of a worker arrive. Returns False when none is on its way."""
        streams = [stream for stream, posted in self.lab.mail.items() if posted]
        if not streams:
            return False
        event = self.lab.mail[streams[pick % len(streams)]].pop(0)
        verdict = self.lab.engine.handle(event, self.lab.now)
        if isinstance(event, Hello) and verdict == Standing.GOOD:
            self.model.note_hello(event)
        return True

    @rule(pick=picks, count=st.integers(1, 5))
    def deliver(self, pick: int, count: int) -> None:
        for _ in range(count):
            self._deliver(pick)

    @rule()
    def arrive(self) -> None:
        self._arrive()

    def _arrive(self, arrives: bool = True) -> None:
        """All that is on its way arrives, and what follows from it; then everything has come to rest."""
        for _ in range(TURNS if arrives else 0):
            while self._deliver(0):
                pass
            while self.sealed:
                self._commit()
            batch = self._seal()
            self._commit()
            if not (self.lab.read_all() or batch.changes.revision or batch.answers or batch.frames or batch.closes):
                return
        assert not arrives, "it does not come to rest"

    def _tick(self, ms: int) -> None:
        self.lab.now += ms
        self.lab.engine.tick(self.lab.now)
        self.model.leases_have_ended()

    @rule(ms=st.sampled_from(WAITS), stopped=st.booleans())
    def tick(self, ms: int, stopped: bool) -> None:
        """Time leaps; a leader that was stopped meanwhile learns of it with the next event."""
        self.lab.now += ms
        if not stopped:
            self._tick(0)

    @rule(beats=st.integers(0, 7), some=st.booleans())
    def time_passes(self, beats: int, some: bool) -> None:
        """Time in which workers live: the first of those that are connected, or all."""
        self._live(beats, lambda: self.lab.connected()[: 1 if some else None])

    @precondition(lambda self: self.lab.held())
    @rule(pick=picks, beats=st.integers(1, 7))
    def fall_silent(self, pick: int, beats: int) -> None:
        """A worker that runs something is heard of no more, while the others live and have room for it."""
        held = self.lab.held()
        silent, id = held[pick % len(held)]
        if silent.may_run(id):
            silent.start(id)
        self._arrive()
        self._live(beats, lambda: [worker for worker in self.lab.connected() if worker is not silent])

    @precondition(lambda self: self.lab.held())
    @rule(pick=picks, beats=st.integers(1, 3), says=st.booleans(), more=st.booleans())
    def hold_loop(self, pick: int, beats: int, says: bool, more: bool) -> None:
        """A handler holds the event loop of a worker, of which a thread may say so; the others live meanwhile."""
        held = self.lab.held()
        stuck, id = held[pick % len(held)]
        stuck.stuck = True
        if says and stuck.may_run(id):
            stuck.speak_for(id)
        if more:
            self._submit(TASKS[pick % len(TASKS)], 2)
        self._live(beats, lambda: [worker for worker in self.lab.connected() if worker is not stuck])
        stuck.stuck = False
        self._arrive()

    def _live(self, beats: int, living: Callable[[], list[PostedWorker]]) -> None:
        for _ in range(beats):
            self._tick(BEAT_MS)
            for worker in living():
                worker.beat()
                worker.frame()
            self._arrive()

    @precondition(lambda self: len(self.sealed) < AHEAD)
    @rule()
    def seal(self) -> None:
        self._seal()

    def _seal(self) -> Batch:
        batch = self.lab.seal()
        self.sealed.append(Flight(batch, self.pinned, self.retried))
        self.pinned, self.retried = [], set()
        self.model.note_sealed(batch)
        self.model.dispatch_is_complete()
        self.model.exclusive_attempts_are_alone()
        return batch

    @precondition(lambda self: self.sealed)
    @rule()
    def commit(self) -> None:
        self._commit()

    def _commit(self) -> None:
        flight = self.sealed.popleft()
        for id in flight.pinned:
            self.lab.engine.cluster.unpin(id)
        self._apply(flight)
        self.lab.carry_out(flight.batch)
        self._answer(flight.batch)
        if not self.sealed:
            self.lab.refill(limit=4)

    @rule(kind=picks, number=picks, first=st.sampled_from(("", "task", "run", "cancel")), arrives=mostly)
    def refuse(self, kind: int, number: int, first: str, arrives: bool) -> None:
        """The database refuses a row of the oldest batch; those behind it are sealed already."""
        if first == "task":
            self._submit(TASKS[number % len(TASKS)], 2)
        elif first == "run":
            self._start_run()
        elif first == "cancel":
            self.cancel_run(number)
        if not self.sealed:
            self._seal()
        batch = self.sealed[0].batch
        kinds = [name for name in REFUSABLE if refusable(batch, name)]
        if not kinds:
            return
        name = kinds[kind % len(kinds)]
        rows = refusable(batch, name)
        row = rows[number % len(rows)]
        self.lab.seen[f"refused {name}"] += 1
        self.model.note_refused(name, row)
        self.lab.engine.drop_refused(batch, name, (row["tenant"], row["id"]), "no")
        self._arrive(arrives)

    @rule(written=st.integers(0, AHEAD), back=mostly)
    def crash(self, written: int, back: bool) -> None:
        """The leader dies, when so many of the commits in flight were written; nobody was told of them."""
        for flight in islice(self.sealed, written):
            self._apply(flight)
        self._lose_what_is_on_its_way()
        done = len(self.lab.batches)
        self.lab.recover()
        for batch in self.lab.batches[done:]:
            self._answer(batch)
        self.model.note_tables()
        if back:
            self._come_back()

    def _lose_what_is_on_its_way(self) -> None:
        for gone in (self.sealed, self.operations, self.pinned, self.retried, self.lab.mail):
            gone.clear()
        for worker in self.lab.workers.values():
            worker.inbox.clear()
        self.lab.engine.seal()  # nothing of it is committed

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
            self.model.check(flight.batch for flight in self.sealed)

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        self.story.seen += self.lab.seen
        self.story.attempts.append(self.lab.seen["assignment sent"])
        try:
            self._run_to_the_end()
        finally:
            ready.HEAD_LIMIT = self.head_limit

    def _run_to_the_end(self) -> None:
        """With workers that do their work, everything ends: nothing can be stuck."""
        self.crash(written=1, back=False)
        lab = self.lab
        lab.posting = False
        lab.workers.clear()
        for pause in list(lab.engine.cluster.pauses):
            lab.resume(pause.scope, pause.name)
        for name in ("w0", "end"):
            lab.worker(name, slots=5, labels={"zone": "x"}, cpu_millis=5_000)
        for _ in range(400):
            lab.settle()
            self._finish_all()
            self._complete_all()
            self.model.check(())
            if not lab.engine.cluster.live_count() and not lab.engine.cluster.runs:
                break
            lab.wait(5_000)
        self.model.note_commit(set())
        live = [i for i in lab.tables.instances.values() if i["phase"] != ENDED]
        assert not live, f"stuck: {[(i['id'], TaskState(i['state']).name, i['worker_id']) for i in live]}"
        assert all(run["ended_at"] is not None for run in lab.tables.runs.values())

    def _finish_all(self) -> None:
        workers = list(self.lab.workers.values())
        while any(worker.held for worker in workers):
            for worker in workers:
                for id in list(worker.held):
                    self._finish(worker, id, S.SUCCESS)
            self.lab.settle()
        for worker in workers:
            worker.beat()
            worker.frame()  # it has room again for what it was fenced from

    def _complete_all(self) -> None:
        for instance in [i for i in self.lab.engine.cluster.instances.values() if i.state == S.DEFERRED]:
            self.model.completed.add((instance.id, instance.token))
            self.lab.complete(instance.id, instance.token)


EXAMPLES = int(os.environ.get("TASKYARD_MACHINE_EXAMPLES", "400"))
TIMEOUT_S = 900
"""Room for Hypothesis to find the shortest history that fails, which it gives five minutes."""
NO_HEALTH_CHECKS = [HealthCheck(check) for check in HealthCheck]
HAPPENS = (
    "instance QUEUED to ASSIGNED",
    "instance ASSIGNED to RUNNING",
    "instance ASSIGNED to QUEUED",
    "instance RUNNING to SUCCESS",
    "instance RUNNING to FAILED",
    "instance RUNNING to PENDING",
    "instance RUNNING to QUEUED",
    "instance PENDING to QUEUED",
    "instance RUNNING to CANCELLING",
    "instance CANCELLING to CANCELLED",
    "worker HEALTHY to UNHEALTHY",
    "worker EXPECTED to HEALTHY",
    "run RUNNING to FAILED",
    "run RUNNING to CANCELLING",
    "result recorded",
    "result not wanted",
    "retried by hand",
    "terminate by hand",
    "requeue by hand",
    "prioritize by hand",
    "run taken up",
    "instance RUNNING to DEFERRED",
    "instance DEFERRED to SUCCESS",
    "completed from outside",
    "marked SUCCESS",
    "marked SKIPPED",
    *(f"paused {scope.name}" for scope in PauseScope),
    "resumed",
    "submission repeated",
    "told to stop: cancelled",
    "told to stop: timeout",
    "told to stop: fenced",
    "exclusive attempt awaited",
    "worker sent nothing: late",
    "worker sent nothing: held",
    "refilled from SQL",
    "take-over with attempts in flight",
    "take-over with a retry that waits",
    *(f"refused {name}" for name in REFUSABLE),
)
"""What must occur in the examples of a run, or they are about nothing."""


def play(examples: int, steps: int, phases: Sequence[Phase] = tuple(Phase)) -> Story:
    """Runs the machine and returns what its examples were about."""
    story = Story()
    run_state_machine_as_test(
        lambda: EngineMachine(story),  # type: ignore[arg-type]  # a function will do, its documentation says
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=NO_HEALTH_CHECKS,
            phases=phases,
        ),
    )
    return story


@pytest.mark.timeout(TIMEOUT_S)
def test_engine_machine() -> None:
    story = play(EXAMPLES, 60)
    missing = [name for name in HAPPENS if not story.seen[name]]
    assert not missing, f"not one of {len(story.attempts)} examples had {missing}: {story.seen.most_common()}"
    assert median(story.attempts) >= 3, f"examples have too few attempts: {sorted(story.attempts)}"
    assert story.seen["result recorded"] >= EXAMPLES


def test_engine_machine_notices_that_a_stuck_worker_is_sent_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "stall", lambda *_: None)
    with pytest.raises(AssertionError, match="is sent more of what it does not take up"):
        play(EXAMPLES, 60, (Phase.generate,))


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_S)
def test_engine_machine_long() -> None:
    play(1_500, 80)
