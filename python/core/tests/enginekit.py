"""What tests of the engine stand on: an engine with its tables and workers, all in memory and in virtual time.

`enginetables` is the database. Not a test.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginetables import Fields, Tables

from taskyard_core.dag import Graph, TriggerRule
from taskyard_core.engine import Batch, Engine, Limits, Standing
from taskyard_core.engine.effects import Ack, CancelOrder
from taskyard_core.engine.events import (
    Accepted,
    Cancel,
    CancelRun,
    Complete,
    Deregister,
    Heartbeat,
    Hello,
    Mark,
    MarkStep,
    NewRun,
    NewTask,
    PauseWork,
    Prioritize,
    Progress,
    Refused,
    Register,
    Requeue,
    Result,
    ResumeWork,
    Retry,
    RetryRun,
    StartRuns,
    StreamClosed,
    Submit,
    WorkerFrame,
)
from taskyard_core.engine.recovery import passed_over, refill, refills
from taskyard_core.fleet import Registration
from taskyard_core.pauses import Pause, PauseScope
from taskyard_core.policy_codec import dump_policy
from taskyard_core.ready import HEAD_LIMIT
from taskyard_core.records import (
    Instance,
    Phase,
    Policy,
    RunState,
    TaskState,
)
from taskyard_core.retry import RetryPolicy
from taskyard_core.templates import compile_text, compile_value
from taskyard_core.workflow import StepPlan, WorkflowVersion

START_MS = 1_700_000_000_000
TENANT = "default"
S = TaskState


def retrying(attempts: int = 3, first_ms: int = 1_000, jitter: float = 0.0) -> RetryPolicy:
    """Returns a retry policy without randomness."""
    return RetryPolicy(max_attempts=attempts, first_delay_ms=first_ms, jitter=jitter)


@dataclass(eq=False)
class FakeWorker:
    """A worker by the protocol; its test says when it does what."""

    lab: Lab
    id: str
    registration: Registration
    tenant: str = TENANT
    epoch: int = 0
    stream: object | None = None
    received: int = 0
    credits: int = 0
    held: dict[str, str] = field(default_factory=dict)  # token by instance id
    spool: dict[str, Result] = field(default_factory=dict)  # by token: what is not acknowledged yet
    acks: list[Ack] = field(default_factory=list)
    cancels: list[CancelOrder] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    refused: str = ""
    lost: list[str] = field(default_factory=list)  # as the last heartbeat's answer says

    def register(self) -> FakeWorker:
        """Opens a new session."""
        answer = self.lab.ask(Register(object(), self.id, self.tenant, self.registration))
        self.epoch, self.refused = answer.epoch, answer.message
        return self

    def hello(self) -> Standing:
        """Opens the stream, tells of all that is held, and gives credits for every free slot."""
        self.stream = object()
        self.received = self.credits = 0
        held = list(self.held.items()) + [(result.task_id, token) for token, result in self.spool.items()]
        verdict = self.lab.handle(Hello(self.id, self.epoch, self.stream, held))
        self.frame(results=list(self.spool.values()))
        return verdict

    def connect(self) -> FakeWorker:
        """Registers and opens the stream; credits are for every free slot."""
        self.register()
        assert self.hello() == Standing.GOOD
        return self

    def frame(self, **parts: Any) -> Standing:
        """Says something on the stream, credits included."""
        free = self.registration.max_concurrency - len(self.held)
        if not parts.get("draining"):
            self.credits = max(self.credits, self.received + free)
        return self.lab.handle(WorkerFrame(self.id, self.epoch, credits=self.credits, stream=self.stream, **parts))

    def start(self, *ids: str) -> None:
        """Acknowledges the start of attempts."""
        self.frame(started=[(id, self.held[id]) for id in ids])

    def finish(self, id: str, status: int = S.SUCCESS, **parts: Any) -> Result:
        """Reports the end of an attempt and keeps it until it is acknowledged."""
        result = Result(id, self.held.pop(id), int(status), **parts)
        self.spool[result.token] = result
        self.frame(results=[result])
        return result

    def beat(self, *ids: str) -> Standing:
        """Sends a heartbeat that lists these attempts, or all that are held; gives up what the answer calls lost."""
        tokens = [self.held[id] for id in (ids or self.held)] + list(self.spool)
        verdict = self.lab.handle(Heartbeat(self.id, self.epoch, tokens))
        if verdict in (Standing.GOOD, Standing.NO_STREAM):
            self.lost = self.lab.engine.lost_tokens(self.id, tokens)
            self.held = {id: token for id, token in self.held.items() if token not in self.lost}
        return verdict

    def speak_for(self, *ids: str) -> Standing:
        """A thread says, while the event loop is held, that these attempts have started."""
        started = [self.held[id] for id in ids]
        return self.lab.handle(Heartbeat(self.id, self.epoch, [], started=started))

    def checkpoint(self, id: str, number: int, data: str) -> None:
        """Reports a checkpoint."""
        self.frame(progress=[Progress(id, self.held[id], checkpoint=data, checkpoint_number=number)])

    def drop_stream(self) -> None:
        """The stream breaks, and the scheduler sees it."""
        stream, self.stream = self.stream, None
        self.lab.handle(StreamClosed(self.id, stream or object()))

    def leave(self) -> Standing:
        """Deregisters."""
        self.held.clear()
        return self.lab.handle(Deregister(object(), self.id, self.epoch))

    def deliver(self, stream: object, going: Any) -> None:
        """Takes in a frame of the scheduler, if its stream is still the worker's."""
        if stream is not self.stream:
            return
        for ack in going.acks:
            self.acks.append(ack)
            self.spool.pop(ack.token, None)
        for order in going.cancels:
            self.cancels.append(order)
            if order.reason == "fenced" and self.held.get(order.task_id) == order.token:
                del self.held[order.task_id]
        for sent in going.assignments:
            self.received += 1
            self.held[sent.instance.id] = sent.token
            assert self.received <= self.credits, f"{self.id} got more than its credits"
            assert len(self.held) <= self.registration.max_concurrency, f"{self.id} got more than it has slots"
        self.checkpoints += [number for _, _, number in going.checkpoint_acks]


class Lab:
    """An engine, its tables and its workers, in virtual time."""

    def __init__(self, seed: int = 1, limits: Limits | None = None, term: int = 1) -> None:
        self.random = random.Random(seed)
        self.limits = limits or Limits()
        self.now = START_MS
        self.tables = Tables()
        self.workers: dict[str, FakeWorker] = {}
        self.plans: list[WorkflowVersion] = []
        self.moves: set[tuple[str, int, int]] = set()
        self.batches: list[Batch] = []
        self.answers: dict[int, Any] = {}
        self.names: dict[str, str] = {}
        self.engine = self._engine(term)
        self.engine.begin(self.now)

    def _engine(self, term: int) -> Engine:
        engine = Engine(
            term,
            self.tables.revision,
            random_bits=self.random.getrandbits,
            random=self.random.random,
            limits=self.limits,
        )
        engine.cluster.observe = lambda machine, before, to: self.moves.add((machine, int(before), int(to)))
        for plan in self.plans:
            engine.cluster.workflows[plan.tenant, plan.name, plan.version] = plan
        return engine

    # Events.

    def handle(self, event: Any) -> Standing:
        """Hands an event to the engine, now."""
        return self.engine.handle(event, self.now)

    def ask(self, event: Any) -> Any:
        """Hands an event to the engine and returns its answer, committed."""
        self.handle(event)
        self.settle()
        return self.answers.pop(id(event.reply))

    def submit(self, *tasks: NewTask | Refused, tenant: str = TENANT, atomic: bool = False, **more: Any) -> list[Any]:
        """Submits tasks and returns the outcomes."""
        answer: list[Any] = self.ask(Submit(object(), tenant, tasks, atomic=atomic, **more))
        return answer

    def add(self, task_type: str = "noop", *, tenant: str = TENANT, **parts: Any) -> str:
        """Submits one task and returns its id."""
        outcome = self.submit(task(task_type, **parts), tenant=tenant)[0]
        assert isinstance(outcome, Accepted)
        return outcome.id

    def cancel(self, id: str, reason: str = "enough", *, kill: bool = False) -> Any:
        """Cancels as the shell does: the row is read from SQL when the instance is not in memory."""
        return self.ask(Cancel(object(), id, reason, self.stored(id), kill))

    def retry(self, id: str) -> Any:
        """Retries as the shell does: with the rows of the instance and of its run when they are not in memory."""
        row = self.engine.cluster.instances.get(id) or self.stored(id)
        event = Retry(object(), id, row)
        if row is not None and row.run_id and row.run_id not in self.engine.cluster.runs:
            event.run_row = self.tables.run_row(row.run_id)
            event.run_instances = self.tables.steps(row.run_id)
        return self.ask(event)

    def requeue(self, id: str) -> Any:
        """Gives an instance back to its queue."""
        return self.ask(Requeue(object(), id, self.stored(id)))

    def prioritize(self, id: str, priority: int) -> Any:
        """Gives an instance another priority."""
        return self.ask(Prioritize(object(), id, priority, self.stored(id)))

    def retry_run(self, id: str, *from_steps: str) -> Any:
        """Takes up a run, as the shell does: with the rows of the run and its instances."""
        return self.ask(RetryRun(object(), id, from_steps, self.tables.run_row(id), self.tables.steps(id)))

    def mark(self, id: str, state: int, output: str = "", reason: str = "") -> Any:
        """Says how an instance has ended, as the shell does: with rows of what is not in memory."""
        row = self.engine.cluster.instances.get(id) or self.stored(id)
        event = Mark(object(), id, int(state), output, reason, row)
        if row is not None and row.run_id and row.run_id not in self.engine.cluster.runs:
            event.run_row = self.tables.run_row(row.run_id)
            event.run_instances = self.tables.steps(row.run_id)
        return self.ask(event)

    def mark_step(self, run: str, step: str, state: int, output: str = "", reason: str = "") -> Any:
        """Says how a step has ended."""
        rows = self.tables.run_row(run), self.tables.steps(run)
        return self.ask(MarkStep(object(), run, step, int(state), output, reason, *rows))

    def complete(self, id: str, token: str, status: int = S.SUCCESS, output: str = "", **error: str) -> Any:
        """Brings the result of an attempt from outside."""
        return self.ask(Complete(object(), id, token, int(status), output, row=self.stored(id), **error))

    def pause(self, scope: PauseScope, name: str = "", reason: str = "", tenant: str = TENANT) -> Any:
        """Holds something back."""
        tenant = "" if scope == PauseScope.ALL else tenant
        return self.ask(PauseWork(object(), Pause(tenant, scope, name, reason, "ann", self.now)))

    def resume(self, scope: PauseScope, name: str = "", tenant: str = TENANT) -> Any:
        """Lets something go on."""
        return self.ask(ResumeWork(object(), "" if scope == PauseScope.ALL else tenant, scope, name))

    def stored(self, id: str) -> Instance | None:
        """Returns an instance as SQL has it, if it is not in memory."""
        if id in self.engine.cluster.instances or id not in self.tables.instances:
            return None
        return self.tables.instance(id)

    def start_run(self, workflow: str, **parts: Any) -> str:
        """Starts a run of the first version and returns its id."""
        outcome = self.ask(StartRuns(object(), TENANT, [NewRun(workflow, 1, **parts)]))[0]
        assert isinstance(outcome, Accepted)
        return outcome.id

    def cancel_run(self, id: str, reason: str = "enough", *, kill: bool = False) -> Any:
        """Cancels a run."""
        return self.ask(CancelRun(object(), id, reason, kill))

    def plan(self, name: str, steps: Sequence[StepSpec], *, output: object = None, inputs: Any = ()) -> None:
        """Defines a workflow."""
        plan = make_plan(name, steps, output=output, inputs=inputs)
        self.plans.append(plan)
        self.engine.cluster.workflows[plan.tenant, plan.name, plan.version] = plan

    def worker(self, id: str = "w1", *types: str, slots: int = 10, tenant: str = TENANT, **parts: Any) -> FakeWorker:
        """Returns a connected worker."""
        worker = self.make_worker(id, *types, slots=slots, tenant=tenant, **parts)
        worker.connect()
        self.settle()
        return worker

    def make_worker(
        self, id: str, *types: str, slots: int = 10, tenant: str = TENANT, labels: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> FakeWorker:  # fmt: skip
        """Returns a worker that has not said anything."""
        registration = Registration(
            capabilities=types or ("*",),
            max_concurrency=slots,
            labels=tuple(sorted((labels or {}).items())),
            **parts,
        )
        worker = self.workers[id] = FakeWorker(self, id, registration, tenant)
        return worker

    # Commits.

    def seal(self) -> Batch:
        """Returns the next batch, neither committed nor carried out."""
        return self.engine.seal()

    def commit(self, batch: Batch) -> None:
        """Commits a batch and carries it out."""
        self.write(batch)
        self.carry_out(batch)

    def write(self, batch: Batch) -> None:
        """Has SQL and the engine know of a commit that nobody else has been told of."""
        if batch.changes.revision:
            self.tables.commit(batch.changes)
            self.engine.committed(batch)

    def carry_out(self, batch: Batch) -> None:
        """Brings frames to workers, answers to callers."""
        self.batches.append(batch)
        streams = {worker.stream: worker for worker in self.workers.values() if worker.stream is not None}
        for stream, going in batch.frames.items():
            if stream in streams:
                streams[stream].deliver(stream, going)
        for stream, reason in batch.closes:
            for worker in self.workers.values():
                if worker.id and (worker.stream is stream or stream not in streams):
                    worker.closed.append(reason)
                    break
            if stream in streams:
                streams[stream].stream = None
        for reply, value in batch.answers:
            self.answers[id(reply)] = value

    def settle(self) -> None:
        """Commits until nothing is left to be written or sent, as the shell's loop does."""
        while True:
            batch = self.seal()
            if batch.changes.revision or batch.answers or batch.frames or batch.closes:
                self.commit(batch)
            elif not any(queue.wants_refill() for queue in self.engine.cluster.queues.values()):
                return
            self.refill()

    def refill(self, limit: int = HEAD_LIMIT // 4) -> None:
        """Reads queues back from SQL that want it."""
        for queue in refills(self.engine.cluster):
            order, id = queue.floor or (0, "")
            held = passed_over(self.engine.cluster, queue)
            rows = self.tables.ready(queue.tenant, queue.key, (order, id[:-1]), limit, held)
            refill(self.engine.cluster, queue, rows, more=len(rows) == limit, held=held)

    # Time.

    def wait(self, ms: int) -> None:
        """Lets time pass; every deadline in it fires at its time."""
        end = self.now + ms
        while (due := self.engine.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            before = self.engine.cluster.timers.next_ms()
            self.engine.tick(self.now)
            self.settle()
            if self.engine.next_deadline() == before:
                self.now += 1
        self.now = max(self.now, end)
        self.engine.tick(self.now)
        self.settle()

    def jump(self, ms: int) -> None:
        """Lets time pass in one leap, as for a process that was stopped."""
        self.now += ms
        self.engine.tick(self.now)
        self.settle()

    # Recovery.

    def recover(self) -> None:
        """The leader dies; another takes over with what is committed. Workers have to connect anew."""
        self.engine = self._engine(self.engine.cluster.term + 1)
        engine, tables = self.engine, self.tables
        engine.begin(self.now)
        for row in tables.workers.values():
            engine.restore_worker(row)
        for row in tables.pauses.values():
            engine.restore_pause(row)
        for id, values in sorted(tables.runs.items()):
            if values["ended_at"] is None:
                engine.restore_run(tables.run_row(id), tables.steps(id))
        for phase in (Phase.PENDING, Phase.IN_FLIGHT):
            for instance in tables.of_phase(phase):
                engine.restore_instance(instance)
        self._restore_queues()
        self._restore_requests()
        for worker in self.workers.values():
            worker.stream = None
        self.refill()
        while any(queue.wants_refill() for queue in self.engine.cluster.queues.values()):
            self.refill()  # the shell goes on until there is room for no more
        self.settle()

    def _restore_queues(self) -> None:
        queues: dict[tuple[str, str], list[Instance]] = {}
        for instance in self.tables.of_phase(Phase.READY):
            queues.setdefault((instance.tenant, instance.queue), []).append(instance)
        for waiting in queues.values():
            self.engine.restore_queue(min(waiting, key=lambda i: (i.order_key, i.id)), len(waiting))

    def _restore_requests(self) -> None:
        for values in (*self.tables.instances.values(), *self.tables.runs.values()):
            if values["request_id"] is not None:
                known = (values["tenant"], values["request_id"], values["id"], values["request_hash"])
                self.engine.cluster.remember_request(*known)

    # Looks.

    def get(self, id: str) -> Any:
        """Returns an instance as committed; attributes are columns."""
        return _View(self.tables.instances[id])

    def run(self, id: str) -> Any:
        """Returns a run as committed."""
        return _View(self.tables.runs[id])

    def state(self, id: str) -> TaskState:
        """Returns the committed state."""
        return TaskState(self.tables.instances[id]["state"])

    def run_state(self, id: str) -> RunState:
        """Returns the committed state of a run."""
        return RunState(self.tables.runs[id]["state"])

    def steps(self, run_id: str) -> dict[str, TaskState]:
        """Returns the committed state of each step that has an instance."""
        return {i.step_id: TaskState(i.state) for i in self.tables.steps(run_id)}

    def step(self, run_id: str, step: str) -> str:
        """Returns the id of a step's instance."""
        return next(i.id for i in self.tables.steps(run_id) if i.step_id == step)

    def why(self, id: str) -> list[str]:
        """Returns the codes of the reasons why an instance waits, be it in memory or in SQL only."""
        reasons = self.engine.explain(id, self.now)
        row = self.stored(id)
        if reasons is None and row is not None and row.phase != Phase.ENDED:
            reasons = self.engine.explain_stored(row, self.now)
        return [reason.code for reason in reasons or []]


class _View:
    def __init__(self, values: Fields) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        return self._values[name]


def task(task_type: str = "noop", *, policy: Policy | None = None, **parts: Any) -> NewTask:
    """Returns a submission; parts that are fields of Policy go there."""
    names = {name for name in Policy.__dataclass_fields__ if name not in ("asks", "waits")}
    wanted = {name: parts.pop(name) for name in list(parts) if name in names}
    policy = policy or Policy(**wanted)
    return NewTask(task_type, policy, dump_policy(policy), **parts)


StepSpec = tuple[str, Sequence[str], dict[str, Any]]
"""Id, upstream, and: rule, type, params, input, and fields of Policy."""


def make_plan(name: str, specs: Sequence[StepSpec], *, output: object = None, inputs: Any = ()) -> WorkflowVersion:
    """Compiles a workflow of steps; every step's output is kept for templates."""
    graph = Graph([(id, up, TriggerRule(spec.get("rule", "all_success"))) for id, up, spec in specs])
    steps = tuple(_make_step(id, dict(spec)) for id, _, spec in specs)
    rendered = None if output is None else compile_value(output, "output")
    return WorkflowVersion(
        TENANT, name, 1, graph, steps, inputs=tuple(inputs), output=rendered, kept=frozenset(range(len(steps)))
    )


def _make_step(id: str, spec: dict[str, Any]) -> StepPlan:
    spec.pop("rule", None)
    task_type = spec.pop("type", "noop")
    params = spec.pop("params", {})
    value = spec.pop("input", None)
    priority = spec.pop("priority", 5)
    policy = Policy(**spec)
    templates = tuple((key, compile_text(text, f"params.{key}")) for key, text in params.items())
    constant = all(template.is_constant for _, template in templates)
    return StepPlan(
        id,
        task_type,
        priority=priority,
        policy=policy,
        policy_json=dump_policy(policy),
        params=templates,
        input=None if value is None else compile_value(value, "input"),
        constant_params=(json.dumps(params) if params else "") if constant else None,
        constant_input="" if value is None else None,
    )


def acks(lab: Lab, worker: str, *results: Result) -> list[int]:
    """Reports results outside the stream and returns the outcomes."""
    reply = object()
    fake = lab.workers[worker]
    lab.handle(WorkerFrame(fake.id, fake.epoch, results=results, reply=reply))
    lab.settle()
    return [ack.outcome for ack in lab.answers[id(reply)]]
