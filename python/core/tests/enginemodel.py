"""A model of the engine too simple to be wrong, and what must hold of the engine at any moment.

The model knows what was accepted, what workers told, and the committed rows; the rest is looked at afresh each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from enginepost import PostLab

from taskyard_core import ready
from taskyard_core.dag import StepState, TriggerRule
from taskyard_core.engine import Batch
from taskyard_core.engine.attempts import CANCELLED_KIND, MARKED_KIND
from taskyard_core.engine.effects import RECORDED, Ack
from taskyard_core.engine.events import Accepted, Hello, Result
from taskyard_core.engine.retries import step_state
from taskyard_core.records import (
    ASSIGNED,
    CANCELLING,
    DEFERRED,
    ENDED,
    IN_FLIGHT,
    INSTANCE_COLUMNS,
    INSTANCE_UPDATE,
    PENDING,
    QUEUED,
    READY,
    RUN_COLUMNS,
    RUN_UPDATE,
    RUNNING,
    Instance,
    RunState,
    TaskState,
    instance_row,
)
from taskyard_core.retry import FailureKind
from taskyard_core.selectors import Selector
from taskyard_core.transitions import WorkerState

S = TaskState
REFUSED = "the database did not take "
"""So begins the error message of a row that was refused and is stored without its text."""
REFUSABLE = {
    "instance_inserts": INSTANCE_COLUMNS,
    "instance_updates": INSTANCE_UPDATE,
    "run_inserts": RUN_COLUMNS,
    "run_updates": RUN_UPDATE,
}
"""The rows that carry text from outside, which a database may not take, and their columns."""


class Model:
    """What must have happened to the engine of a lab, told by who drives it; `check` compares the two."""

    def __init__(self, lab: PostLab) -> None:
        """Begins with nothing accepted and nothing committed."""
        self.lab = lab
        self.accepted: set[str] = set()
        self.runs: set[str] = set()
        self.reopened: set[str] = set()  # runs of which a step was retried
        self.going: set[str] = set()  # instances that a commit on its way deletes
        self.completed: set[tuple[str, str]] = set()  # attempts whose result came from outside
        self.told: list[tuple[str, Result]] = []  # every result ever reported, and by whom
        self.recorded: Counter[tuple[str, str]] = Counter()
        self.before: dict[str, dict[str, Any]] = {}  # rows as of the last commit
        self.left_out: set[str] = set()  # runs of which a step could not be stored at all
        self.sent: dict[object, set[str]] = {}  # tokens of what a stream's worker was given or said it has
        self.ordered: set[tuple[object, str]] = set()  # streams and the tokens that they were told to stop

    # What it is told.

    def note_commit(self, retried: set[str]) -> None:
        """A batch is in the tables; its events retried those instances."""
        tables = self.lab.tables
        for id, before in self.before.items():
            self._check_row(id, before, tables.instances.get(id), retried=id in retried)
        self.note_tables()
        self.attempts_are_kept()
        steps = [(row["run_id"], row["step_id"]) for row in tables.instances.values() if row["run_id"]]
        assert len(steps) == len(set(steps)), "a step has two instances"

    def note_tables(self) -> None:
        """What the tables hold now is committed."""
        self.before = {id: dict(values) for id, values in self.lab.tables.instances.items()}

    def note_sealed(self, batch: Batch) -> None:
        """A batch is closed; the orders in it leave with its commit."""
        self.ordered |= _orders(batch)
        c = self.lab.engine.cluster
        for going in batch.frames.values():
            stuck = going.worker_id in self.lab.silent
            assert not (going.assignments and stuck), f"{going.worker_id} is sent more of what it does not take up"
            for sent in going.assignments:
                assert not c.pauses.of_instance(sent.instance), f"{sent.instance} is sent though it is held back"
                assert sent.instance.policy.worker in ("", going.worker_id), f"{sent.instance} is sent to another"

    def note_refused(self, name: str, row: dict[str, Any]) -> None:
        """A row is about to be refused; a step whose text is left out already will not be stored."""
        if name == "instance_inserts" and row["error_message"].startswith(REFUSED):
            self.left_out.add(row["run_id"])

    def note_hello(self, event: Hello) -> None:
        """A worker's word on what it holds was taken in: all else is over, and what it should not hold is stopped.

        An exclusive attempt may be left to its lease, since the word may have been long on its way.
        """
        c = self.lab.engine.cluster
        worker = c.fleet.workers[event.worker_id]
        live = {(i.id, i.token) for i in worker.attempts.values()}
        plain = {(i.id, i.token) for i in worker.attempts.values() if not i.policy.exclusive}
        assert plain <= set(event.attempts), f"{worker} holds what it says it does not"
        ordered = _orders(c.batch)
        for id, token in event.attempts:
            assert (id, token) in live or (event.stream, token) in ordered, f"{worker} is not told to stop {id}"
        self.sent[event.stream] = {token for _, token in event.attempts}

    def note_answers(self, batch: Batch) -> None:
        """The frames, answers and acknowledgements of a batch have left."""
        for stream, going in batch.frames.items():
            self.sent.setdefault(stream, set()).update(sent.token for sent in going.assignments)
        for reply, value in batch.answers:
            if reply in ("submit", "run"):
                known = self.accepted if reply == "submit" else self.runs
                accepted = [outcome for outcome in value if isinstance(outcome, Accepted)]
                known.update(outcome.id for outcome in accepted)
                self.lab.seen["submission repeated"] += sum(outcome.repeated for outcome in accepted)
        acks: list[Ack] = [ack for going in batch.frames.values() for ack in going.acks]
        acks += [ack for reply, value in batch.answers if reply == "acks" for ack in value]
        for ack in acks:
            self.lab.seen[f"result {'recorded' if ack.outcome == RECORDED else 'not wanted'}"] += 1
            if ack.outcome == RECORDED:
                self.recorded[ack.task_id, ack.token] += 1
                assert self.recorded[ack.task_id, ack.token] == 1, "a result is recorded twice"

    def _check_row(self, id: str, before: dict[str, Any], after: dict[str, Any] | None, *, retried: bool) -> None:
        if after is None:
            assert before["run_id"] in self.reopened, "an instance is gone"
            return
        assert after["attempt"] >= before["attempt"]
        if before["phase"] == ENDED and not retried:
            assert after == before, "an ended instance has changed"
        if after["attempt"] == before["attempt"] and before["token"]:
            assert after["token"] in ("", before["token"])
        if before["state"] == CANCELLING and before["error_kind"] == CANCELLED_KIND and not retried:
            assert after["attempt"] == before["attempt"], "a cancelled task ran again"
            assert after["phase"] in (IN_FLIGHT, ENDED), "a cancelled task goes on"

    def check(self, sealed: Iterable[Batch]) -> None:
        """Asks for everything that must hold after each step.

        Args:
            sealed: The batches that are not in the tables yet.
        """
        on_the_way = list(sealed)
        in_flight = bool(on_the_way)
        on_the_way.append(self.lab.engine.cluster.batch)
        self.going = {id for batch in on_the_way for _, id in batch.changes.instance_deletes}
        self.nothing_accepted_is_lost()
        self.success_was_told()
        self.ledgers_are_true()
        self.queues_are_true()
        self.every_live_instance_is_in_one_place()
        self.nothing_waits_without_a_timer()
        self.what_waits_can_say_why()
        self.workers_know_what_is_over()
        self.exclusive_attempts_are_alone()
        if not in_flight:
            self.what_changed_is_marked()
        self.steps_follow_their_rules()

    # What must hold of what is committed.

    def nothing_accepted_is_lost(self) -> None:
        assert self.accepted <= set(self.lab.tables.instances)
        assert self.runs <= set(self.lab.tables.runs)

    def success_was_told(self) -> None:
        told = {(result.task_id, result.token) for _, result in self.told if result.status == S.SUCCESS}
        for id, row in self.lab.tables.instances.items():
            if row["state"] == S.SUCCESS and row["error_kind"] != MARKED_KIND:
                assert (id, row["token"]) in told | self.completed

    def attempts_are_kept(self) -> None:
        attempts = self.lab.tables.attempts
        for id, row in self.lab.tables.instances.items():
            last = row["attempt"] if row["token"] else row["attempt"] + 1
            missing = [number for number in range(1, last) if (id, number) not in attempts]
            assert not missing, f"attempts {missing} of {id} are not kept"

    # What must hold of memory.

    def _instances(self) -> Iterator[Instance]:
        return (i for i in self.lab.engine.cluster.instances.values() if i.phase != ENDED)

    def ledgers_are_true(self) -> None:
        c = self.lab.engine.cluster
        held: dict[str, set[str]] = {id: set() for id in c.fleet.workers}
        for instance in self._instances():
            if instance.phase == IN_FLIGHT:
                held[instance.worker_id].add(instance.id)
        for id, worker in c.fleet.workers.items():
            assert held[id] == set(worker.attempts)
            assert worker.sent <= worker.credit_limit or worker.stream is None
            assert len(worker.attempts) <= worker.registration.max_concurrency
            policies = [instance.policy for instance in worker.attempts.values()]
            assert worker.cpu == sum(policy.cpu_millis for policy in policies) <= worker.registration.cpu_millis
        assert c.fleet.healthy == sum(w.state == WorkerState.HEALTHY for w in c.fleet.workers.values())
        assert all(i.phase != ENDED or i.id in c.pins for i in c.instances.values()), "an ended instance stays"
        tokens = [i.token for i in self._instances() if i.phase == IN_FLIGHT]
        assert all(tokens)
        assert len(tokens) == len(set(tokens))

    def queues_are_true(self) -> None:
        c = self.lab.engine.cluster
        waiting: Counter[tuple[str, str]] = Counter()
        for instance in self._instances():
            if instance.state == QUEUED:
                waiting[instance.tenant, instance.queue] += 1
        for name, queue in c.queues.items():
            entries = [e[2] for e in queue.entries() if ready._waits(e) and e[2].id in c.instances]
            assert len({e.id for e in entries}) == len(entries) == queue.live
            assert waiting[name] == queue.live + len(queue.held)
            assert all(each.state == QUEUED and c.pauses.of_instance(each) for each in queue.held.values())
            assert queue.head_bytes == sum(ready._size(e) for e in entries)
            if queue.live:
                assert queue.spilled or queue in c.active or queue in c.starved or queue.waiting
        assert all(name in c.queues for name in waiting)

    def every_live_instance_is_in_one_place(self) -> None:
        c = self.lab.engine.cluster
        live: dict[str, tuple[int, str, str]] = {}
        for id, row in self.lab.tables.instances.items():
            live[id] = (row["phase"], row["tenant"], row["queue"])
        for changed in reversed(list(c.uncommitted())):
            for id, instance in changed.items():
                live[id] = (instance.phase, instance.tenant, instance.queue)
        spilled: Counter[tuple[str, str]] = Counter()
        for id, (phase, tenant, key) in live.items():
            if phase != ENDED and id not in c.instances and id not in self.going:
                assert phase == READY, f"{id} of phase {phase} is not in memory"
                spilled[tenant, key] += 1
        for name, queue in c.queues.items():
            away = queue.spilled + queue.held_beyond
            assert away == spilled[name], f"{name}: {away} in SQL only, it says; {spilled[name]} are"
            assert not queue.spilled or queue.floor is not None

    def nothing_waits_without_a_timer(self) -> None:
        c = self.lab.engine.cluster
        for i in self._instances():
            assert i.retries < max(1, i.policy.retry.max_attempts), f"{i}: more attempts than its policy allows"
            if i.state == DEFERRED:
                assert (c.timers.deadline(i.id) or 1 << 62) <= (i.not_before or 0), f"{i}: its wait has no end"
            if i.state == PENDING:
                assert c.timers.deadline(i.id) == i.not_before, f"{i}: its timer is not of its retry"
            waits_for_steps = i.state == PENDING and i.not_before is None and i.run_id
            if (i.state in (PENDING, RUNNING) and not waits_for_steps) or (i.state == ASSIGNED and not i.fencing):
                assert i.id in c.timers, f"{i} has no timer"
            if i.state == QUEUED and i.policy.waits:
                assert i.id in c.timers, f"{i} has no timer"
            if i.phase == IN_FLIGHT:
                due = c.timers.deadline("l:" + i.worker_id) or 1 << 62
                assert due <= max(i.lease_until, c.now + 1), f"{i}: no lease timer"
            if i.state == CANCELLING or i.fencing:
                assert i.lease_until <= c.now + c.limits.lease_ms
        for worker in c.fleet.workers.values():
            assert worker.silence_key in c.timers
            if worker.state in (WorkerState.HEALTHY, WorkerState.DRAINING, WorkerState.EXPECTED):
                due = c.timers.deadline(worker.silence_key) or 1 << 62
                assert due <= c.now + c.limits.silence_ms, f"{worker}: nobody would notice its silence"

    def leases_have_ended(self) -> None:
        """Asks, after time was told, whether every lease that is over has had its consequence.

        One that a worker's word found over has it in the next millisecond.
        """
        c = self.lab.engine.cluster
        over = [
            i
            for i in self._instances()
            if i.phase == IN_FLIGHT and i.lease_until < c.now and c.timers.deadline("l:" + i.worker_id) != c.now + 1
        ]
        assert not over, f"the leases of {over} are over"

    def what_waits_can_say_why(self) -> None:
        for i in self._instances():
            if i.state in (PENDING, QUEUED, DEFERRED):
                assert self.lab.engine.explain(i.id, self.lab.now), f"{i} waits and does not say why"

    def workers_know_what_is_over(self) -> None:
        """No worker is left, on an open stream, with an attempt that it is to stop."""
        c = self.lab.engine.cluster
        ordered = self.ordered | _orders(c.batch)
        told = {result.token for _, result in self.told}
        for worker in c.fleet.workers.values():
            stream = worker.stream
            live = {i.token for i in worker.attempts.values()}
            for token in self.sent.get(stream, set()) - live - told:
                assert (stream, token) in ordered, f"{worker} is left with what is over"
            for i in worker.attempts.values():
                stopping = i.state == CANCELLING and stream is not None
                assert not stopping or (stream, i.token) in ordered, f"{worker} is not told to stop {i}"

    def exclusive_attempts_are_alone(self) -> None:
        """Asks for no two attempts that may be alive. To be asked at each seal, before anything of it leaves.

        At the end of a step it would be too late: the order to stop the earlier attempt may arrive with the later one.
        """
        for i in self._instances():
            if i.phase == IN_FLIGHT and i.policy.exclusive:
                self.lab.seen["exclusive attempt awaited"] += i.fencing
                for worker in self.lab.workers.values():
                    alone = worker.held.get(i.id) in (None, i.token) or not worker.runs_alone(i.id)
                    assert alone, f"{i} runs while {worker.id} still may"

    def what_changed_is_marked(self) -> None:
        c, tables = self.lab.engine.cluster, self.lab.tables
        for id, instance in c.instances.items():
            deleted = id not in tables.instances and instance.run_id in self.reopened
            if deleted and instance.phase == ENDED and id in c.pins:
                continue  # its row went when a step above it was retried, while somebody read it
            if id in self.going:
                continue  # the same, before that commit
            if id not in c.new and id not in c.dirty and not _is_refused(tables.instances[id]):
                assert instance_row(instance) == tables.row(id)[:-2], f"{instance} changed unnoticed"

    def steps_follow_their_rules(self) -> None:
        c = self.lab.engine.cluster
        apart = self.left_out | {row["run_id"] for row in self.lab.tables.instances.values() if _is_refused(row)}
        for run in c.runs.values():
            if run.id in apart:
                continue  # it went on from what memory knew, and a step was stored otherwise
            states = []
            for n in range(len(run.plan.steps)):
                id = run.instance_ids.get(n)
                instance = c.find(id) if id else None
                if instance is None and id in self.lab.tables.instances:
                    instance = self.lab.tables.instance(id)
                states.append(StepState.WAITING if instance is None else StepState(step_state(instance)))
            assert run.state != RunState.RUNNING or any(state <= 1 for state in states)
            for n, state in enumerate(states):
                wanted = expected(run.plan.graph.rules[n], [states[up] for up in run.plan.graph.upstream[n]])
                if run.id in self.reopened or run.state == RunState.CANCELLING:
                    assert wanted != StepState.READY or n in run.instance_ids or run.state == RunState.CANCELLING
                elif wanted in (StepState.SKIPPED, StepState.UPSTREAM_FAILED, StepState.WAITING):
                    assert state == wanted
                else:
                    assert n in run.instance_ids

    def dispatch_is_complete(self) -> None:
        """After a pass nothing waits that somebody would take."""
        c = self.lab.engine.cluster
        for instance in self._instances():
            if instance.state != QUEUED or c.pauses.of_instance(instance):
                continue
            queue = c.queues[instance.tenant, instance.queue]
            for worker in c.fleet.workers.values():
                has = worker.registration
                takes = (
                    worker.room() > 0
                    and instance.policy.worker in ("", worker.id)
                    and worker.fits(instance.policy)
                    and instance.task_type not in worker.rejected
                    and ("*" in has.capabilities or instance.task_type in has.capabilities)
                    and Selector.parse(instance.policy.selector or "").matches(dict(has.labels))
                )
                assert not takes, f"{instance} waits although {worker} would take it; {list(queue.entries())}"


def _orders(batch: Batch) -> set[tuple[object, str]]:
    return {(stream, order.token) for stream, going in batch.frames.items() for order in going.cancels}


def refusable(batch: Batch, name: str) -> list[dict[str, Any]]:
    """Returns the rows that may be refused: updates so long as they have text, for without it they are taken."""
    rows = [dict(zip(REFUSABLE[name], row, strict=True)) for row in getattr(batch.changes, name)]
    return [row for row in rows if name.endswith("inserts") or not row["error_message"].startswith(REFUSED)]


def _is_refused(row: dict[str, Any]) -> bool:
    """Tells whether a stored row is not what memory has, since the database did not take that."""
    return bool(row["error_kind"] == FailureKind.RESULT_NOT_STORABLE and row["error_message"].startswith(REFUSED))


def expected(rule: TriggerRule, upstream: list[StepState]) -> StepState:
    """Decides as the rules are written down."""
    failed = any(state in (StepState.FAILED, StepState.UPSTREAM_FAILED, StepState.CANCELLED) for state in upstream)
    ended = all(state > StepState.READY for state in upstream)
    if not upstream or (rule is TriggerRule.ALL_DONE and ended):
        return StepState.READY
    if rule is TriggerRule.ALL_DONE:
        return StepState.WAITING
    if rule is TriggerRule.ONE_SUCCESS:
        if StepState.SUCCESS in upstream:
            return StepState.READY
        return StepState.WAITING if not ended else StepState.UPSTREAM_FAILED if failed else StepState.SKIPPED
    if rule is TriggerRule.ONE_FAILED:
        if StepState.FAILED in upstream or StepState.UPSTREAM_FAILED in upstream:
            return StepState.READY
        return StepState.SKIPPED if ended else StepState.WAITING
    if failed:
        return StepState.UPSTREAM_FAILED
    if not ended:
        return StepState.WAITING
    skipped = StepState.SKIPPED in upstream and rule is TriggerRule.ALL_SUCCESS
    return StepState.SKIPPED if skipped else StepState.READY
