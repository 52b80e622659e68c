"""What is held back by hand, and which waiting work that concerns. Not how work waits: see `ready` and `dispatch`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from taskyard_core.records import Instance, Row

if TYPE_CHECKING:
    from taskyard_core.ready import ReadyQueue


class PauseScope(IntEnum):
    """How much is held back. The numbers are those of `taskyard.v1.PauseScope`."""

    QUEUE = 1
    """The tasks of one ready queue, by its key."""
    TASK_TYPE = 2
    """All tasks of a type."""
    WORKFLOW = 3
    """The steps of all runs of a workflow."""
    RUN = 4
    """The steps of one run. Ends with the run."""
    TENANT = 5
    """All of the tenant's tasks; its name is empty."""
    ALL = 6
    """All tasks of all tenants; its tenant and its name are empty."""


OF_RUNS = (PauseScope.WORKFLOW, PauseScope.RUN)
"""Scopes that hold back some tasks of a queue; the others hold back whole queues."""

PauseKey = tuple[str, int, str]


class HeldRuns(NamedTuple):
    """The names of workflows and the ids of runs whose steps are held back."""

    workflows: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


NONE_HELD = HeldRuns()


@dataclass(frozen=True, slots=True)
class Pause:
    """Something that is held back. `created_at`: since when, Unix milliseconds."""

    tenant: str
    scope: PauseScope
    name: str
    reason: str
    paused_by: str
    created_at: int

    @property
    def key(self) -> PauseKey:
        """Tells it from all others."""
        return self.tenant, int(self.scope), self.name

    def row(self) -> Row:
        """Returns PAUSE_COLUMNS."""
        return (*self.key, self.reason, self.paused_by, self.created_at)

    @staticmethod
    def from_row(row: Row) -> Pause:
        """Makes it of PAUSE_COLUMNS."""
        tenant, scope, name, reason, paused_by, created_at = row
        return Pause(tenant, PauseScope(scope), name, reason, paused_by, created_at)


class Pauses:
    """All that is held back, of all tenants."""

    __slots__ = ("_all", "any", "of_runs")

    def __init__(self) -> None:
        self._all: dict[PauseKey, Pause] = {}
        self.any = False  # these two are asked on the hot path
        self.of_runs = False

    def __iter__(self) -> Iterator[Pause]:
        return iter(self._all.values())

    def add(self, pause: Pause) -> None:
        """Holds something back, or gives it another reason."""
        self._all[pause.key] = pause
        self._note()

    def remove(self, key: PauseKey) -> Pause | None:
        """Lets something go on; None when it is not held back by itself."""
        found = self._all.pop(key, None)
        self._note()
        return found

    def get(self, tenant: str, scope: int, name: str = "") -> Pause | None:
        """Returns the pause of exactly that."""
        return self._all.get((tenant, int(scope), name))

    def of_queue(self, queue: ReadyQueue) -> Pause | None:
        """Returns what holds back all tasks of a queue, the widest first; None when nothing does."""
        return self.of_tasks(queue.tenant, queue.task_type, queue.key)

    def of_tasks(self, tenant: str, task_type: str, queue: str) -> Pause | None:
        """Returns what holds back all tasks of a tenant, type and queue key, the widest first."""
        return next(self._of_tasks(tenant, task_type, queue), None)

    def _of_tasks(self, tenant: str, task_type: str, queue: str) -> Iterator[Pause]:
        keys: tuple[PauseKey, ...] = (
            ("", PauseScope.ALL, ""),
            (tenant, PauseScope.TENANT, ""),
            (tenant, PauseScope.TASK_TYPE, task_type),
            (tenant, PauseScope.QUEUE, queue),
        )
        return (self._all[key] for key in keys if key in self._all)

    def of_run(self, tenant: str, workflow: str, run_id: str) -> Pause | None:
        """Returns what holds back a run: its workflow's pause, or its own."""
        return self.get(tenant, PauseScope.WORKFLOW, workflow) or self.get(tenant, PauseScope.RUN, run_id)

    def held_runs(self, tenant: str) -> HeldRuns:
        """Returns which workflows and runs of a tenant are held back."""
        if not self.of_runs:
            return NONE_HELD
        held = [pause for pause in self if pause.tenant == tenant]
        workflows = tuple(sorted(pause.name for pause in held if pause.scope == PauseScope.WORKFLOW))
        return HeldRuns(workflows, tuple(sorted(pause.name for pause in held if pause.scope == PauseScope.RUN)))

    def of_instance(self, instance: Instance) -> list[Pause]:
        """Returns all that holds back an instance, the widest first."""
        if not self.any:
            return []
        found = list(self._of_tasks(instance.tenant, instance.task_type, instance.queue))
        return (
            found + self.all_of_run(instance.tenant, instance.workflow, instance.run_id) if instance.run_id else found
        )

    def all_of_run(self, tenant: str, workflow: str, run_id: str) -> list[Pause]:
        """Returns all that holds back a run, the widest first."""
        pauses = (self.get(tenant, PauseScope.WORKFLOW, workflow), self.get(tenant, PauseScope.RUN, run_id))
        return [pause for pause in pauses if pause is not None]

    def _note(self) -> None:
        self.any = bool(self._all)
        self.of_runs = any(pause.scope in OF_RUNS for pause in self._all.values())
