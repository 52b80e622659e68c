"""What can happen to the scheduler, as data. `reply` and `stream` are opaque: effects hand them back unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taskyard_core.fleet import Registration
from taskyard_core.pauses import Pause, PauseScope
from taskyard_core.records import Instance, Policy, Row
from taskyard_core.violations import Violation

Reply = object
Stream = object


@dataclass(frozen=True, slots=True)
class When:
    """When a task or a run is due, and until when it may begin. Times are Unix milliseconds, 0 for none.

    The later of `start_at` and `delay_ms` after its creation counts.
    """

    start_at: int = 0
    delay_ms: int = 0
    expire_at: int = 0

    def due(self, now: int) -> int:
        """Returns when something created now is due; 0 for at once."""
        due = max(self.start_at, now + self.delay_ms)
        return due if due > now else 0


@dataclass(slots=True)
class NewTask:
    """A submission that passed validation. Fields as in Instance; `when` None: at once, and for ever."""

    task_type: str
    policy: Policy
    policy_json: str = ""
    task_name: str = ""
    priority: int = 5
    params_json: str = ""
    input_json: str = ""
    request_id: str | None = None
    request_hash: bytes | None = None
    idempotency_key: str | None = None
    traceparent: str = ""
    when: When | None = None
    tags: str | None = None


@dataclass(slots=True)
class Refused:
    """An item that did not pass, with a machine-readable reason and a sentence."""

    reason: str
    message: str
    violations: Sequence[Violation] = ()


@dataclass(slots=True)
class Known:
    """What SQL knows of a call's request ids and keys: id of what they made, and the hash of a request's payload."""

    requests: Mapping[str, tuple[str, bytes | None]] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Accepted:
    """An item that was taken: the id of what it made, now or (`repeated`) earlier."""

    id: str
    repeated: bool = False


Outcome = Accepted | Refused


@dataclass(slots=True)
class Submit:
    """Tasks to be created. Answered by a list of Outcome in the same order."""

    reply: Reply
    tenant: str
    tasks: Sequence[NewTask | Refused]
    known: Known = field(default_factory=Known)
    atomic: bool = False


@dataclass(slots=True)
class NewRun:
    """A start that passed validation. `inputs_json` has the defaults filled in; `when` as in NewTask."""

    workflow: str
    version: int
    inputs_json: str = "{}"
    priority: int = 0
    request_id: str | None = None
    request_hash: bytes | None = None
    idempotency_key: str | None = None
    when: When | None = None
    tags: str | None = None
    variables_json: str | None = None


@dataclass(slots=True)
class StartRuns:
    """Runs to be started. Answered by a list of Outcome in the same order."""

    reply: Reply
    tenant: str
    runs: Sequence[NewRun | Refused]
    known: Known = field(default_factory=Known)
    atomic: bool = False


@dataclass(slots=True)
class Register:
    """A worker announces itself. Answered by RegisterAnswer."""

    reply: Reply
    worker_id: str
    tenant: str
    registration: Registration


@dataclass(frozen=True, slots=True)
class RegisterAnswer:
    """What became of a registration."""

    accepted: bool
    message: str
    epoch: int


@dataclass(slots=True)
class Hello:
    """A session's stream opened. `attempts` are (instance id, token) of all that the worker holds."""

    worker_id: str
    epoch: int
    stream: Stream
    attempts: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Result:
    """The end of an attempt as a worker tells it. `status` is a number of `taskyard.v1.TaskStatus`."""

    task_id: str
    token: str
    status: int
    output_json: str = ""
    error_message: str = ""
    error_kind: str = ""
    duration_ms: int = 0
    metadata_json: str = ""
    defer_ms: int = 0  # of a deferred one: how long its result is waited for; 0 for the default


@dataclass(slots=True)
class Progress:
    """What a running attempt tells of itself. `checkpoint` None: no new one."""

    task_id: str
    token: str
    percent: float | None = None
    message: str = ""
    checkpoint: str | None = None
    checkpoint_number: int = 0
    cancel_unconfirmed: bool = False


@dataclass(slots=True)
class WorkerFrame:
    """What a worker said on its stream or by a call. `reply`: answered by a list of Ack, for calls outside the stream.

    `started` are (instance id, token). `credits` 0: as before.
    """

    worker_id: str
    epoch: int
    results: Sequence[Result] = ()
    started: Sequence[tuple[str, str]] = ()
    progress: Sequence[Progress] = ()
    credits: int = 0
    draining: bool = False
    stream: Stream | None = None
    reply: Reply | None = None


@dataclass(slots=True)
class Heartbeat:
    """A sign of life with the tokens of all attempts that the worker holds. Answered at once, by its Standing.

    `started`: tokens of attempts whose handler was entered, of a worker that can send no frames just now.
    """

    worker_id: str
    epoch: int
    tokens: Sequence[str]
    cpu_usage: float = 0.0
    memory_mb: int = 0
    started: Sequence[str] = ()


@dataclass(slots=True)
class StreamClosed:
    """A worker's stream ended, whoever ended it."""

    worker_id: str
    stream: Stream


@dataclass(slots=True)
class Deregister:
    """A worker ends its session. Answered by True."""

    reply: Reply
    worker_id: str
    epoch: int


@dataclass(slots=True)
class Cancel:
    """Somebody wants an instance to end. Answered by the TaskState, or Refused.

    `row`: the instance as SQL had it while it was pinned, for one that is not in memory. `kill`: without grace, and
    without waiting for its worker, unless it is exclusive.
    """

    reply: Reply
    task_id: str
    reason: str
    row: Instance | None = None
    kill: bool = False


@dataclass(slots=True)
class CancelRun:
    """Somebody wants a run to end. Answered by the RunState, or Refused. `kill` as for Cancel."""

    reply: Reply
    run_id: str
    reason: str
    kill: bool = False


@dataclass(slots=True)
class Requeue:
    """Somebody wants an instance back in its queue. Answered by the TaskState, or Refused. `row` as for Cancel."""

    reply: Reply
    task_id: str
    row: Instance | None = None


@dataclass(slots=True)
class Prioritize:
    """Somebody gives an instance another priority. Answered by the TaskState, or Refused. `row` as for Cancel."""

    reply: Reply
    task_id: str
    priority: int
    row: Instance | None = None


@dataclass(slots=True)
class Retry:
    """Somebody wants an ended instance to run again. Answered by the TaskState, or Refused.

    `row` as for Cancel. For a step of a run that has ended: the run and all its instances as SQL had them.
    """

    reply: Reply
    task_id: str
    row: Instance | None = None
    run_row: Row | None = None
    run_instances: Sequence[Instance] = ()


@dataclass(slots=True)
class RetryRun:
    """Somebody wants steps of a run to run again. Answered by (RunState, ids of those steps), or Refused.

    `from_steps`: with everything below them; none: all that ended badly. For a run that has ended: it and all its
    instances as SQL had them.
    """

    reply: Reply
    run_id: str
    from_steps: Sequence[str] = ()
    run_row: Row | None = None
    run_instances: Sequence[Instance] = ()


@dataclass(slots=True)
class Complete:
    """Somebody brings the result of an attempt from outside. Answered by the TaskState, or Refused.

    `status` is SUCCESS or FAILED; `row` as for Cancel.
    """

    reply: Reply
    task_id: str
    token: str
    status: int
    output_json: str = ""
    error_message: str = ""
    error_kind: str = ""
    row: Instance | None = None


@dataclass(slots=True)
class Mark:
    """Somebody says how an instance has ended: SUCCESS or SKIPPED. Answered by the TaskState, or Refused.

    `row`, `run_row` and `run_instances` as for Retry.
    """

    reply: Reply
    task_id: str
    state: int
    output_json: str = ""
    reason: str = ""
    row: Instance | None = None
    run_row: Row | None = None
    run_instances: Sequence[Instance] = ()


@dataclass(slots=True)
class MarkStep:
    """Somebody says how a step has ended, be it a task yet or not. Answered by Marked, or Refused.

    `run_row` and `run_instances` as for RetryRun.
    """

    reply: Reply
    run_id: str
    step_id: str
    state: int
    output_json: str = ""
    reason: str = ""
    run_row: Row | None = None
    run_instances: Sequence[Instance] = ()


@dataclass(frozen=True, slots=True)
class Marked:
    """How a step and its run stand after a mark. `state` is a TaskState, `run_state` a RunState."""

    state: int
    run_state: int
    task_id: str


@dataclass(slots=True)
class PauseWork:
    """An operator wants something held back. Answered by the Pause, or Refused."""

    reply: Reply
    pause: Pause


@dataclass(slots=True)
class ResumeWork:
    """An operator lets something go on. Answered by the Pause that has ended, or Refused."""

    reply: Reply
    tenant: str
    scope: PauseScope
    name: str


@dataclass(slots=True)
class DrainWorker:
    """An operator wants a worker to end. Answered by the number of attempts that it has, or Refused."""

    reply: Reply
    worker_id: str
    tenant: str


@dataclass(slots=True)
class ForgetWorker:
    """An operator says that a worker is gone for good. Answered by the number of attempts that it had, or Refused."""

    reply: Reply
    worker_id: str
    tenant: str
