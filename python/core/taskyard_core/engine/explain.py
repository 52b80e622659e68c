"""Why an instance is where it is, in words and as data. Looks, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import NewTask
from taskyard_core.engine.instances import make_instance
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.fleet import Stall, Worker, WorkerClass, parse_selector
from taskyard_core.pauses import Pause, PauseScope
from taskyard_core.ready import ReadyQueue
from taskyard_core.records import ASSIGNED, CANCELLING, DEFERRED, PENDING, QUEUED, Instance, Policy, RunState
from taskyard_core.spans import span
from taskyard_core.transitions import WorkerState


@dataclass(frozen=True, slots=True)
class WaitReason:
    """One reason: a machine-readable code, a sentence, and the facts in it."""

    code: str
    message: str
    variables: dict[str, str] = field(default_factory=dict)


def explain(c: Cluster, instance: Instance) -> list[WaitReason]:
    """Returns the reasons why a live instance has not ended, the most important first."""
    if instance.state == DEFERRED:
        return [_deferred(c, instance)]
    if instance.state == PENDING:
        run = c.runs.get(instance.run_id)
        if instance.not_before is None and run is not None:
            return explain_step(c, run, run.plan.graph.index[instance.step_id])
        left = max(0, (instance.not_before or c.now) - c.now)
        if not instance.attempt:
            return [_not_due("it", left)]
        return [
            WaitReason(
                "RETRY_DELAY",
                f"attempt {instance.attempt} failed ({instance.error_kind}); the next one is due in {span(left)}",
                {"wait_ms": str(left), "attempt": str(instance.attempt), "error_kind": instance.error_kind},
            )
        ]
    if instance.state == QUEUED:
        return _why_queued(c, instance)
    return _why_in_flight(c, instance)


def _deferred(c: Cluster, instance: Instance) -> WaitReason:
    left = max(0, (instance.not_before or c.now) - c.now)
    message = (
        f"attempt {instance.attempt} waits for its result, which comes from outside by its token;"
        f" it ends as TIMEOUT in {span(left)}"
    )
    return WaitReason("DEFERRED", message, {"wait_ms": str(left), "attempt": str(instance.attempt)})


def _paused(pauses: Iterable[Pause], now: int) -> list[WaitReason]:
    return [_held_back(pause, now) for pause in pauses]


def _held_back(pause: Pause, now: int) -> WaitReason:
    whose = _WHAT[pause.scope].format(repr(pause.name))
    by = f" by {pause.paused_by}" if pause.paused_by else ""
    said = f": {pause.reason}" if pause.reason else ""
    facts = {"scope": pause.scope.name, "name": pause.name, "reason": pause.reason, "paused_by": pause.paused_by}
    return WaitReason("PAUSED", f"{whose} paused{by} {span(max(0, now - pause.created_at))} ago{said}", facts)


_WHAT = {
    PauseScope.QUEUE: "its queue {} is",
    PauseScope.TASK_TYPE: "the task type {} is",
    PauseScope.WORKFLOW: "its workflow {} is",
    PauseScope.RUN: "its run is",
    PauseScope.TENANT: "all tasks of its tenant are",
    PauseScope.ALL: "all tasks are",
}


def _not_due(what: str, left: int) -> WaitReason:
    return WaitReason("NOT_DUE", f"{what} waits for its time: due in {span(left)}", {"wait_ms": str(left)})


def _why_in_flight(c: Cluster, instance: Instance) -> list[WaitReason]:
    worker = c.fleet.workers.get(instance.worker_id)
    facts = {"worker_id": instance.worker_id, "attempt": str(instance.attempt)}
    reasons: list[WaitReason] = []
    if instance.state == CANCELLING:
        if instance.cancel_unconfirmed:
            message = f"worker {instance.worker_id} told the handler to stop, but cannot make it: it ends when it ends"
            reasons.append(WaitReason("CANCEL_UNCONFIRMED", message, facts))
        else:
            reasons.append(
                WaitReason("CANCEL_PENDING", f"worker {instance.worker_id} has not confirmed that it stopped", facts)
            )
    elif instance.fencing:
        left = max(0, instance.lease_until - c.now)
        message = f"it is exclusive and may still be alive on {instance.worker_id}: its lease ends in {span(left)}"
        reasons.append(WaitReason("LEASE_PENDING", message, {**facts, "wait_ms": str(left)}))
    elif instance.state == ASSIGNED:
        message = f"sent to worker {instance.worker_id}, which has not started it yet"
        if worker is not None and worker.stall == Stall.HELD:
            message += ": a handler of another task holds its event loop"
        reasons.append(WaitReason("START_PENDING", message, facts))
    else:
        spent = span(c.now - (instance.started_at or c.now))
        reasons.append(WaitReason("RUNNING", f"runs on worker {instance.worker_id} for {spent}", facts))
    reasons += _why_silent(c, instance, worker)
    return reasons


def _why_silent(c: Cluster, instance: Instance, worker: Worker | None) -> list[WaitReason]:
    if worker is None or worker.state == WorkerState.HEALTHY or worker.state == WorkerState.DRAINING:
        return []
    left = max(0, instance.lease_until - c.now)
    facts = {"worker_id": instance.worker_id, "lease_ms": str(left)}
    if worker.state == WorkerState.EXPECTED:
        message = (
            f"this leader is new and worker {worker.id} has not reported to it yet; its lease ends in {span(left)}"
        )
        return [WaitReason("TAKEOVER_GRACE", message, facts)]
    silent = span(c.now - worker.last_seen)
    since = f"was last heard of {silent} ago" if worker.heard else f"has not reported in the {silent} of this leader"
    message = (
        f"worker {worker.id} has no open stream and {since}; another attempt may start when its lease ends in"
        f" {span(left)}"
    )
    return [WaitReason("WORKER_SILENT", message, facts)]


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of a task if it were submitted now.

    Attributes:
        instance: The task as it would be made. It is in no queue.
        workers: Those that would take it now, or once they have room.
        reasons: Why none takes it now; empty when one would.
    """

    instance: Instance
    workers: list[Worker]
    reasons: list[WaitReason]


def prospect(c: Cluster, tenant: str, new: NewTask) -> Prospect:
    """Looks where a task would go, and makes nothing."""
    instance = make_instance(c, tenant, new)
    workers, reason = _who_matches(c, instance)
    paused = _paused(c.pauses.of_instance(instance), c.now)
    if reason is not None:
        return Prospect(instance, [], [*paused, reason])
    able = [worker for worker in _healthy(workers, instance) if _could_fit(worker, instance.policy)]
    queue = c.queues.get((tenant, instance.queue)) or ReadyQueue(tenant, instance.queue, new.task_type, new.policy)
    reasons = _why_not_taken(c, queue, instance, workers)
    if reasons and reasons[0].code == "BEHIND_OTHERS" and not len(queue):
        reasons = []  # what is first in its queue, with a worker that has room, goes there at once
    if instance.state == PENDING:
        reasons = explain(c, instance)
    return Prospect(instance, able, [*paused, *reasons])


def audience(c: Cluster, tenant: str, new: NewTask) -> tuple[list[Worker], list[Worker], WaitReason | None]:
    """Returns the workers that take a task, now or once they have room, and those that would if they were well.

    Each by id. With neither, the reason says why.
    """
    workers, reason = _who_matches(c, make_instance(c, tenant, new))
    able = sorted((w for w in workers if _could_fit(w, new.policy)), key=lambda worker: worker.id)
    if workers and not able:
        message = f"it asks for {asked(new.policy)}, which no matching worker has even when it is idle"
        reason = WaitReason("RESOURCES_NEVER_FIT", message, {"asks": asked(new.policy)})
    well = [w for w in able if w.state == WorkerState.HEALTHY and new.task_type not in w.rejected]
    return well, [worker for worker in able if worker not in well], reason


def _why_queued(c: Cluster, instance: Instance) -> list[WaitReason]:
    queue = c.queues.get((instance.tenant, instance.queue))
    if queue is None:
        return [WaitReason("COMMIT_PENDING", "it has just been made")]
    paused = _paused(c.pauses.of_instance(instance), c.now)
    workers, reason = _who_matches(c, instance)
    if reason is not None:
        return [*paused, reason]
    return paused or _why_not_taken(c, queue, instance, workers)


def _who_matches(c: Cluster, instance: Instance) -> tuple[list[Worker], WaitReason | None]:
    """Returns the workers that offer its type and match its selector, or why there are none."""
    type_ = instance.task_type
    offering = [k for k in c.fleet.classes.values() if k.tenant == instance.tenant and k.offers(type_)]
    if not offering:
        message = f"no worker offers the task type {type_!r}: start one that does"
        return [], WaitReason("NO_WORKER_FOR_TYPE", message, {"task_type": type_})
    policy = instance.policy
    if policy.selector:
        chosen = parse_selector(policy.selector)
        offering = [klass for klass in offering if chosen.matches(klass.labels)]
        if not offering:
            message = f"workers offer {type_!r}, but none has labels that match {policy.selector!r}"
            return [], WaitReason("NO_WORKER_MATCHES", message, {"selector": policy.selector})
    if policy.worker:
        return _the_one(c, offering, policy.worker)
    return [worker for worker in c.fleet.workers.values() if worker.klass in offering], None


def _the_one(c: Cluster, offering: list[WorkerClass], id: str) -> tuple[list[Worker], WaitReason | None]:
    """Returns the worker that alone may run it, or why it cannot."""
    worker = c.fleet.workers.get(id)
    if worker is not None and worker.klass in offering:
        return [worker], None
    why = "is not known here now: start it" if worker is None else "does not offer its type, or has not the labels"
    message = f"only worker {id} may run it, which {why}; or cancel the task and submit it for another, or for any"
    return [], WaitReason("WORKER_AWAY", message, {"worker_id": id})


def _healthy(workers: list[Worker], instance: Instance) -> list[Worker]:
    well = (w for w in workers if w.state == WorkerState.HEALTHY and not w.stall)
    return [w for w in well if instance.task_type not in w.rejected]


def _why_not_taken(c: Cluster, queue: ReadyQueue, instance: Instance, workers: list[Worker]) -> list[WaitReason]:
    healthy = _healthy(workers, instance)
    if not healthy:
        names = ", ".join(f"{w.id} ({_standing(w, instance.task_type)})" for w in workers[:5])
        none = "it does not take it" if len(workers) == 1 else "none of them takes it"
        message = f"{_count(len(workers), 'worker')} would match, but {none} now: {names}"
        return [WaitReason("WORKERS_UNHEALTHY", message, {"workers": str(len(workers))})]
    policy = instance.policy
    if not any(_could_fit(worker, policy) for worker in healthy):
        message = f"it asks for {asked(policy)}, which no matching worker has even when it is idle"
        return [WaitReason("RESOURCES_NEVER_FIT", message, {"asks": asked(policy)})]
    free = [worker for worker in healthy if worker.room() > 0]
    if not free:
        slots = sum(worker.registration.max_concurrency for worker in healthy)
        held = sum(len(worker.attempts) for worker in healthy)
        take = "takes" if len(healthy) == 1 else "take"
        message = f"{_count(len(healthy), 'matching worker')} {take} no more now: {held} of {slots} slots are in use"
        facts = {"workers": str(len(healthy)), "slots": str(slots), "waiting": str(len(queue))}
        return [WaitReason("WORKERS_BUSY", message, facts), _place(queue, instance)]
    if not any(worker.fits(policy) for worker in free):
        message = f"it asks for {asked(policy)}, which no matching worker has free now"
        return [WaitReason("RESOURCES_SHORT", message, {"asks": asked(policy)})]
    if queue in c.active:
        return [WaitReason("COMMIT_PENDING", "it goes to a worker with the commit that is being made")]
    return [_place(queue, instance)]


def _standing(worker: Worker, task_type: str) -> str:
    if worker.state != WorkerState.HEALTHY:
        return worker.state.name
    if worker.stall == Stall.HELD:
        return "a handler holds its event loop: it is sent nothing until it is heard again"
    if worker.stall == Stall.LATE:
        return "did not start a task in time: it is sent nothing until it is heard again"
    return "handed the type back as unknown"


def _place(queue: ReadyQueue, instance: Instance) -> WaitReason:
    head = queue.peek()
    if head is instance:
        return WaitReason("BEHIND_OTHERS", "it is the first of its queue", {"waiting": str(len(queue))})
    wait = "waits" if len(queue) == 1 else "wait"
    message = f"{_count(len(queue), 'task')} of its kind {wait}, and older or more urgent ones go first"
    return WaitReason("BEHIND_OTHERS", message, {"waiting": str(len(queue))})


def _could_fit(worker: Worker, policy: Policy) -> bool:
    has = worker.registration
    return policy.cpu_millis <= has.cpu_millis and policy.memory_mb <= has.memory_mb and policy.gpus <= has.gpus


def asked(policy: Policy) -> str:
    """Returns the resources in the units in which they are asked for and offered: `0.5 cores, 2048 MiB, 1 GPU`."""
    cores = policy.cpu_millis / 1_000
    amounts = (
        f"{cores:g} {'core' if cores == 1 else 'cores'}" if cores else "",
        f"{policy.memory_mb} MiB" if policy.memory_mb else "",
        _count(policy.gpus, "GPU") if policy.gpus else "",
    )
    return ", ".join(filter(None, amounts))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def explain_step(c: Cluster, run: LiveRun, step: int) -> list[WaitReason]:
    """Returns why a step of a live run has no instance yet."""
    if run.state == RunState.PENDING:
        return [_not_due("its run", max(0, (run.start_at or c.now) - c.now))]
    if run.state == RunState.CANCELLING:
        return [WaitReason("CANCEL_PENDING", "the run is being cancelled: the step will not start")]
    graph = run.plan.graph
    paused = _paused(c.pauses.all_of_run(run.tenant, run.workflow, run.id), c.now)
    open_ones = [graph.ids[n] for n in graph.upstream[step] if int(run.progress.state(n)) <= 1]
    names = ", ".join(open_ones[:5])
    facts = {"steps": ",".join(open_ones[:20])}
    message = f"waits for {_count(len(open_ones), 'step')} before it: {names}"
    return [WaitReason("UPSTREAM_RUNNING", message, facts), *paused]
