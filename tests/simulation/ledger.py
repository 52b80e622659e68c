"""The committed rows, followed commit by commit, and what must hold for each of them. Knows nothing of the engine.

Works from what was written, by a second reading of the promises that is too simple to be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from simulation.trace import Trace
from taskyard_core.pauses import PauseKey, PauseScope
from taskyard_core.records import (
    ATTEMPT_COLUMNS,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    RUN_COLUMNS,
    RUN_UPDATE,
    Changes,
    Row,
)
from taskyard_core.records import TaskState as S

TERMINAL = (S.SUCCESS, S.FAILED, S.TIMEOUT, S.CANCELLED, S.SKIPPED)
IN_FLIGHT = (S.ASSIGNED, S.RUNNING, S.CANCELLING)
RESOURCES = ("cpu_millis", "memory_mb", "gpus")


@dataclass(slots=True)
class Record:
    """One instance as last committed."""

    values: dict[str, Any]
    since: float  # when its state was committed
    asks: tuple[int, ...]  # in the order of RESOURCES
    assigned_commit: float = 0.0
    archived: dict[int, str] = field(default_factory=dict)  # token of each attempt that was followed by another
    failures: int = 0  # attempts spent on failures since the last retry by hand
    reopened: bool = False  # a person had it, or a step before it, run again
    ends: int = 0  # how often it was committed as ended
    queued_at: int | None = None  # when it was queued first, by the leader's clock

    @property
    def state(self) -> int:
        return int(self.values["state"])

    @property
    def id(self) -> str:
        return str(self.values["id"])

    def get(self, name: str) -> Any:
        return self.values[name]

    @property
    def policy(self) -> dict[str, Any]:
        text = self.values["policy_json"]
        return dict(json.loads(text)) if text else {}


@dataclass(frozen=True, slots=True)
class Token:
    """A committed attempt."""

    task_id: str
    worker_id: str
    attempt: int
    term: int
    at: float


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker has."""

    slots: int
    cpu_millis: int = 0
    memory_mb: int = 0
    gpus: int = 0


class Ledger:
    """Follows commits.

    Args:
        trace: Gets the violations.
        clock: Virtual seconds.
        offers: What each worker has, by id.
    """

    def __init__(self, trace: Trace, clock: Callable[[], float], offers: dict[str, Offer]) -> None:
        self.instances: dict[str, Record] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.tokens: dict[str, Token] = {}
        self.workers: dict[str, int] = {}  # session epoch by id
        self.workers_left: set[str] = set()  # those that were deleted at some time
        self.checkpoints: dict[str, str] = {}
        self.in_flight: dict[str, dict[str, Record]] = {}  # by worker, by id
        self.retries_asked: dict[str, int] = {}  # by instance id: retries by hand that were asked for
        self.reruns_asked: set[str] = set()  # runs that a person wants taken up again
        self.hurried: set[str] = set()  # tasks that a person wants to be due now
        self.reopened_runs: set[str] = set()
        self.held_back: set[PauseKey] = set()
        self.unstarted: dict[str, tuple[str, float]] = {}  # by token: the worker that did not start it, and when
        self._gained: dict[str, None] = {}  # workers that may hold more than before this commit
        self.alive: Callable[[str], bool] = lambda _token: False  # tells whether a handler runs under a token
        self.term = 0
        self.revision = 0
        self.holder = ""
        self.term_at = 0.0
        self._trace = trace
        self._clock = clock
        self._offers = offers

    # What the store tells.

    def term_began(self, term: int, holder: str) -> None:
        """A new leader."""
        if term != self.term + 1:
            self._violate("one leader writes", f"term {term} follows {self.term}")
        self.term, self.holder, self.term_at = term, holder, self._clock()
        self._trace.note(holder, f"term {term} begins")

    def committed(self, term: int, changes: Changes) -> None:
        """A commit was written."""
        if term != self.term:
            self._violate("one leader writes", f"term {term} wrote commit {changes.revision} in term {self.term}")
        if changes.revision != self.revision + 1:
            self._violate("one leader writes", f"commit {changes.revision} follows {self.revision}")
        self.revision = changes.revision
        self._check_keys(changes)
        self.held_back.difference_update(changes.pause_deletes)
        self.held_back.update(row[:3] for row in changes.pause_upserts)
        self._instances(changes)
        for row in changes.run_inserts:
            self._run_inserted(dict(zip(RUN_COLUMNS, row, strict=True)))
        for row in changes.run_updates:
            self._run_updated(dict(zip(RUN_UPDATE, row, strict=True)))
        self._workers(changes)
        for worker_id in self._gained:
            self._check_worker(worker_id)
        self._gained.clear()

    # Rows.

    def _instances(self, changes: Changes) -> None:
        self._attempts(changes.attempt_inserts)
        for key in changes.instance_deletes:
            self._deleted(key[1])
        for row in changes.instance_inserts:
            self._inserted(dict(zip(INSTANCE_COLUMNS, row, strict=True)))
        for row in changes.instance_updates:
            self._updated(dict(zip(INSTANCE_UPDATE, row, strict=True)))
        for row in changes.instance_rewrites:
            self._updated(dict(zip(INSTANCE_COLUMNS, row, strict=True)))
        for _, id, number, data in changes.checkpoint_upserts:
            self.checkpoints[id] = data
            self._trace.note("database", f"checkpoint {number} of {short(id)}")

    def _workers(self, changes: Changes) -> None:
        for id in changes.worker_deletes:
            self.workers.pop(id, None)
            self.workers_left.add(id)
        for row in changes.worker_upserts:
            self.workers[row[0]] = row[2]

    def _check_keys(self, changes: Changes) -> None:
        """A key occurs at most once in each list, as the store port wants it."""
        keys = {
            "instance_inserts": [row[1] for row in changes.instance_inserts],
            "instance_updates": [row[1] for row in (*changes.instance_updates, *changes.instance_rewrites)],
            "instance_deletes": [key[1] for key in changes.instance_deletes],
            "attempt_inserts": [row[1:3] for row in changes.attempt_inserts],
            "run_inserts": [row[1] for row in changes.run_inserts],
            "run_updates": [row[1] for row in changes.run_updates],
            "checkpoint_upserts": [row[1] for row in changes.checkpoint_upserts],
            "worker_upserts": [row[0] for row in changes.worker_upserts],
            "worker_deletes": list(changes.worker_deletes),
            "request_inserts": [row[1] for row in changes.request_inserts],
        }
        for name, found in keys.items():
            if len(found) > 1 and len(set(found)) != len(found):
                self._violate("a commit names each row once", f"{name} of commit {changes.revision}: {found}")

    def _inserted(self, values: dict[str, Any]) -> None:
        id = values["id"]
        if id in self.instances:
            self._violate("ids are unique", f"{short(id)} was inserted twice")
        record = self.instances[id] = Record(values, self._clock(), asks_of(values["policy_json"]))
        record.queued_at = values["queued_at"]
        self._check_unique(record)
        self._trace.note("database", f"new {story(record)}")
        self._check_token(record, {"attempt": 0, "token": ""})
        self._place(record)
        record.ends = int(record.state in TERMINAL)

    def _check_unique(self, record: Record) -> None:
        if not record.get("run_id"):
            return
        step = (record.get("run_id"), record.get("step_id"))
        for other in self.instances.values():
            if other is not record and (other.get("run_id"), other.get("step_id")) == step:
                self._violate("a step becomes one instance", f"step {step[1]} of run {short(step[0])} has two")

    def _updated(self, values: dict[str, Any]) -> None:
        record = self.instances.get(values["id"])
        if record is None:
            self._violate("rows exist", f"{short(values['id'])} was updated and does not exist")
            return
        before = dict(record.values)
        record.values.update(values)
        if record.queued_at is None:
            record.queued_at = values["queued_at"]
        if (before["state"], before["token"]) != (record.state, record.get("token")):
            record.since = self._clock()
        self._trace.note("database", story(record))
        self._check_end(record, before)
        self._check_over(record, before)
        self._check_token(record, before)
        self._check_times(record, before)
        self._place(record)

    def _check_end(self, record: Record, before: dict[str, Any]) -> None:
        """What is done stays done, unless a person wants it again."""
        if before["state"] in TERMINAL:
            asked = self.retries_asked.get(record.id, 0)
            taken_up = record.get("run_id") in self.reruns_asked
            untouched = record.state in TERMINAL and record.get("attempt") == before["attempt"]
            if not asked and not taken_up and untouched:
                for name in ("state", "output_json", "ended_at", "error_kind"):
                    if record.values[name] != before[name]:
                        self._violate("done stays done", f"{name} of the ended {story(record)} was {before[name]!r}")
                return
            if not asked and not taken_up:
                self._violate("done stays done", f"{story(record)} had ended as {S(before['state']).name}")
            self.retries_asked[record.id] = max(0, asked - 1)
            record.reopened = True
            record.failures = 0
            if record.get("run_id"):
                self.reopened_runs.add(record.get("run_id"))
        if record.state in TERMINAL:
            record.ends += 1

    def _check_over(self, record: Record, before: dict[str, Any]) -> None:
        """An exclusive attempt is over only when it cannot be alive: fence, then kill, then declare."""
        token = before["token"]
        over = before["state"] in IN_FLIGHT and (record.state not in IN_FLIGHT or record.get("token") != token)
        if over and self.alive(token) and record.policy.get("exclusive"):
            self._violate("exclusive means alone", f"attempt {token[:6]} is alive and declared over: {story(record)}")

    def _check_token(self, record: Record, before: dict[str, Any]) -> None:
        token, attempt = record.get("token"), record.get("attempt")
        if attempt < before["attempt"]:
            self._violate("attempts count up", f"{story(record)} was at attempt {before['attempt']}")
        if token and token != before["token"]:
            if attempt <= before["attempt"]:
                self._violate("attempts count up", f"{story(record)} has a new token for an old attempt")
            if token in self.tokens:
                self._violate("tokens are unique", f"{token} of {story(record)} is in use")
            now = self._clock()
            self.tokens[token] = Token(record.id, record.get("worker_id"), attempt, record.get("term"), now)
            record.assigned_commit = now
            self._check_held_back(record)
            if before.get("state") == S.CANCELLING and before["error_kind"] == "CANCELLED" and not record.reopened:
                self._violate("stop means stop", f"{story(record)} was being cancelled and got another attempt")
        if record.state in IN_FLIGHT and not token:
            self._violate("attempts have tokens", story(record))
        if token and record.get("term") > self.term:
            self._violate("one leader writes", f"{story(record)} is of term {record.get('term')}")

    def _check_held_back(self, record: Record) -> None:
        """What is held back goes to no worker, and what one worker alone may run goes to that one."""
        got = record.get
        tenant = got("tenant")
        keys = {
            ("", int(PauseScope.ALL), ""),
            (tenant, int(PauseScope.TENANT), ""),
            (tenant, int(PauseScope.TASK_TYPE), got("task_type")),
            (tenant, int(PauseScope.QUEUE), got("queue")),
            (tenant, int(PauseScope.WORKFLOW), got("workflow") or None),
            (tenant, int(PauseScope.RUN), got("run_id") or None),
        }
        if held := keys & self.held_back:
            self._violate("what is paused is not sent", f"{story(record)} is held back by {sorted(held)}")
        if got("worker_id") != record.policy.get("worker", got("worker_id")):
            self._violate("what is paused is not sent", f"{story(record)} was for {record.policy['worker']} alone")

    def _check_times(self, record: Record, before: dict[str, Any]) -> None:
        due = before["not_before"]
        if record.id in self.hurried:
            return
        if before["state"] == S.PENDING and due is not None and record.get("attempt") > before["attempt"]:
            if record.get("assigned_at") < due:
                early = due - record.get("assigned_at")
                self._violate("retries wait their time", f"{story(record)} was assigned {early} ms too early")

    def _place(self, record: Record) -> None:
        """Keeps the account of who holds what."""
        for held in self.in_flight.values():
            held.pop(record.id, None)
        if record.state in IN_FLIGHT:
            self.in_flight.setdefault(record.get("worker_id"), {})[record.id] = record
            self._gained[record.get("worker_id")] = None

    def _check_worker(self, worker_id: str) -> None:
        held, offer = self.in_flight[worker_id], self._offers.get(worker_id)
        if offer is None or not held:
            return
        if len(held) > offer.slots:
            self._violate("slots are counted", f"{worker_id} has {offer.slots} slots and holds {len(held)}")
        for name, used in zip(
            RESOURCES, map(sum, zip(*(record.asks for record in held.values()), strict=True)), strict=True
        ):
            if used > getattr(offer, name):
                self._violate("slots are counted", f"{worker_id} has {getattr(offer, name)} {name}, {used} are held")

    def _deleted(self, id: str) -> None:
        record = self.instances.pop(id, None)
        if record is None or record.state not in TERMINAL:
            self._violate("rows exist", f"{short(id)} was deleted and had not ended")
        elif record.get("run_id"):
            self.reopened_runs.add(record.get("run_id"))
        self._trace.note("database", f"deleted {short(id)}")

    def _attempts(self, rows: Iterable[Row]) -> None:
        for row in rows:
            values = dict(zip(ATTEMPT_COLUMNS, row, strict=True))
            record = self.instances.get(values["id"])
            if record is None:
                self._violate("rows exist", f"an attempt of {short(values['id'])}, which does not exist, was kept")
                continue
            if values["attempt"] in record.archived:
                self._violate("attempts are kept", f"attempt {values['attempt']} of {story(record)} was kept twice")
            record.archived[values["attempt"]] = values["token"]
            if values["error_kind"] == "NEVER_STARTED" and "did not start it within" in values["error_message"]:
                self.unstarted[values["token"]] = (values["worker_id"], self._clock())
            if values["status"] in (S.FAILED, S.TIMEOUT):
                record.failures += 1

    def _run_inserted(self, values: dict[str, Any]) -> None:
        if values["id"] in self.runs:
            self._violate("ids are unique", f"run {short(values['id'])} was inserted twice")
        self.runs[values["id"]] = values
        self._trace.note("database", f"new run {short(values['id'])} of {values['workflow']}")

    def _run_updated(self, values: dict[str, Any]) -> None:
        before = self.runs.get(values["id"])
        if before is None:
            self._violate("rows exist", f"run {short(values['id'])} was updated and does not exist")
            return
        if before["ended_at"] is not None and values["state"] != before["state"]:
            if values["id"] not in self.reopened_runs and not self._retried(values["id"]):
                self._violate("done stays done", f"run {short(values['id'])} had ended as {before['state']}")
            self.reopened_runs.add(values["id"])
        before.update(values)
        self._trace.note("database", f"run {short(values['id'])} state {values['state']}")

    def _retried(self, run_id: str) -> bool:
        return run_id in self.reruns_asked or any(
            record.get("run_id") == run_id and record.id in self.retries_asked for record in self.instances.values()
        )

    def _violate(self, promise: str, story: str) -> None:
        self._trace.violate(promise, story)


def asks_of(policy_json: str) -> tuple[int, ...]:
    """Returns the resources that a stored policy asks for."""
    policy = json.loads(policy_json) if policy_json else {}
    return tuple(int(policy.get(name, 0)) for name in RESOURCES)


def short(id: str) -> str:
    """Returns the part of an id that tells it from others in one history."""
    return id[-6:]


def story(record: Record) -> str:
    """Returns an instance in a few words."""
    got = record.get
    step = f" step {got('step_id')}" if got("step_id") else ""
    error = f" {got('error_kind')}" if got("error_kind") else ""
    place = f" at {got('worker_id')} {got('token')[:6]}" if got("token") else ""
    state = f"{S(record.state).name} attempt {got('attempt')}"
    return f"task {short(record.id)}{step} {got('task_type')} {state}{place}{error}"
