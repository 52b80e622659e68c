"""The promises, broken on purpose: each mutation changes real code in one place and must be caught by the checker.

A checker that lets one through proves nothing by passing without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from taskyard_core.dag import progress as dag_progress
from taskyard_core.dag.rules import AT_LAST, READY
from taskyard_core.engine import attempts, engine, marks, recovery, runs, sessions, timing
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import When
from taskyard_core.fleet import Fleet, Worker
from taskyard_core.pauses import Pauses
from taskyard_core.records import CANCELLING, DEFERRED, ENDED, IN_FLIGHT, PENDING, RUNNING, Phase
from taskyard_core.retry import FailureKind, next_retry
from taskyard_core.transitions import WorkerState
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.store.memory import MemoryStore
from taskyard_worker.outbox import Outbox
from taskyard_worker.session import Session
from taskyard_worker.work import Work

Place = tuple[Any, str, Any]
"""What is replaced: the owner, the attribute's name, the replacement."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One broken promise.

    `guarantee`: its number in the list of guarantees. `faults`: kinds that bring it to light; empty: any may.
    """

    name: str
    guarantee: int
    places: Callable[[], list[Place]]
    faults: tuple[str, ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Has the code broken meanwhile."""
        with ExitStack() as stack:
            for owner, name, replacement in self.places():
                stack.enter_context(patch.object(owner, name, replacement))
            yield


ALL: dict[str, Mutation] = {}


def mutation(guarantee: int, *faults: str) -> Callable[[Callable[[], list[Place]]], Callable[[], list[Place]]]:
    """Registers a function that returns what to replace; its first line of documentation is the name."""

    def register(places: Callable[[], list[Place]]) -> Callable[[], list[Place]]:
        name = (places.__doc__ or places.__name__).split("\n")[0].rstrip(".")
        ALL[name] = Mutation(name, guarantee, places, faults)
        return places

    return register


def nothing(*_args: Any, **_settings: Any) -> None:
    """Does nothing in the place of something."""


# 1. Nothing accepted is lost.


def _early(send: Callable[[Leader, Any], None]) -> list[Place]:
    begin = Leader._begin

    def hasty(self: Leader, batch: Any) -> Any:
        send(self, batch)
        return begin(self, batch)

    return [(Leader, "_begin", hasty)]


@mutation(1)
def answer_before_commit() -> list[Place]:
    """Answers callers before the commit."""

    def send(_leader: Leader, batch: Any) -> None:
        for future, value in batch.answers:
            if not future.done():
                future.set_result(value)

    return _early(send)


def _frames_early(keep: str) -> list[Place]:
    from taskyard_core.engine.effects import Outgoing
    from taskyard_scheduler.egress.assignments import frame

    def send(leader: Leader, batch: Any) -> None:
        for stream, outgoing in batch.frames.items():
            part = Outgoing(outgoing.worker_id)
            getattr(part, keep).extend(getattr(outgoing, keep))
            stream.send(frame(part, leader._lease_ms, leader._grace_ms))
            getattr(outgoing, keep).clear()

    return _early(send)


@mutation(1)
def ack_before_commit() -> list[Place]:
    """Acknowledges results before the commit."""
    return _frames_early("acks")


@mutation(1)
def checkpoint_ack_before_commit() -> list[Place]:
    """Acknowledges checkpoints before the commit."""
    return _frames_early("checkpoint_acks")


@mutation(1)
def watchers_before_commit() -> list[Place]:
    """Shows changes to watchers before the commit."""

    def send(leader: Leader, batch: Any) -> None:
        leader.watches.publish(batch.changes.revision, batch.touched, batch.touched_runs)

    return _early(send)


@mutation(1, "leader killed")
def recovery_forgets_pending() -> list[Place]:
    """A new leader forgets what waits for its retry."""
    restore = engine.Engine.restore_instance

    def forgetful(self: engine.Engine, instance: Any) -> None:
        if instance.state != PENDING:
            restore(self, instance)

    return [(engine.Engine, "restore_instance", forgetful)]


@mutation(1, "streams cut")
def results_not_repeated() -> list[Place]:
    """A worker does not send unacknowledged results again."""
    return [(Outbox, "send_again", nothing)]


@mutation(1)
def request_ids_forgotten() -> list[Place]:
    """Request ids are not remembered."""
    return [(Cluster, "remember_request", nothing)]


@mutation(1)
def keys_forgotten() -> list[Place]:
    """Idempotency keys are not remembered, and not looked up."""
    from taskyard_scheduler.store.memory import MemoryStore as Store

    async def find(self: Any, *_args: Any) -> dict[str, Any]:
        return {}

    return [(Cluster, "remember_key", nothing), (Store, "find_keys", find)]


# 2. A result is recorded once; executions have valid attempts.


@mutation(2, "worker paused", "half-open stream")
def accepts_stale_tokens() -> list[Place]:
    """A result is taken whatever attempt it is of."""
    result = attempts.result

    def credulous(c: Cluster, worker: Worker, told: Any) -> Any:
        instance = c.instances.get(told.task_id)
        if instance is None or instance.phase != IN_FLIGHT:
            return result(c, worker, told)
        token, told.token = told.token, instance.token
        ack = result(c, c.fleet.workers[instance.worker_id], told)
        return ack._replace(token=token)

    return [(attempts, "result", credulous)]


@mutation(2)
def assigns_before_commit() -> list[Place]:
    """Sends assignments before the commit."""
    return _frames_early("assignments")


@mutation(2, "doubled messages")
def runs_repeats() -> list[Place]:
    """A worker runs an assignment again that is repeated to it."""
    take = Work._take

    def naive(self: Work, assignments: Any) -> None:
        for assignment in assignments:
            kept = self._running.pop(assignment.attempt_token, None)
            take(self, [assignment])
            if kept is not None:
                self._running.setdefault(assignment.attempt_token, kept)

    return [(Work, "_take", naive)]


@mutation(2, "half-open stream", "slow link")
def exclusive_not_awaited() -> list[Place]:
    """An exclusive attempt that was not started in time is replaced without waiting for its lease."""

    def hasty(c: Cluster, instance: Any) -> None:
        attempts.never_started(c, instance, "it did not start in time")

    return [(timing, "_start_due", hasty)]


@mutation(2, "worker paused")
def leases_ignored_by_watchdog() -> list[Place]:
    """An exclusive attempt is not killed before its lease ends."""
    from simulation.handlers import Machine

    return [(Machine, "_lease_over", nothing)]


@mutation(2)
def attempts_without_limit() -> list[Place]:
    """Failures are retried beyond the policy's limit."""
    retry = next_retry

    def generous(policy: Any, *rest: Any) -> Any:
        return retry(replace(policy, max_attempts=policy.max_attempts + 1), *rest)

    return [(attempts, "next_retry", generous)]


@mutation(2)
def requeue_without_archive() -> list[Place]:
    """An attempt that was interrupted is not kept."""
    archive = attempts.archive

    def careless(c: Cluster, instance: Any, status: int) -> None:
        if status != attempts.INTERRUPTED:
            archive(c, instance, status)

    return [(attempts, "archive", careless)]


# 3. Ownership changes in one transaction.


@mutation(3)
def slot_not_released() -> list[Place]:
    """The slot of a cancelled attempt is not released."""
    release = Cluster.release

    def leaky(self: Cluster, instance: Any) -> None:
        if instance.state != CANCELLING:
            release(self, instance)

    return [(Cluster, "release", leaky)]


@mutation(3)
def resources_not_released() -> list[Place]:
    """An attempt's resources are not given back."""
    release = Fleet.release

    def leaky(self: Fleet, worker: Worker, instance: Any) -> bool:
        held = worker.cpu
        known = release(self, worker, instance)
        worker.cpu = held
        return known

    return [(Fleet, "release", leaky)]


@mutation(3)
def dirty_mark_dropped() -> list[Place]:
    """A start is noted in memory and never written."""
    start = attempts.start

    def forgetful(c: Cluster, worker: Worker, task_id: str, token: str) -> None:
        start(c, worker, task_id, token)
        instance = c.instances.get(task_id)
        if instance is not None and instance.state == RUNNING:
            c.dirty.pop(task_id, None)

    return [(attempts, "start", forgetful)]


@mutation(3)
def credits_ignored() -> list[Place]:
    """Tasks are sent beyond the credits."""

    def roomy(self: Worker) -> int:
        if self.state != WorkerState.HEALTHY or self.stream is None:
            return 0
        return self.registration.max_concurrency + 1 - len(self.attempts)

    return [(Worker, "room", roomy)]


@mutation(3)
def step_made_twice() -> list[Place]:
    """A step that becomes ready becomes two instances."""
    decide = runs._decide

    def twice(c: Cluster, run: Any, decisions: Any, failed: list[int]) -> None:
        decide(c, run, [decision for decision in decisions for _ in range(2)], failed)

    return [(runs, "_decide", twice)]


@mutation(3)
def trigger_rule_wrong() -> list[Place]:
    """A step that waits for a failure starts without one."""
    table = list(AT_LAST)
    table[3] = (READY, READY, READY, READY)
    return [(dag_progress, "AT_LAST", tuple(table))]


@mutation(3)
def retry_timer_lost() -> list[Place]:
    """The timer of a retry is lost."""
    wait = attempts.wait

    def forgetful(c: Cluster, instance: Any, due: int) -> None:
        wait(c, instance, due)
        if instance.state == PENDING:
            c.timers.cancel(instance.id)

    return [(attempts, "wait", forgetful)]


@mutation(3)
def retries_early() -> list[Place]:
    """A retry does not wait its time."""
    wait = attempts.wait

    def hasty(c: Cluster, instance: Any, due: int) -> None:
        wait(c, instance, due)
        if instance.state == PENDING:
            c.timers.arm(instance.id, c.now + (due - c.now) // 2)

    return [(attempts, "wait", hasty)]


# 5. Stop means stop.


@mutation(5)
def cancel_not_durable() -> list[Place]:
    """A cancel is answered and not written."""
    cancel = attempts.cancel

    def light(c: Cluster, instance: Any, reason: str, kind: str = attempts.CANCELLED_KIND) -> None:
        cancel(c, instance, reason, kind)
        if instance.phase != ENDED:
            c.dirty.pop(instance.id, None)

    return [(attempts, "cancel", light)]


@mutation(5)
def stop_not_pushed() -> list[Place]:
    """A worker is not told to stop."""
    return [(Cluster, "order_stop", nothing)]


@mutation(5)
def cancelled_runs_again() -> list[Place]:
    """A cancelled attempt whose worker is lost is followed by another."""

    def stubborn(c: Cluster, instance: Any, message: str) -> None:
        attempts.failure(c, instance, FailureKind.WORKER_LOST, message)

    return [(attempts, "confirm_cancel", stubborn)]


@mutation(5)
def paused_goes_on() -> list[Place]:
    """A type that is paused is dispatched all the same."""
    return [(Pauses, "of_tasks", nothing)]


@mutation(5)
def paused_runs_go_on() -> list[Place]:
    """The steps of a paused workflow are dispatched all the same."""
    return [(Pauses, "of_run", nothing)]


@mutation(5, "leader killed")
def pauses_are_forgotten() -> list[Place]:
    """A new leader does not know what is paused."""
    return [(recovery, "restore_pause", nothing)]


@mutation(5)
def mark_is_a_cancel() -> list[Place]:
    """What is marked while it runs ends as cancelled."""
    return [(attempts, "MARKED", {})]


@mutation(2)
def any_token_completes() -> list[Place]:
    """A result from outside counts for whatever attempt there is."""
    refuse = marks._not_completed

    def lenient(instance: Any, event: Any) -> Any:
        return refuse(instance, replace(event, token=instance.token)) if instance is not None else None

    return [(marks, "_not_completed", lenient)]


@mutation(1)
def waits_for_ever() -> list[Place]:
    """Nobody notices that a result from outside does not come."""
    arm = Cluster.arm_waiting

    def but_for_results(self: Cluster, instance: Any) -> None:
        if instance.state != DEFERRED:
            arm(self, instance)

    return [(Cluster, "arm_waiting", but_for_results)]


@mutation(2)
def anyone_will_do() -> list[Place]:
    """What one worker alone may run goes to whoever has room."""
    choose = Fleet.choose

    def carelessly(self: Fleet, queue: Any, instance: Any, spread: Any) -> Any:
        return self._least(queue, instance.policy, queue.classes, None) or choose(self, queue, instance, spread)

    return [(Fleet, "choose", carelessly)]


# 6. One leader writes.


@mutation(6, "leader deposed, told late")
def term_not_proved() -> list[Place]:
    """A commit does not prove its term."""
    commit = MemoryStore._commit

    def trusting(self: MemoryStore, term: int, changes: Any) -> None:
        commit(self, self._database.term, changes)

    return [(MemoryStore, "_commit", trusting)]


# 7. Every dependency may vanish and return.


@mutation(7, "worker gone for good", "worker killed")
def leases_never_end() -> list[Place]:
    """Leases never end."""
    return [(sessions, "lease_due", sessions.arm_lease)]


@mutation(7, "half-open stream")
def starts_not_awaited() -> list[Place]:
    """Nobody notices that a start is not acknowledged."""
    return [(timing, "_start_due", nothing)]


@mutation(7, "half-open stream")
def no_fence_at_start_timeout() -> list[Place]:
    """An attempt that was not started in time is replaced, and its worker is not told."""
    stop = Cluster.order_stop

    def quiet(self: Cluster, instance: Any, reason: str) -> None:
        if reason != "fenced":
            stop(self, instance, reason)

    return [(Cluster, "order_stop", quiet)]


@mutation(7)
def hello_ignored() -> list[Place]:
    """What a worker says it holds is ignored when it comes back."""

    def deaf(c: Cluster, worker: Worker, _held: Any) -> None:
        sessions.arm_lease(c, worker)

    return [(sessions, "reconcile", deaf)]


@mutation(7, "worker drained")
def deregistration_drops_tasks() -> list[Place]:
    """What a leaving worker still holds is not queued again."""

    def remove(c: Cluster, worker: Worker) -> None:
        c.timers.cancel(worker.silence_key)
        c.timers.cancel(worker.lease_key)
        for instance in worker.attempts.values():
            c.timers.cancel(instance.id)
        worker.attempts.clear()
        original(c, worker)

    original = sessions.remove

    def deregister(c: Cluster, event: Any) -> Any:
        verdict = sessions.standing(c, event.worker_id, event.epoch)
        if verdict in (sessions.Standing.GOOD, sessions.Standing.NO_STREAM):
            remove(c, c.fleet.workers[event.worker_id])
            c.batch.answers.append((event.reply, True))
        return verdict

    return [(sessions, "deregister", deregister)]


@mutation(7, "stream lost unnoticed")
def streams_not_reopened() -> list[Place]:
    """A worker does not open another stream when the scheduler does not see the one it has."""

    async def reopen(self: Session) -> None:
        await asyncio.sleep(0)

    return [(Session, "reopen", reopen)]


@mutation(7)
def waiting_rows_not_read() -> list[Place]:
    """A new leader does not read back what waits in the database alone."""

    def wants(_self: Leader) -> bool:
        return False

    return [(Leader, "_wants_refill", wants)]


# 4. What is due later begins at its time, and not before.


@mutation(4)
def due_at_once() -> list[Place]:
    """What is due later is due at once."""

    def at_once(_self: When, _now: int) -> int:
        return 0

    return [(When, "due", at_once)]


@mutation(4, "leader killed")
def time_forgotten() -> list[Place]:
    """A new leader does not know when a task is due."""
    restore = recovery.restore_instance

    def early(c: Cluster, instance: Any) -> None:
        if instance.state == PENDING and not instance.attempt:
            instance.not_before = c.now
        restore(c, instance)

    return [(recovery, "restore_instance", early)]


# 8. Every waiting instance can say why.


@mutation(8)
def says_nothing() -> list[Place]:
    """A waiting instance gives no reason."""

    def silent(_c: Cluster, _instance: Any) -> list[Any]:
        return []

    return [(engine, "explain", silent)]


@mutation(8)
def queued_timeout_lost() -> list[Place]:
    """Nobody notices that a task has waited too long."""
    arm = Cluster.arm_waiting

    def for_its_time_only(self: Cluster, instance: Any) -> None:
        if instance.state == PENDING:
            arm(self, instance)

    return [(Cluster, "arm_waiting", for_its_time_only)]


# 9. Growth is bounded.


@mutation(9)
def ended_stay_in_memory() -> list[Place]:
    """Ended instances stay in memory."""
    forget = Cluster.forget

    def hoarding(self: Cluster, instance: Any) -> None:
        forget(self, instance)
        if instance.phase == Phase.ENDED:
            self.instances[instance.id] = instance

    return [(Cluster, "forget", hoarding)]
