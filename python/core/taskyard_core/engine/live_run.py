"""A run in memory: its progress, and what its templates may read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from taskyard_core.dag import Progress
from taskyard_core.records import IN_FLIGHT, RUN_COLUMNS, RUN_UPDATE, Row, RunState
from taskyard_core.templates import Scope
from taskyard_core.workflow import WorkflowVersion

if TYPE_CHECKING:
    from taskyard_core.engine.cluster import Cluster


class LiveRun:
    """A run that has not ended. Its attributes are the columns of RUN_COLUMNS, and the working state after them."""

    __slots__ = (
        "cancel_reason", "created_at", "ended_at", "error_message", "expire_at", "id", "idempotency_key", "inputs_json",
        "instance_ids", "is_new", "output_json", "outputs", "plan", "priority", "progress", "request_hash",
        "request_id", "revision", "scope", "start_at", "state", "tags", "taken_up", "tenant", "variables_json",
        "version", "workflow",
    )  # fmt: skip

    def __init__(self, tenant: str, id: str, plan: WorkflowVersion) -> None:
        self.tenant = tenant
        self.id = id
        self.plan = plan
        self.workflow = plan.name
        self.version = plan.version
        self.inputs_json = "{}"
        self.priority = 0
        self.request_id: str | None = None
        self.request_hash: bytes | None = None
        self.idempotency_key: str | None = None
        self.created_at = 0
        self.start_at: int | None = None
        self.expire_at: int | None = None
        self.tags: str | None = None
        self.variables_json: str | None = None
        self.state: int = RunState.RUNNING
        self.output_json = ""
        self.error_message = ""
        self.ended_at: int | None = None
        self.cancel_reason = ""
        self.revision = 0
        self.progress = Progress(plan.graph)
        self.instance_ids: dict[int, str] = {}  # by step: the instance that was made for it
        self.outputs: dict[str, object] = {}  # by step id, only where a template reads it
        self.scope = Scope({}, self.outputs)
        self.taken_up = False  # whether a person has had it go on after it, or some of it, had ended
        self.is_new = True  # until its row is in a commit

    @property
    def steps_total(self) -> int:
        """How many steps it has."""
        return len(self.plan.steps)

    @property
    def steps_ended(self) -> int:
        """How many of them have ended."""
        return self.progress.ended

    def open_scope(self) -> None:
        """Prepares what templates read, from the inputs and what is known of the run."""
        inputs = json.loads(self.inputs_json) if self.inputs_json else {}
        time = datetime.fromtimestamp((self.start_at or self.created_at) / 1000, UTC).isoformat(timespec="milliseconds")
        facts = {"id": self.id, "workflow": self.workflow, "version": self.version, "tenant": self.tenant}
        variables = json.loads(self.variables_json) if self.variables_json else {}
        self.scope = Scope(inputs, self.outputs, facts, time, variables)

    def keep_output(self, step: int, output_json: str) -> None:
        """Keeps a step's output if a template reads it. It is JSON: what is none never became an output."""
        if step in self.plan.kept:
            self.outputs[self.plan.steps[step].id] = json.loads(output_json) if output_json else None

    def crowd(self, c: Cluster, label: str) -> Mapping[str, int]:
        """Returns how many of its attempts in flight run on each value of a label."""
        counts: dict[str, int] = {}
        for id in self.instance_ids.values():
            instance = c.instances.get(id)
            if instance is None or instance.phase != IN_FLIGHT:
                continue
            worker = c.fleet.workers.get(instance.worker_id)
            if worker is not None and worker.klass is not None:
                value = worker.klass.labels.get(label, "")
                counts[value] = counts.get(value, 0) + 1
        return counts

    def row(self) -> Row:
        """Returns RUN_COLUMNS."""
        return tuple(getattr(self, name) for name in RUN_COLUMNS)

    def update_row(self) -> Row:
        """Returns RUN_UPDATE."""
        return tuple(getattr(self, name) for name in RUN_UPDATE)
