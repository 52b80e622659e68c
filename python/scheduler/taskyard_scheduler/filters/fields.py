"""What each list can look for: its fields by name, where their values are, and of which kind they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from taskyard.v1 import fleet_pb2, pauses_pb2, workflows_pb2
from taskyard_core.records import TaskState

Kind = Literal["text", "integer", "bool", "time", "enum", "tags"]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field that a list can look for: its column, the kind of its values, and an enum's numbers by short name."""

    column: str
    kind: Kind = "text"
    names: Mapping[str, int] | None = None


Fields = Mapping[str, FieldSpec]


def _short_names(enum: Any, prefix: str) -> dict[str, int]:
    return {value.name.removeprefix(prefix): value.number for value in enum.DESCRIPTOR.values if value.number}


_TASK_STATUS: Final = FieldSpec("state", "enum", {state.name: state.value for state in TaskState})
_RUN_STATE: Final = FieldSpec("state", "enum", _short_names(workflows_pb2.RunState, "RUN_STATE_"))
_WORKER_STATE: Final = FieldSpec("state", "enum", _short_names(fleet_pb2.WorkerState, "WORKER_STATE_"))

TASK_FIELDS: Final[Fields] = {
    "task_id": FieldSpec("id"),
    "task_name": FieldSpec("task_name"),
    "task_type": FieldSpec("task_type"),
    "status": _TASK_STATUS,
    "priority": FieldSpec("priority", "integer"),
    "error.kind": FieldSpec("error_kind"),
    "attempt": FieldSpec("attempt", "integer"),
    "retry_count": FieldSpec("retries", "integer"),
    "worker_id": FieldSpec("worker_id"),
    "run_id": FieldSpec("run_id"),
    "step_id": FieldSpec("step_id"),
    "create_time": FieldSpec("created_at", "time"),
    "queue_time": FieldSpec("queued_at", "time"),
    "assign_time": FieldSpec("assigned_at", "time"),
    "start_time": FieldSpec("started_at", "time"),
    "end_time": FieldSpec("ended_at", "time"),
    "revision": FieldSpec("revision", "integer"),
    "idempotency_key": FieldSpec("idempotency_key"),
    "schedule_time": FieldSpec("not_before", "time"),
    "expire_time": FieldSpec("expire_at", "time"),
    "tags": FieldSpec("tags", "tags"),
}
TASK_GROUPS: Final[Fields] = {
    "status": _TASK_STATUS,
    "queue": FieldSpec("queue"),
    **{
        name: TASK_FIELDS[name]
        for name in (
            "error.kind", "task_type", "task_name", "worker_id", "run_id", "step_id", "priority", "attempt",
        )
    },
}  # fmt: skip
"""By what tasks are counted. A task's queue is where it waits or waited."""
RUN_FIELDS: Final[Fields] = {
    "run_id": FieldSpec("id"),
    "workflow": FieldSpec("workflow"),
    "version": FieldSpec("version", "integer"),
    "state": _RUN_STATE,
    "create_time": FieldSpec("created_at", "time"),
    "end_time": FieldSpec("ended_at", "time"),
    "revision": FieldSpec("revision", "integer"),
    "steps_total": FieldSpec("steps_total", "integer"),
    "steps_ended": FieldSpec("steps_ended", "integer"),
    "schedule_time": FieldSpec("start_at", "time"),
    "expire_time": FieldSpec("expire_at", "time"),
    "tags": FieldSpec("tags", "tags"),
}
RUN_GROUPS: Final[Fields] = {name: RUN_FIELDS[name] for name in ("state", "workflow", "version")}
"""By what runs are counted."""
VARIABLE_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "update_time": FieldSpec("updated_at", "time"),
}
"""Variables are looked for in memory."""
WORKFLOW_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "version": FieldSpec("version", "integer"),
    "create_time": FieldSpec("created_at", "time"),
    "source": FieldSpec("source"),
}
ARTIFACT_FIELDS: Final[Fields] = {
    "artifact_id": FieldSpec("id"),
    "name": FieldSpec("name"),
    "media_type": FieldSpec("media_type"),
    "size": FieldSpec("size", "integer"),
    "sha256": FieldSpec("sha256"),
    "task_id": FieldSpec("task_id"),
    "create_time": FieldSpec("created_at", "time"),
}
DEFINITION_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "number": FieldSpec("number", "integer"),
    "task_type": FieldSpec("task_type"),
    "priority": FieldSpec("priority", "integer"),
    "exclusive": FieldSpec("exclusive", "bool"),
    "create_time": FieldSpec("created_at", "time"),
    "update_time": FieldSpec("updated_at", "time"),
}
"""Definitions are looked for in memory: `task_type` and others are no columns."""
WORKER_FIELDS: Final[Fields] = {
    "worker_id": FieldSpec("worker_id"),
    "host": FieldSpec("host"),
    "port": FieldSpec("port", "integer"),
    "max_concurrency": FieldSpec("max_concurrency", "integer"),
    "state": _WORKER_STATE,
    "active_tasks": FieldSpec("active_tasks", "integer"),
    "session_epoch": FieldSpec("session_epoch", "integer"),
    "last_seen_time": FieldSpec("last_seen_at", "time"),
    "memory_mb": FieldSpec("memory_mb", "integer"),
    "build_id": FieldSpec("build_id"),
    "protocol": FieldSpec("protocol"),
}
QUEUE_FIELDS: Final[Fields] = {
    "name": FieldSpec("name"),
    "task_type": FieldSpec("task_type"),
    "selector": FieldSpec("selector"),
    "waiting": FieldSpec("waiting", "integer"),
    "head_time": FieldSpec("head_at", "time"),
}
PAUSE_FIELDS: Final[Fields] = {
    "scope": FieldSpec("scope", "enum", _short_names(pauses_pb2.PauseScope, "PAUSE_SCOPE_")),
    "name": FieldSpec("name"),
    "paused_by": FieldSpec("paused_by"),
    "create_time": FieldSpec("created_at", "time"),
}
"""Pauses are looked for in memory."""
