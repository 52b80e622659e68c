"""Runs scenario files: commands in plain text, and below each what the engine made of it. Not a test.

A file is a row of blocks, separated by empty lines; lines that begin with `#` are for people. A block is a command, a
line `----`, and what is expected. `TASKYARD_UPDATE_SCENARIOS=1` writes what came out in place of what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from enginekit import FakeWorker, Lab, StepSpec, retrying, task

from taskyard_core.engine import Batch, Standing
from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT, UNKNOWN_TASK
from taskyard_core.engine.events import Accepted, Heartbeat, Progress, Refused, Result, WorkerFrame
from taskyard_core.records import RunState, TaskState
from taskyard_core.transitions import WorkerState

OUTCOMES = {RECORDED: "RECORDED", STALE_ATTEMPT: "STALE_ATTEMPT", UNKNOWN_TASK: "UNKNOWN_TASK"}
STATUSES = {**{state.name: int(state) for state in TaskState}, "INTERRUPTED": 11, "REJECTED": 12}
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
POLICY_TIMES = {"queued": "queued_ms", "start": "start_ms", "run": "run_ms", "total": "total_ms"}


@dataclass
class Block:
    """A command of a file. `before` are the lines above it, kept as they are."""

    before: list[str] = field(default_factory=list)
    command: str = ""
    expected: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[list[Block], list[str]]:
    """Returns the blocks of a file and the lines after the last."""
    blocks: list[Block] = []
    lines = iter(text.splitlines())
    before: list[str] = []
    for line in lines:
        if not line or line.startswith("#"):
            before.append(line)
            continue
        assert next(lines, "") == "----", f"a line ---- must follow the command {line!r}"
        block = Block(before, line)
        before = []
        for output in lines:
            if not output:
                before.append(output)
                break
            block.expected.append(output)
        blocks.append(block)
    return blocks, before


def dump(blocks: list[Block], rest: list[str]) -> str:
    """Returns a file's text."""
    lines: list[str] = []
    for block in blocks:
        lines += [*block.before, block.command, "----", *block.expected]
    return "\n".join([*lines, *rest]).rstrip("\n") + "\n"


def ms(text: str) -> int:
    """Reads a duration such as `5s`."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", text)
    assert found, f"no duration: {text!r}"
    return int(found[1]) * UNITS[found[2]]


class Script(Lab):
    """An engine that is told what to do by lines and tells what became of it by lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ids: dict[str, str] = {}  # by name
        self.labels: dict[str, str] = {}  # names by id
        self.tokens: dict[str, str] = {}  # by `name#attempt`
        self.seen: dict[str, dict[str, Any]] = {}
        self.standing: dict[str, str] = {}
        super().__init__()

    def play(self, line: str) -> list[str]:
        """Carries out one command; returns what became of it."""
        self.lines = []
        name, *words = line.split()
        run: Callable[..., None] = getattr(self, "do_" + name.replace("-", "_"))
        options = dict(word.split("=", 1) for word in words if "=" in word)
        run(*[word for word in words if "=" not in word], **options)
        self.settle()
        for id, worker in self.engine.cluster.fleet.workers.items():
            self._tell_standing(id, worker.state.name)
        for id in sorted(set(self.standing) - set(self.engine.cluster.fleet.workers)):
            self._tell_standing(id, "gone")
        return self.lines or ["nothing"]

    def _tell_standing(self, id: str, state: str) -> None:
        before = self.standing.get(id)
        if before != state:
            self.lines.append(f"worker {id}: {before} -> {state}" if before else f"worker {id}: {state}")
        self.standing[id] = state
        if state == "gone":
            del self.standing[id]

    # What came of it.

    def carry_out(self, batch: Batch) -> None:
        """Tells rows, then frames, then closes."""
        super().carry_out(batch)
        self._name_steps()
        for id, row in self.tables.instances.items():
            self._tell_row(self.labels.get(id, "?"), self.seen.get(id), row)
            self.seen[id] = dict(row)
        gone = set(self.seen) - set(self.tables.instances) - set(self.tables.runs)
        for id in sorted(gone, key=lambda id: self.labels[id]):
            self.lines.append(f"{self.labels[id]}: deleted")
            del self.seen[id]
        for id, row in self.tables.runs.items():
            state = RunState(row["state"]).name
            if self.seen.get(id) != {"state": state}:
                self.lines.append(f"run {self.labels.get(id, 'new')}: {state}")
                self.seen[id] = {"state": state}
        for going in batch.frames.values():
            self._tell_frame(going)
        self.lines += [f"stream closed: {reason}" for _, reason in batch.closes]

    def _name_steps(self) -> None:
        for id, row in self.tables.instances.items():
            if row["run_id"] and id not in self.labels:
                self._name(f"{self.labels.get(row['run_id'], 'new')}.{row['step_id']}", id)

    def _name(self, name: str, id: str) -> None:
        self.ids[name], self.labels[id] = id, name

    def _tell_row(self, name: str, before: dict[str, Any] | None, row: dict[str, Any]) -> None:
        state = TaskState(row["state"]).name
        if row["token"]:
            self.tokens[f"{name}#{row['attempt']}"] = row["token"]
        if before is not None and before["state"] == row["state"] and before["attempt"] == row["attempt"]:
            return
        line = f"{name}: {TaskState(before['state']).name} -> {state}" if before else f"{name}: {state}"
        facts = []
        if state == "ASSIGNED":
            facts.append(f"attempt {row['attempt']} on {row['worker_id']}")
        if state == "PENDING":
            facts.append(f"due in {row['not_before'] - self.now} ms")
        if row["error_kind"]:
            facts.append(row["error_kind"])
        if state in ("PENDING", "QUEUED") and (row["retries"] or row["requeues"]):
            facts.append(f"retries {row['retries']}, not started {row['requeues']} times")
        self.lines.append(line + (f" ({'; '.join(facts)})" if facts else ""))

    def _tell_frame(self, going: Any) -> None:
        to = f"-> {going.worker_id}:"
        self.lines += [f"{to} ack {self._attempt(a.task_id, a.token)} {OUTCOMES[a.outcome]}" for a in going.acks]
        self.lines += [f"{to} stop {self._attempt(o.task_id, o.token)} {o.reason}" for o in going.cancels]
        self.lines += [f"{to} checkpoint {self._attempt(i, t)} number {n}" for i, t, n in going.checkpoint_acks]
        self.lines += [f"{to} run {self._attempt(s.instance.id, s.token)}" for s in going.assignments]

    def _attempt(self, id: str, token: str) -> str:
        known = {token: name for name, token in self.tokens.items()}
        return known.get(token, self.labels.get(id, id) + "#?")

    def tell(self, value: Any) -> None:
        """Tells an answer."""
        if isinstance(value, Refused):
            self.lines.append(f"refused: {value.reason}")
        elif isinstance(value, Accepted):
            self.lines.append(f"accepted: {self.labels[value.id]}" + (", repeated" if value.repeated else ""))
        elif isinstance(value, Standing):
            if value != Standing.GOOD:
                self.lines.append(f"standing: {value.name}")
        else:
            self.lines.append(f"answer: {value.name}")

    # Commands.

    def do_submit(self, *names: str, **options: str) -> None:
        """Submits tasks. Options: type, priority, request, hash, tenant, exclusive, retries, delay, times, selector."""
        fixed = {POLICY_TIMES[name]: ms(value) for name, value in options.items() if name in POLICY_TIMES}
        policy: dict[str, Any] = {
            **fixed,
            "retry": retrying(int(options.get("retries", "2")) + 1, ms(options.get("delay", "1s"))),
            "exclusive": "exclusive" in options,
            "selector": options.get("selector", ""),
            "gpus": int(options.get("gpus", "0")),
        }
        for name in names:
            new = task(options.get("type", "noop"), priority=int(options.get("priority", "5")), **policy)
            if "request" in options:
                new.request_id, new.request_hash = options["request"], options.get("payload", "same").encode()
            at = len(self.lines)
            outcome = self.submit(new, tenant=options.get("tenant", "default"))[0]
            if isinstance(outcome, Accepted) and not outcome.repeated:
                self._name(name, outcome.id)
            self.lines[at:] = [line.replace("?", name, 1) for line in self.lines[at:]]
            self.tokens = {key.replace("?", name, 1): token for key, token in self.tokens.items()}
            if not isinstance(outcome, Accepted) or outcome.repeated:
                self.tell(outcome)

    def do_workflow(self, name: str, *steps: str, **rules: str) -> None:
        """Defines a workflow of steps such as `a` or `c<-a,b`; options give rules, such as c=all_done."""
        specs: list[StepSpec] = []
        for step in steps:
            id, _, up = step.partition("<-")
            parts = {"retry": retrying(1)} | ({"rule": rules[id]} if id in rules else {})
            specs.append((id, up.split(",") if up else [], parts))
        self.plan(name, specs)

    def do_run(self, name: str, workflow: str) -> None:
        """Starts a run."""
        at = len(self.lines)
        self._name(name, self.start_run(workflow))
        for id, row in self.tables.instances.items():
            if row["run_id"] == self.ids[name]:
                self._name(f"{name}.{row['step_id']}", id)
        self.lines[at:] = [re.sub(r"\bnew\b", name, line) for line in self.lines[at:]]
        self.tokens = {re.sub(r"^new\.", name + ".", key): token for key, token in self.tokens.items()}

    def do_worker(self, name: str, **options: str) -> None:
        """Connects a worker. Options: types, slots, labels, gpus."""
        labels = dict(pair.split(":") for pair in options.get("labels", "").split(",") if pair)
        types = options.get("types", "*").split(",")
        tenant = options.get("tenant", "default")
        worker = self.make_worker(
            name, *types, slots=int(options.get("slots", "10")), labels=labels, tenant=tenant,
            gpus=int(options.get("gpus", "0")),
        )  # fmt: skip
        worker.register()
        if worker.refused:
            self.lines.append(f"not accepted: {worker.refused}")
        else:
            self.tell(worker.hello())

    def _worker(self, name: str) -> FakeWorker:
        return self.workers[name]

    def do_start(self, worker: str, *names: str) -> None:
        """A worker acknowledges starts."""
        self._worker(worker).start(*[self.ids[name] for name in names])

    def do_finish(self, worker: str, name: str, status: str = "SUCCESS", **options: str) -> None:
        """A worker reports the end of what it holds."""
        self._worker(worker).finish(self.ids[name], STATUSES[status], error_kind=options.get("kind", ""))

    def do_report(self, worker: str, attempt: str, status: str = "SUCCESS") -> None:
        """A worker reports the end of an attempt, such as t#1, whether or not it holds it."""
        name, reply = attempt.split("#")[0], object()
        fake = self._worker(worker)
        result = Result(self.ids[name], self.tokens[attempt], STATUSES[status])
        self.tell(self.handle(WorkerFrame(fake.id, fake.epoch, results=[result], reply=reply)))
        self.settle()
        self.lines += [f"outcome: {OUTCOMES[ack.outcome]}" for ack in self.answers.get(id(reply), [])]

    def do_progress(self, worker: str, name: str, **options: str) -> None:
        """A worker tells of an attempt. Options: percent, checkpoint with number, unconfirmed."""
        fake = self._worker(worker)
        told = Progress(
            self.ids[name],
            fake.held[self.ids[name]],
            percent=float(options["percent"]) if "percent" in options else None,
            checkpoint=options.get("checkpoint"),
            checkpoint_number=int(options.get("number", "0")),
            cancel_unconfirmed="unconfirmed" in options,
        )
        fake.frame(progress=[told])

    def do_beat(self, worker: str, *names: str, **options: str) -> None:
        """A heartbeat that lists these attempts, or all that are held; epoch=old speaks for the session before."""
        fake = self._worker(worker)
        if options.get("epoch") == "old":
            self.tell(self.handle(Heartbeat(worker, fake.epoch - 1, [])))
            return
        self.tell(fake.beat(*[self.ids[name] for name in names]))

    def do_held(self, worker: str, *names: str) -> None:
        """A thread of a worker whose event loop is held says what has started all the same."""
        self.tell(self._worker(worker).speak_for(*[self.ids[name] for name in names]))

    def do_drop_stream(self, worker: str) -> None:
        """The stream breaks."""
        self._worker(worker).drop_stream()

    def do_hello(self, worker: str) -> None:
        """Opens the stream again, in the same session."""
        self.tell(self._worker(worker).hello())

    def do_restart(self, worker: str) -> None:
        """The worker was killed: a new session that holds nothing."""
        fake = self._worker(worker)
        fake.held.clear()
        fake.connect()

    def do_drain(self, worker: str) -> None:
        """The worker says that it takes no more."""
        self._worker(worker).frame(draining=True)

    def do_leave(self, worker: str) -> None:
        """The worker deregisters."""
        self.tell(self._worker(worker).leave())

    def do_free(self, worker: str) -> None:
        """The worker gives credits for its free slots."""
        self._worker(worker).frame()

    def do_cancel(self, name: str) -> None:
        """Cancels a task."""
        self.tell(self.cancel(self.ids[name]))

    def do_cancel_run(self, name: str) -> None:
        """Cancels a run."""
        self.tell(self.cancel_run(self.ids[name]))

    def do_retry(self, name: str) -> None:
        """Retries a task by hand."""
        self.tell(self.retry(self.ids[name]))

    def do_wait(self, time: str) -> None:
        """Lets time pass."""
        self.wait(ms(time))

    def do_beats(self, worker: str, time: str) -> None:
        """Lets time pass while a worker sends its heartbeat every ten seconds."""
        end = self.now + ms(time)
        while self.now < end:
            self.wait(min(10_000, end - self.now))
            self._worker(worker).beat()

    def do_pause(self, time: str) -> None:
        """The scheduler is stopped for so long: time passes in one leap."""
        self.jump(ms(time))

    def do_new_leader(self) -> None:
        """The leader dies; the next one recovers."""
        self.recover()

    def do_why(self, name: str) -> None:
        """Asks why a task has not ended."""
        self.lines += [f"{reason.code}: {reason.message}" for reason in self._reasons(name)]

    def _reasons(self, name: str) -> list[Any]:
        return self.engine.explain(self.ids[name], self.now) or []

    def do_show(self, *names: str) -> None:
        """Tells how tasks stand, as committed."""
        for name in names:
            row = self.tables.instances[self.ids[name]]
            self.lines.append(
                f"{name}: {TaskState(row['state']).name}, attempt {row['attempt']}, retries {row['retries']}"
                + (f", {row['error_kind']}: {row['error_message']}" if row["error_kind"] else "")
            )

    def do_slots(self, worker: str) -> None:
        """Tells what the scheduler's ledger says of a worker."""
        known = self.engine.cluster.fleet.workers[worker]
        held = ", ".join(sorted(self.labels[id] for id in known.attempts)) or "nothing"
        self.lines.append(f"{worker} is {WorkerState(known.state).name} and holds {held}; room for {known.room()}")
