"""The rows of the scheduler's state: what is in memory while it lives and in SQL for ever.

An attribute is a column of the same name, so that a row is one `attrgetter` call. This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final

from taskyard_core.retry import RetryPolicy

Row = tuple[Any, ...]

# Plain integers beside TaskState and Phase: the hot path compares and stores them tens of thousands of times a second.
RUNNING: Final = 1
SUCCESS: Final = 2
FAILED: Final = 3
TIMEOUT: Final = 4
PENDING: Final = 5
QUEUED: Final = 6
ASSIGNED: Final = 7
CANCELLED: Final = 8
SKIPPED: Final = 9
CANCELLING: Final = 10
DEFERRED: Final = 13
READY: Final = 1
IN_FLIGHT: Final = 2
ENDED: Final = 9


class TaskState(IntEnum):
    """How an instance stands. The numbers are those of `taskyard.v1.TaskStatus`."""

    RUNNING = 1
    """A worker runs it. Left by its result, a timeout, a cancel or the loss of the worker."""
    SUCCESS = 2
    """Ended well. Left only when a person has its run taken up from it, or from a step before it."""
    FAILED = 3
    """Ended badly; no attempt is left. Left only when a person retries it, or marks it."""
    TIMEOUT = 4
    """Ended because a timeout passed. Left only when a person retries it, or marks it."""
    PENDING = 5
    """Waits for its time: its start, or its next attempt. Left when the time comes, by a cancel or a timeout.

    One without `not_before` is a step that ran and is to run again once the steps before it have.
    """
    QUEUED = 6
    """Waits for a worker. Left by an assignment, a cancel or a timeout."""
    ASSIGNED = 7
    """Sent to a worker that has not said that it started. Left by the start, a result, a fence or a cancel."""
    CANCELLED = 8
    """Ended because someone wanted it. Left only when a person retries it, or marks it."""
    SKIPPED = 9
    """Ended because of how its upstreams ended, unrun or, when it was to run again, not run again; or marked so.

    Left only when an upstream is retried by a person, or when one marks it.
    """
    CANCELLING = 10
    """Told to stop. Left when the worker confirms or the attempt is fenced."""
    DEFERRED = 13
    """Its handler has ended and its result comes from outside. Left by that, a timeout, a cancel, or by hand."""


class RunState(IntEnum):
    """How a run stands. The numbers are those of `taskyard.v1.RunState`."""

    RUNNING = 1
    """Some step has not ended. Left when all have, or by a cancel."""
    SUCCEEDED = 2
    """Ended; every last step succeeded or was skipped."""
    FAILED = 3
    """Ended; some last step failed or could not run because of a failure. Left only when a step is retried."""
    CANCELLING = 4
    """Told to stop; some step has not confirmed."""
    CANCELLED = 5
    """Ended because someone wanted it. Left only when a step is retried."""
    PENDING = 6
    """Waits for its time; no step has begun. Left when the time comes or by a cancel."""


class Phase(IntEnum):
    """What recovery and refill do with an instance; derived from its state."""

    PENDING = 0
    """Has a timer (PENDING, DEFERRED)."""
    READY = 1
    """Is in its ready queue (QUEUED)."""
    IN_FLIGHT = 2
    """Is with a worker (ASSIGNED, RUNNING, CANCELLING)."""
    ENDED = 9
    """Has ended."""


PHASES: Final = (0, 2, 9, 9, 9, 0, 1, 2, 9, 9, 2, 9, 9, 0)
"""The Phase that follows from a TaskState, by its number; 11 and 12 are none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What an instance asked for beyond its work. Frozen and shared between instances that asked for the same.

    Times are milliseconds; 0 in `queued_ms` and `total_ms` means no limit. Resources: thousandths of a core, MiB,
    whole GPUs. Selectors are canonical text, empty for none. `worker` is the id of the only one that may run it.
    """

    queued_ms: int = 0
    start_ms: int = 5_000
    run_ms: int = 3_600_000
    total_ms: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    cpu_millis: int = 0
    memory_mb: int = 0
    gpus: int = 0
    selector: str = ""
    affinity: str = ""
    spread: str = ""
    exclusive: bool = False
    worker: str = ""
    asks: bool = field(init=False, repr=False, compare=False)
    """True when it asks for any resource."""
    waits: bool = field(init=False, repr=False, compare=False)
    """True when it has a deadline while it waits."""
    plain: bool = field(init=False, repr=False, compare=False)
    """True when any worker that runs its type is as good as another."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "asks", bool(self.cpu_millis or self.memory_mb or self.gpus))
        object.__setattr__(self, "waits", bool(self.queued_ms or self.total_ms))
        object.__setattr__(self, "plain", not (self.asks or self.affinity or self.spread or self.worker))


class Instance:
    """One piece of work to be run, and its present or last attempt."""

    __slots__ = (
        "assigned_at", "attempt", "cancel_reason", "cancel_unconfirmed", "checkpoint",
        "checkpoint_number", "created_at", "duration_ms", "ended_at", "error_kind", "error_message", "expire_at",
        "fencing", "id",
        "idempotency_key", "input_json", "lease_until", "metadata_json", "not_before", "order_key", "output_json",
        "params_json", "percent", "phase", "policy", "policy_json", "priority", "progress_message", "queue",
        "queued_at", "request_hash", "request_id", "requeues", "retries", "revision", "run_id", "started_at",
        "state", "step_id", "tags", "task_name", "task_type", "tenant", "term", "token", "traceparent", "worker_id",
        "workflow",
    )  # fmt: skip

    tenant: str
    id: str
    task_name: str
    task_type: str
    workflow: str
    run_id: str  # "" when it stands alone
    step_id: str
    priority: int
    params_json: str  # "" when there are none
    input_json: str  # "" when there is none
    policy: Policy  # memory only; policy_json is its stored form
    policy_json: str  # "" for Policy()
    queue: str  # key of its ready queue, see taskyard_core.ready.queue_key
    request_id: str | None
    request_hash: bytes | None  # 16 bytes, of the submission; None without request id
    idempotency_key: str | None
    traceparent: str
    created_at: int  # all times: Unix milliseconds
    expire_at: int | None  # when it ends if it still waits then and has not started
    tags: str | None  # see taskyard_core.tags

    state: int  # a TaskState
    phase: int  # a Phase
    order_key: int
    not_before: int | None  # when a PENDING instance is due, or a DEFERRED one waited for long enough
    attempt: int  # number of the last attempt, 0 before the first
    retries: int  # attempts that were spent on failures and followed by another
    requeues: int  # assignments in a row that never started
    worker_id: str  # of the last attempt; "" before the first
    token: str  # of the last attempt; "" before the first
    term: int
    queued_at: int | None
    assigned_at: int | None
    started_at: int | None
    ended_at: int | None
    duration_ms: int
    output_json: str
    error_kind: str  # "" when there is none
    error_message: str
    metadata_json: str  # "" when empty
    cancel_reason: str
    revision: int

    lease_until: int  # memory only, as are the rest
    cancel_unconfirmed: bool
    percent: float | None
    progress_message: str
    checkpoint: str | None  # stored in a table of its own
    checkpoint_number: int
    fencing: bool  # an exclusive attempt whose end is awaited before another may start

    def __lt__(self, other: Instance) -> bool:
        return self.id < other.id

    def __repr__(self) -> str:
        return f"<Instance {self.id} {TaskState(self.state).name} attempt {self.attempt}>"


INSTANCE_KEY: Final = ("tenant", "id")
INSTANCE_FIXED: Final = (
    "task_name", "task_type", "workflow", "run_id", "step_id", "priority", "params_json", "input_json",
    "policy_json", "queue", "request_id", "request_hash", "idempotency_key", "traceparent", "created_at",
    "expire_at", "tags",
)  # fmt: skip
INSTANCE_CHANGING: Final = (
    "state", "phase", "order_key", "not_before", "attempt", "retries", "requeues", "worker_id", "token", "term",
    "queued_at", "assigned_at", "started_at", "ended_at", "duration_ms", "output_json", "error_kind",
    "error_message", "metadata_json", "cancel_reason", "revision",
)  # fmt: skip
INSTANCE_COLUMNS: Final = INSTANCE_KEY + INSTANCE_FIXED + INSTANCE_CHANGING
"""Columns of an inserted row, in order."""
INSTANCE_UPDATE: Final = INSTANCE_KEY + INSTANCE_CHANGING
"""Columns of an updated row, in order: the key, then all that can change."""

instance_row: Callable[[Instance], Row] = attrgetter(*INSTANCE_COLUMNS)
instance_update_row: Callable[[Instance], Row] = attrgetter(*INSTANCE_UPDATE)
_never_changing: Final[Callable[[Instance], Row]] = attrgetter(*INSTANCE_KEY, *INSTANCE_FIXED)


def committed_row(instance: Instance, row: Row) -> Row:
    """Returns INSTANCE_COLUMNS as a commit wrote them, given its INSTANCE_UPDATE or INSTANCE_COLUMNS row.

    Of the instance, which may have changed since, only what never changes is taken.
    """
    return row if len(row) == len(INSTANCE_COLUMNS) else _never_changing(instance) + row[len(INSTANCE_KEY) :]


ATTEMPT_COLUMNS: Final = (
    "tenant", "id", "attempt", "token", "worker_id", "term", "status", "assigned_at", "started_at", "ended_at",
    "error_kind", "error_message",
)  # fmt: skip
"""An attempt that was followed by another. The last attempt of an instance is in the instance's own row.

`id` is the instance's; `status` is a number of `taskyard.v1.TaskStatus`.
"""

RUN_FIXED: Final = (
    "workflow", "version", "inputs_json", "priority", "request_id", "request_hash", "idempotency_key", "created_at",
    "start_at", "expire_at", "tags", "variables_json",
)  # fmt: skip
RUN_CHANGING: Final = (
    "state", "output_json", "error_message", "ended_at", "steps_total", "steps_ended", "cancel_reason", "revision",
)  # fmt: skip
RUN_COLUMNS: Final = INSTANCE_KEY + RUN_FIXED + RUN_CHANGING
"""Columns of a run. `priority` 0 means the steps' own. `ended_at` is NULL while it is live.

`start_at` is when it is due, NULL for at once; `expire_at` and `tags` are its instances' (of `expire_at` only those of
its first steps).
"""
RUN_UPDATE: Final = INSTANCE_KEY + RUN_CHANGING

CHECKPOINT_COLUMNS: Final = ("tenant", "id", "number", "data")
"""The last checkpoint of an instance; one row each, replaced."""

WORKER_COLUMNS: Final = (
    "id", "tenant", "epoch", "registration_json", "registered_at", "last_seen_at",
)  # fmt: skip
"""A worker's registration. One row per id, replaced."""

REQUEST_COLUMNS: Final = ("tenant", "request_id", "method", "request_hash", "response", "created_at")
"""The first answer to a mutating call that creates neither instance nor run; `response` is its serialized message."""

TASK_DEFINITION_COLUMNS: Final = (
    "tenant", "name", "number", "definition", "created_at", "updated_at",
)  # fmt: skip
"""`definition` is the serialized `taskyard.v1.TaskDefinition`."""

VARIABLE_COLUMNS: Final = ("tenant", "name", "variable", "updated_at")
"""`variable` is the serialized `taskyard.v1.Variable`."""

PAUSE_COLUMNS: Final = ("tenant", "scope", "name", "reason", "paused_by", "created_at")
"""What is held back. `scope` is a number of `taskyard.v1.PauseScope`; `tenant` is empty where it is all tenants'."""

WORKFLOW_COLUMNS: Final = ("tenant", "name", "version", "definition", "content_hash", "created_at")
"""One row per version, never changed. `definition` is the serialized `taskyard.v1.Workflow`."""

WORKFLOW_HEAD_COLUMNS: Final = ("tenant", "name", "source", "deleted_version", "updated_at")
"""What is said of a workflow over its versions; one row each, replaced, none where nothing was said.

`source` is the set it belongs to, "" for none. Versions up to `deleted_version` are deleted: they start no runs.
"""

ARTIFACT_COLUMNS: Final = ("tenant", "id", "name", "media_type", "size", "sha256", "task_id", "created_at")
"""An artifact whose bytes are durable; never changed. `sha256` is hexadecimal; `task_id` is "" for a client's."""

REFERENCE_COLUMNS: Final = ("tenant", "artifact", "holder_kind", "holder", "revision")
"""That something stored refers to an artifact: an instance, a checkpoint, a run, a definition, a variable, an artifact.

Derived by the store from what a commit writes, but for an artifact's, whose bytes it does not see. `revision` is the
commit that last said so.
"""


@dataclass(slots=True)
class Changes:
    """What one transaction writes. Rows are tuples in the order of the column constants above.

    `instance_rewrites` are INSTANCE_COLUMNS of stored instances in which something changes that else never does.

    Deletes come first, then inserts, then updates; artifacts are deleted last, and only those that nothing refers to
    then. References are the store's to derive; only those of a new artifact's bytes are given.

    `revision` is the number of the commit: the one before plus one; every row of it that has a `revision` column
    carries it.
    """

    revision: int = 0
    instance_inserts: list[Row] = field(default_factory=list)
    instance_updates: list[Row] = field(default_factory=list)
    instance_rewrites: list[Row] = field(default_factory=list)
    instance_deletes: list[tuple[str, str]] = field(default_factory=list)
    attempt_inserts: list[Row] = field(default_factory=list)
    run_inserts: list[Row] = field(default_factory=list)
    run_updates: list[Row] = field(default_factory=list)
    checkpoint_upserts: list[Row] = field(default_factory=list)
    worker_upserts: list[Row] = field(default_factory=list)
    worker_deletes: list[str] = field(default_factory=list)
    request_inserts: list[Row] = field(default_factory=list)
    task_definition_upserts: list[Row] = field(default_factory=list)
    task_definition_deletes: list[tuple[str, str]] = field(default_factory=list)
    variable_upserts: list[Row] = field(default_factory=list)
    variable_deletes: list[tuple[str, str]] = field(default_factory=list)
    pause_upserts: list[Row] = field(default_factory=list)
    pause_deletes: list[tuple[str, int, str]] = field(default_factory=list)
    workflow_inserts: list[Row] = field(default_factory=list)
    workflow_head_upserts: list[Row] = field(default_factory=list)
    artifact_inserts: list[Row] = field(default_factory=list)
    artifact_deletes: list[tuple[str, str]] = field(default_factory=list)
    reference_deletes: list[tuple[str, str, str]] = field(default_factory=list)
    reference_upserts: list[Row] = field(default_factory=list)
    reference_ends: list[tuple[str, str, str]] = field(default_factory=list)


def drop_key(rows: list[Row], key: Row) -> None:
    """Takes the row of a key, which its columns begin with, out of a batch: a commit writes each key once."""
    rows[:] = [row for row in rows if row[: len(key)] != key]
