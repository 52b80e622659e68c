"""The engine alone, in one process: submit, dispatch, result, without store, wire or worker.

`python -m bench.micro_engine [TASKS [BATCH]]`. Tells what the scheduler's pure part costs of its budget for a task.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from taskyard_core.engine import Batch, Engine
from taskyard_core.engine.events import Hello, NewTask, Register, Result, Submit, WorkerFrame
from taskyard_core.fleet import Registration
from taskyard_core.records import SUCCESS, Changes, Policy

START_MS = 1_700_000_000_000
ROUND_MS = 20
SLOTS = 1000
WORKER = "w1"


@dataclass(slots=True)
class Clockwork:
    """An engine with one worker, and how much processor time each kind of call has taken, in seconds."""

    engine: Engine
    epoch: int
    stream: object = field(default_factory=object)
    now: int = START_MS
    credits: int = SLOTS
    sealed: list[Changes] = field(default_factory=list)
    taken: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("submit", "seal", "result"), 0.0))

    def timed(self, kind: str, call: Callable[[], object]) -> None:
        """Makes a call and books its time."""
        start = time.process_time()
        call()
        self.taken[kind] += time.process_time() - start

    def seal(self) -> Batch:
        """Seals a batch, books its time and keeps what it writes in `sealed`."""
        start = time.process_time()
        batch = self.engine.seal()
        self.taken["seal"] += time.process_time() - start
        if batch.changes.revision:
            self.engine.committed(batch)
        self.sealed.append(batch.changes)
        return batch

    def round(self, tasks: list[NewTask]) -> int:
        """Submits tasks, takes the assignments and reports all as done; returns how many were assigned."""
        self.timed("submit", lambda: self.engine.handle(Submit(None, "default", tasks), self.now))
        outgoing = self.seal().frames.get(self.stream)
        assigned = outgoing.assignments if outgoing else []
        self.credits += len(assigned)
        frame = WorkerFrame(
            WORKER,
            self.epoch,
            results=[Result(one.instance.id, one.token, SUCCESS) for one in assigned],
            started=[(one.instance.id, one.token) for one in assigned],
            credits=self.credits,
            stream=self.stream,
        )
        self.timed("result", lambda: self.engine.handle(frame, self.now))
        self.seal()
        self.now += ROUND_MS
        return len(assigned)


def clockwork(term: int = 1, revision: int = 0) -> Clockwork:
    """Returns an engine of that term and last commit, with a worker whose stream is open."""
    rng = random.Random(1)
    engine = Engine(term, revision, random_bits=rng.getrandbits, random=rng.random)
    engine.begin(START_MS)
    registration = Registration(capabilities=("*",), max_concurrency=SLOTS)
    engine.handle(Register("registered", WORKER, "default", registration), START_MS)
    batch = engine.seal()
    engine.committed(batch)
    (_, answer) = batch.answers[0]
    one = Clockwork(engine, answer.epoch, sealed=[batch.changes])
    engine.handle(Hello(WORKER, one.epoch, one.stream, []), START_MS)
    engine.handle(WorkerFrame(WORKER, one.epoch, credits=SLOTS, stream=one.stream), START_MS)
    one.seal()
    return one


def batches(tasks: int, batch: int) -> Iterator[list[NewTask]]:
    """Yields new tasks in lists of `batch`."""
    policy = Policy()
    for at in range(0, tasks, batch):
        numbers = range(at, min(at + batch, tasks))
        yield [NewTask("noop", policy, request_id=f"r{n}", request_hash=b"x" * 16) for n in numbers]


def measure(tasks: int, batch: int) -> dict[str, float]:
    """Returns microseconds a task, by part and in all."""
    one = clockwork()
    done = sum(one.round(new) for new in batches(tasks, batch))
    assert done == tasks, f"{done} of {tasks} tasks were assigned"
    per_task = {kind: round(taken / tasks * 1e6, 2) for kind, taken in one.taken.items()}
    return per_task | {"all": round(sum(one.taken.values()) / tasks * 1e6, 2)}


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:]] + [50_000, 500][len(sys.argv) - 1 :]
    print(json.dumps(measure(*sizes)))
