"""What clients, workers and servers of one history saw, checked as it happens against what is committed.

The rows themselves are the ledger's; what must hold once all is quiet is the checker's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from simulation.calls import Stream
from simulation.ledger import IN_FLIGHT, TERMINAL, Ledger, Offer, Record, short, story
from simulation.loop import Process
from simulation.trace import Trace
from taskyard.v1 import tasks_pb2, workers_pb2, workflows_pb2
from taskyard_core.records import TaskState as S

SUCCESS = tasks_pb2.TASK_STATUS_SUCCESS
RECORDED = workers_pb2.RESULT_OUTCOME_RECORDED


@dataclass(slots=True)
class Execution:
    """A handler's life in a worker. `ended_at` None: it lives."""

    task_id: str
    token: str
    worker: Process
    attempt: int
    exclusive: bool
    started_at: float
    ended_at: float | None = None
    checkpoints: int = 0  # how many the handler was told are stored


@dataclass(slots=True)
class Ask:
    """What a client asked for under a request id, and what it was answered."""

    what: str
    answers: set[str] = field(default_factory=set)
    refusals: set[str] = field(default_factory=set)


class History:
    """Takes in what is seen; a broken promise is a violation in the trace.

    Args:
        trace: The history's trace.
        clock: Virtual seconds.
        offers: What each worker has, by id.
    """

    def __init__(self, trace: Trace, clock: Callable[[], float], offers: dict[str, Offer]) -> None:
        self.trace = trace
        self.offers = offers
        self.ledger = Ledger(trace, clock, offers)
        self.ledger.alive = self._alive
        self.executions: dict[str, Execution] = {}
        self.by_task: dict[str, list[Execution]] = {}
        self.asks: dict[str, Ask] = {}
        self.keys: dict[str, set[str]] = {}
        self.accepted: dict[str, Ask] = {}  # by id of task or run
        self.reported: dict[str, tuple[int, str]] = {}  # by token: status and output
        self.completed: dict[str, Any] = {}  # by token: the output that came, or was to come, from outside
        self.seen_ends: dict[str, int] = {}  # what watchers were told, by id
        self.told_to_stop: set[str] = set()
        self.streams: dict[str, Stream] = {}  # the last that each worker opened
        self._clock = clock

    @property
    def term_at(self) -> float:
        """When the present term began."""
        return self.ledger.term_at

    def violate(self, promise: str, what: str) -> None:
        """Notes a broken promise."""
        self.trace.violate(promise, what)

    # Workers.

    def handler_entered(self, attempt: Any, worker: Process) -> None:
        """A handler begins: it must have a committed attempt here, the first time for this token."""
        token, task_id = attempt.token, attempt.task_id
        self.trace.note(worker.name, f"starts {short(task_id)} attempt {attempt.number} {token[:6]}")
        self.trace.facts["handlers entered"] += 1
        known = self.ledger.tokens.get(token)
        if known is None:
            self.violate("nothing leaves before its commit", f"{short(task_id)} runs with an uncommitted {token[:6]}")
        elif (known.task_id, known.worker_id) != (task_id, worker.name):
            self.violate("every execution had a valid attempt", f"{worker.name} runs {short(task_id)} with {known}")
        if token in self.executions:
            self.violate("every execution had a valid attempt", f"{token[:6]} of {short(task_id)} runs twice")
        execution = Execution(task_id, token, worker, attempt.number, attempt.assignment.exclusive, self._clock())
        others = self.by_task.setdefault(task_id, [])
        if execution.exclusive and any(other.ended_at is None for other in others):
            self.violate("exclusive means alone", f"two attempts of {short(task_id)} are alive")
        self._check_checkpoint(attempt, others)
        self.executions[token] = execution
        others.append(execution)
        self._check_slots(worker)

    def handler_left(self, token: str, how: str) -> None:
        """A handler has ended, or its process was killed."""
        execution = self.executions[token]
        if execution.ended_at is None:
            execution.ended_at = self._clock()
            self.trace.note(execution.worker.name, f"ends {short(execution.task_id)} {token[:6]} {how}")

    def _alive(self, token: str) -> bool:
        execution = self.executions.get(token)
        return execution is not None and execution.ended_at is None

    def worker_died(self, worker: Process) -> None:
        """What ran inside the worker's process is gone with it."""
        for token, execution in self.executions.items():
            if execution.worker is worker and execution.ended_at is None and not execution.exclusive:
                self.handler_left(token, "killed with its worker")

    def checkpoint_stored(self, token: str) -> None:
        """A handler was told that its checkpoint is stored."""
        self.executions[token].checkpoints += 1
        self.trace.facts["checkpoints stored"] += 1

    def _check_checkpoint(self, attempt: Any, others: list[Execution]) -> None:
        """An attempt finds at least what an earlier one was told is stored."""
        stored = [
            (other.attempt, other.checkpoints)
            for other in others
            if other.checkpoints and other.attempt < attempt.number
        ]
        if not stored:
            return
        text = attempt.stored_checkpoint
        found = tuple(json.loads(text)["at"]) if text else (0, 0)
        if found < max(stored):
            self.violate("checkpoints survive", f"{short(attempt.task_id)} found {found} of {max(stored)}")

    def _check_slots(self, worker: Process) -> None:
        offer = self.offers[worker.name]
        alive = sum(1 for each in self.executions.values() if each.worker is worker and each.ended_at is None)
        if alive > offer.slots:
            self.violate("slots are counted", f"{worker.name} has {offer.slots} slots and runs {alive}")

    # Streams.

    def heard(self, stream: Stream, frame: Message) -> None:
        """A scheduler got a worker's frame."""
        if not isinstance(frame, workers_pb2.AssignTaskRequest):
            return
        facts = stream.facts
        if frame.HasField("hello") and "held" not in facts:
            held = [each.attempt_token for each in frame.hello.attempts]
            facts.update(held=set(held), at=self._clock(), credits=0, sent=0, worker=frame.hello.worker_id)
            facts["told"] = False
            self.streams[frame.hello.worker_id] = stream
            self._note_server(stream, f"hello of {frame.hello.worker_id} holding {[each[:6] for each in held]}")
        facts["credits"] = max(facts.get("credits", 0), frame.credits)
        for result in frame.results:
            self.reported.setdefault(result.attempt_token, (result.status, result.output_json))
            status = tasks_pb2.TaskStatus.Name(result.status)[12:]
            self._note_server(stream, f"result {short(result.task_id)} {result.attempt_token[:6]} {status}")
        for started in frame.acknowledgements:
            self._note_server(stream, f"started {short(started.task_id)} {started.attempt_token[:6]}")

    def said(self, stream: Stream, frame: Message) -> None:
        """A scheduler gives out a frame."""
        if isinstance(frame, workers_pb2.AssignTaskResponse):
            self._said_to_worker(stream, frame)
        elif isinstance(frame, tasks_pb2.WatchTasksResponse):
            for task in frame.tasks:
                self._check_shown(task)

    def _said_to_worker(self, stream: Stream, frame: workers_pb2.AssignTaskResponse) -> None:
        facts = stream.facts
        if not facts["told"]:
            facts["told"] = True
            self._check_hello(stream)
        facts["sent"] += len(frame.assignments)
        if facts["sent"] > facts["credits"]:
            self.violate("credits are kept", f"{facts['worker']}: {facts['sent']} of {facts['credits']} were sent")
        for sent in frame.assignments:
            self._note_server(stream, f"assigns {short(sent.task_id)} {sent.attempt_token[:6]} to {facts['worker']}")
            if sent.attempt_token not in self.ledger.tokens:
                self.violate("nothing leaves before its commit", f"{sent.attempt_token[:6]} was sent uncommitted")
        for ack in frame.result_acks:
            self._check_ack(stream, ack)
        for order in frame.cancels:
            self.told_to_stop.add(order.attempt_token)
            self._note_server(stream, f"stops {short(order.task_id)} {order.attempt_token[:6]} {order.reason}")
            self.trace.facts[f"told to stop: {order.reason}"] += 1
        for kept in frame.checkpoint_acks:
            self._check_checkpoint_ack(kept)

    def _check_hello(self, stream: Stream) -> None:
        """What a worker did not say it holds is over by the time it is told anything; an exclusive attempt may live."""
        if stream.server is None or stream.server.name != self.ledger.holder:
            return
        facts = stream.facts
        for record in self.ledger.in_flight.get(facts["worker"], {}).values():
            said = record.policy.get("exclusive") or record.get("token") in facts["held"]
            if record.assigned_commit < facts["at"] and not said:
                self.violate("hello is the truth", f"{facts['worker']} does not hold {story(record)}")

    def _check_ack(self, stream: Stream, ack: workers_pb2.ResultAck) -> None:
        outcome = workers_pb2.ResultOutcome.Name(ack.outcome)[15:]
        self.trace.facts[f"results {outcome}"] += 1
        self._note_server(stream, f"acknowledges {short(ack.task_id)} {ack.attempt_token[:6]} {outcome}")
        record = self.ledger.instances.get(ack.task_id)
        if record is None or ack.outcome != RECORDED:
            return
        if record.get("token") == ack.attempt_token and record.state in IN_FLIGHT:
            self.violate("nothing leaves before its commit", f"{story(record)}: acknowledged and not committed")
        status, output = self.reported.get(ack.attempt_token, (0, ""))
        if status == SUCCESS and record.get("error_kind") != "RESULT_NOT_STORABLE":
            if record.state != S.SUCCESS or record.get("output_json") != output:
                self.violate("a reported result is kept", f"{story(record)}: a success was acknowledged")

    def _check_checkpoint_ack(self, ack: workers_pb2.CheckpointAck) -> None:
        text = self.ledger.checkpoints.get(ack.task_id)
        token = self.ledger.tokens.get(ack.attempt_token)
        stored = tuple(json.loads(text)["at"]) if text else (0, 0)
        if token is not None and stored < (token.attempt, ack.checkpoint_number):
            self.violate("nothing leaves before its commit", f"checkpoint {ack.checkpoint_number}, stored {stored}")

    def _check_shown(self, task: tasks_pb2.TaskInstance) -> None:
        """A watcher sees only what is committed."""
        if not task.HasField("end_time"):
            return
        record = self.ledger.instances.get(task.task_id)
        if record is None:
            self.violate("nothing leaves before its commit", f"a watcher saw the unknown {short(task.task_id)}")
        elif record.state != task.status and not record.reopened:
            self.violate("nothing leaves before its commit", f"a watcher saw {task.status}: {story(record)}")

    def _note_server(self, stream: Stream, what: str) -> None:
        self.trace.note(stream.server.name if stream.server is not None else "?", what)

    # Calls.

    def replied(self, server: Process, path: str, request: Message, response: Message) -> None:
        """A call is about to be answered: what the answer says must be committed."""
        if isinstance(response, tasks_pb2.SubmitTasksResponse):
            self._check_made([each.task_id for each in response.outcomes], self.ledger.instances)
        elif isinstance(response, workflows_pb2.StartRunsResponse):
            self._check_made([each.run_id for each in response.outcomes], self.ledger.runs)
        elif isinstance(request, tasks_pb2.CancelTaskRequest):
            self._check_cancelled(self.ledger.instances[request.task_id])
        elif isinstance(request, workflows_pb2.CancelRunRequest):
            run = self.ledger.runs[request.run_id]
            if run["state"] == workflows_pb2.RUN_STATE_RUNNING and request.run_id not in self.ledger.reopened_runs:
                self.violate("stop means stop", f"the cancel of run {short(request.run_id)} is not committed")
        elif isinstance(request, workers_pb2.RegisterRequest) and isinstance(response, workers_pb2.RegisterResponse):
            self._check_registered(request.worker_id, response)
        name = path.rsplit("/", 1)[1]
        if name not in ("Heartbeat", "AppendLogs"):
            self.trace.note(server.name, f"answers {name}")

    def _check_made(self, ids: list[str], committed: Mapping[str, object]) -> None:
        for id in ids:
            if id and id not in committed:
                self.violate("an answer means committed", f"{short(id)} is not")

    def _check_cancelled(self, record: Record) -> None:
        if record.state != S.CANCELLING and record.state not in TERMINAL and not record.reopened:
            self.violate("stop means stop", f"the cancel of {story(record)} was answered and is not committed")

    def _check_registered(self, worker_id: str, response: workers_pb2.RegisterResponse) -> None:
        stored = self.ledger.workers.get(worker_id, 0)
        if response.accepted and stored < response.session_epoch and worker_id not in self.ledger.workers_left:
            self.violate("an answer means committed", f"the registration of {worker_id} is not")

    def failed(self, server: Process, path: str, error: str) -> None:
        """A handler raised what no caller should see."""
        self.violate("no defect shows", f"{server.name} {path}: {error}")

    # Clients.

    def asked(self, request_id: str, what: str) -> None:
        """A client sends a request, perhaps again."""
        self.asks.setdefault(request_id, Ask(what))

    def answered(self, request_id: str, id: str, key: str = "") -> None:
        """A client got the id that its request made."""
        ask = self.asks[request_id]
        ask.answers.add(id)
        self.accepted[id] = ask
        if len(ask.answers) > 1:
            self.violate("request ids never create two", f"{request_id} made {sorted(map(short, ask.answers))}")
        if key:
            made = self.keys.setdefault(key, set())
            made.add(id)
            if len(made) > 1:
                self.violate("keys never create two", f"{key} made {sorted(map(short, made))}")

    def refused(self, request_id: str, reason: str) -> None:
        """A client's request was refused. None of them is wrong, and a repeat is no reason."""
        self.asks[request_id].refusals.add(reason)
        self.violate("request ids and keys never create two", f"{request_id} was refused: {reason}")
