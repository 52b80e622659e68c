"""What people do by hand to tasks and runs of the engine's machine: their rows are read, then the event is handled."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from engineinputs import RUN_STEPS
from enginekit import TENANT
from enginemodel import Model
from enginepost import PostLab
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from taskyard_core.engine.events import (
    Cancel,
    Complete,
    Mark,
    MarkStep,
    PauseWork,
    Prioritize,
    Refused,
    Requeue,
    ResumeWork,
    Retry,
    RetryRun,
)
from taskyard_core.pauses import Pause, PauseScope
from taskyard_core.records import ENDED, IN_FLIGHT, TaskState

S = TaskState
picks = st.integers(0, 1_000)
mostly = st.sampled_from((False, True, True))
"""Whether all that is on its way arrives at once."""


class HandRules(RuleBasedStateMachine):
    """The rules of it.

    Attributes:
        lab: The engine with its tables and workers.
        model: What must hold.
        operations: Events whose rows are read, and what they pinned.
        pinned: By events that are handled and not sealed yet.
        retried: Instances that somebody has had run again since the last seal.
    """

    lab: PostLab
    model: Model
    operations: list[tuple[Any, list[str]]]
    pinned: list[str]
    retried: set[str]

    @abstractmethod
    def _arrive(self, arrives: bool = True) -> None:
        """All that is on its way arrives."""

    @rule(pick=picks, again=st.booleans(), fitting=mostly, at_once=st.booleans())
    def ask_about(self, pick: int, again: bool, fitting: bool, at_once: bool) -> None:
        """A caller wants an instance cancelled or retried: it is pinned and its rows are read."""
        ids = self._to_retry() if again and fitting else self._to_cancel() if fitting else []
        ids = ids or sorted(self.lab.tables.instances)
        if not ids:
            return
        id = ids[pick % len(ids)]
        c, tables = self.lab.engine.cluster, self.lab.tables
        c.pin(id)
        row = c.instances.get(id) or tables.instance(id)
        event: Any = Retry("retry", id, row) if again else Cancel("cancel", id, "enough", row)
        pins = [id]
        if again and row.run_id:
            c.pin(row.run_id)
            pins.append(row.run_id)
            if row.run_id not in c.runs:
                event.run_row = tables.run_row(row.run_id)
                event.run_instances = tables.steps(row.run_id)
        self.operations.append((event, pins))
        if at_once:
            self.act_on(len(self.operations) - 1)
            self._arrive()

    @rule(pick=picks, what=st.sampled_from(("terminate", "requeue", "prioritize")), priority=st.integers(1, 10))
    def act_by_hand(self, pick: int, what: str, priority: int) -> None:
        """A person stops an instance without grace, gives it back to its queue, or gives it another place in it."""
        rows = self.lab.tables.instances.values()
        ids = sorted(row["id"] for row in rows if row["phase"] != ENDED) or sorted(self.lab.tables.instances)
        if not ids:
            return
        id = ids[pick % len(ids)]
        c = self.lab.engine.cluster
        c.pin(id)
        row = c.instances.get(id) or self.lab.tables.instance(id)
        events: dict[str, Any] = {
            "terminate": Cancel("cancel", id, "now", row, kill=True),
            "requeue": Requeue("requeue", id, row),
            "prioritize": Prioritize("prioritize", id, priority, row),
        }
        self.operations.append((events[what], [id]))
        self.act_on(len(self.operations) - 1)
        self.lab.seen[f"{what} by hand"] += 1

    @rule(pick=picks, state=st.sampled_from((S.SUCCESS, S.SKIPPED)), ended=st.booleans())
    def mark(self, pick: int, state: int, ended: bool) -> None:
        """A person says how an instance has ended, be it over or not."""
        rows = self.lab.tables.instances.values()
        ids = sorted(row["id"] for row in rows if (row["phase"] == ENDED) == ended)
        if not ids:
            return
        id = ids[pick % len(ids)]
        c, tables = self.lab.engine.cluster, self.lab.tables
        c.pin(id)
        row = c.instances.get(id) or tables.instance(id)
        event = Mark("mark", id, int(state), '{"v": 2}' if state == S.SUCCESS else "", "so it was", row)
        pins = [id]
        if row.run_id:
            c.pin(row.run_id)
            pins.append(row.run_id)
            if row.run_id not in c.runs:
                event.run_row, event.run_instances = tables.run_row(row.run_id), tables.steps(row.run_id)
        self.operations.append((event, pins))
        self.act_on(len(self.operations) - 1)

    @rule(pick=picks, step=st.integers(0, len(RUN_STEPS) - 1), state=st.sampled_from((S.SUCCESS, S.SKIPPED)))
    def mark_step(self, pick: int, step: int, state: int) -> None:
        """A person says how a step has ended, also one that has not begun."""
        tables, c = self.lab.tables, self.lab.engine.cluster
        ids = sorted(tables.runs)
        if not ids:
            return
        id = ids[pick % len(ids)]
        live = c.find_run(id)
        pins = [id, *(live.instance_ids.values() if live is not None else ())]
        for each in pins:
            c.pin(each)
        event = MarkStep("mark step", id, RUN_STEPS[step][0], int(state), "", "so it was")
        self.operations.append((event, pins))
        self.act_on(len(self.operations) - 1)

    @rule(pick=picks, failed=st.booleans(), early=st.booleans())
    def complete(self, pick: int, failed: bool, early: bool) -> None:
        """The result of an attempt comes from outside, be it waited for or not yet."""
        instances = self.lab.engine.cluster.instances.values()
        early_ones = [i for i in instances if i.phase == IN_FLIGHT] if early else []
        found = sorted(early_ones or (i for i in instances if i.state == S.DEFERRED))
        if not found:
            return
        instance = found[pick % len(found)]
        token, status = instance.token, int(S.FAILED if failed else S.SUCCESS)
        self.lab.engine.handle(Complete("complete", instance.id, token, status, '{"v": 3}'), self.lab.now)
        value = self.lab.engine.cluster.batch.answers[-1][1]
        if not isinstance(value, Refused):
            self.lab.seen["completed from outside"] += 1
            self.model.completed.add((instance.id, token))

    @rule(pick=picks, scope=st.sampled_from(PauseScope), end=st.booleans())
    def hold_back(self, pick: int, scope: PauseScope, end: bool) -> None:
        """Something is held back, or goes on."""
        c = self.lab.engine.cluster
        if end and (held := sorted(c.pauses, key=lambda pause: pause.key)):
            lifted = held[pick % len(held)]
            self.lab.engine.handle(ResumeWork("resume", lifted.tenant, lifted.scope, lifted.name), self.lab.now)
            self.lab.seen["resumed"] += 1
            return
        names = {
            PauseScope.QUEUE: sorted(key for _, key in c.queues),
            PauseScope.TASK_TYPE: ["b", "noop"],
            PauseScope.WORKFLOW: ["wf"],
            PauseScope.RUN: sorted(c.runs),
        }.get(scope, [""])
        if names:
            tenant = "" if scope == PauseScope.ALL else TENANT
            pause = Pause(tenant, scope, names[pick % len(names)], "", "ann", self.lab.now)
            self.lab.engine.handle(PauseWork("pause", pause), self.lab.now)
            self.lab.seen[f"paused {scope.name}"] += 1

    @rule(pick=picks, step=st.none() | st.integers(0, len(RUN_STEPS) - 1), at_once=st.booleans())
    def take_up_run(self, pick: int, step: int | None, at_once: bool) -> None:
        """A person has a run go on: from a step, or from all that ended badly."""
        tables, c = self.lab.tables, self.lab.engine.cluster
        ids = sorted(tables.runs)
        if not ids:
            return
        id = ids[pick % len(ids)]
        live = c.find_run(id)
        pins = [id, *(live.instance_ids.values() if live is not None else ())]
        for each in pins:
            c.pin(each)
        steps = () if step is None else (RUN_STEPS[step][0],)
        self.operations.append((RetryRun("take up", id, steps, tables.run_row(id), tables.steps(id)), pins))
        if at_once:
            self.act_on(len(self.operations) - 1)
            self._arrive()

    def _to_retry(self) -> list[str]:
        rows = self.lab.tables.instances.values()
        return sorted(row["id"] for row in rows if row["state"] in (S.FAILED, S.TIMEOUT, S.CANCELLED))

    def _to_cancel(self) -> list[str]:
        held = {id for worker in self.lab.engine.cluster.fleet.workers.values() for id in worker.attempts}
        return sorted(held & self.lab.tables.instances.keys())

    @precondition(lambda self: self.operations)
    @rule(pick=picks)
    def act_on(self, pick: int) -> None:
        """The rows are read: the event is handled."""
        event, pins = self.operations.pop(pick % len(self.operations))
        if isinstance(event, RetryRun | MarkStep):  # who asks reads again when the run went on meanwhile
            event.run_row = self.lab.tables.run_row(event.run_id)
            event.run_instances = self.lab.tables.steps(event.run_id)
        self.lab.engine.handle(event, self.lab.now)
        self.pinned += pins
        reply, value = self.lab.engine.cluster.batch.answers[-1]
        assert reply == event.reply
        if isinstance(event, Retry) and not isinstance(value, Refused):
            self.lab.seen["retried by hand"] += 1
            self.retried.add(event.task_id)
            instance = self.lab.engine.cluster.find(event.task_id)
            assert instance is not None
            self.model.reopened.add(instance.run_id)
        if isinstance(event, Mark | MarkStep) and not isinstance(value, Refused):
            self._note_mark(event, value)
        if isinstance(event, RetryRun) and not isinstance(value, Refused):
            self.lab.seen["run taken up"] += 1
            steps = [id for id, row in self.lab.tables.instances.items() if row["run_id"] == event.run_id]
            self.retried |= {*steps, *pins}
            self.model.reopened.add(event.run_id)

    def _note_mark(self, event: Mark | MarkStep, value: Any) -> None:
        id = event.task_id if isinstance(event, Mark) else value.task_id
        instance = self.lab.engine.cluster.find(id)
        assert instance is not None
        self.lab.seen[f"marked {S(event.state).name}"] += 1
        self.retried.add(id)
        self.model.reopened.add(instance.run_id)
