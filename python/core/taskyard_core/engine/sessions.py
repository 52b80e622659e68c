"""Workers come, speak, fall silent and go. What becomes of their attempts is decided in `attempts`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from taskyard_core.engine import attempts
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import (
    Deregister,
    Heartbeat,
    Hello,
    Register,
    RegisterAnswer,
    WorkerFrame,
)
from taskyard_core.fleet import Stall, Worker
from taskyard_core.records import ASSIGNED, CANCELLING, IN_FLIGHT, Instance, drop_key
from taskyard_core.transitions import WorkerState

EPOCH_BITS = 32
"""A session epoch is the term, then a count within it: it grows across terms without being stored first."""


class Standing(IntEnum):
    """What a worker's word is worth."""

    GOOD = 0
    """Of the present session."""
    NO_STREAM = 1
    """Of the present session, which has no open stream."""
    UNKNOWN = 2
    """Of a worker that is not known: it must register."""
    SUPERSEDED = 3
    """Of an earlier session: it must stop."""


def register(c: Cluster, event: Register) -> None:
    """Opens a new session. The stream of the one before is closed."""
    known = c.fleet.workers.get(event.worker_id)
    if known is not None and known.tenant != event.tenant:
        message = f"worker id {event.worker_id!r} belongs to another tenant: choose another id"
        c.batch.answers.append((event.reply, RegisterAnswer(accepted=False, message=message, epoch=0)))
        return
    c.epochs += 1
    epoch = c.term << EPOCH_BITS | c.epochs
    if known is None:
        worker = Worker(event.worker_id, event.tenant, epoch, event.registration, WorkerState.UNHEALTHY)
        c.fleet.add(worker)
    else:
        worker = known
        end_stream(c, worker, "SESSION_SUPERSEDED")
        worker.epoch = epoch
        worker.former.update(instance.token for instance in worker.attempts.values())
        c.fleet.add_again(worker, event.registration)
    worker.rejected.clear()
    worker.draining = False
    heard(c, worker)
    store_worker(c, worker)
    c.batch.answers.append((event.reply, RegisterAnswer(accepted=True, message="", epoch=epoch)))


def store_worker(c: Cluster, worker: Worker) -> None:
    """Has the registration written."""
    row = (worker.id, worker.tenant, worker.epoch, worker.registration.dump(), c.now, c.now)
    _unwrite_worker(c, worker)
    c.batch.changes.worker_upserts.append(row)


def _unwrite_worker(c: Cluster, worker: Worker) -> None:
    """Takes an earlier session's row out of the batch: a commit has each key once."""
    drop_key(c.batch.changes.worker_upserts, (worker.id,))


def standing(c: Cluster, worker_id: str, epoch: int) -> Standing:
    """Judges a worker's word by its session."""
    worker = c.fleet.workers.get(worker_id)
    if worker is None or epoch > worker.epoch:
        return Standing.UNKNOWN
    if epoch < worker.epoch:
        return Standing.SUPERSEDED
    return Standing.GOOD if worker.stream is not None else Standing.NO_STREAM


def hello(c: Cluster, event: Hello) -> Standing:
    """A session's stream opens; what the worker says it holds is the truth about it."""
    verdict = standing(c, event.worker_id, event.epoch)
    if verdict not in (Standing.GOOD, Standing.NO_STREAM):
        return verdict
    worker = c.fleet.workers[event.worker_id]
    if worker.stream is not None:
        end_stream(c, worker, "STREAM_REPLACED")
    worker.stream = event.stream
    worker.sent = worker.credit_limit = 0
    heard(c, worker)
    reconcile(c, worker, event.attempts)
    return Standing.GOOD


def reconcile(c: Cluster, worker: Worker, held: Sequence[tuple[str, str]]) -> None:
    """Ends the attempts that the worker no longer holds, renews those that it does, fences what it should not hold.

    An exclusive attempt of the same session is left to its lease: what was said may have been long on the way, and an
    attempt that was started since is not in it.
    """
    listed = set(held)  # a task may be in it twice: an attempt, and the result of an earlier one
    for instance in list(worker.attempts.values()):
        if (instance.id, instance.token) not in listed:
            if not instance.policy.exclusive or instance.token in worker.former:
                attempts.lost(c, instance, f"worker {worker.id} came back without it")
            elif instance.state == CANCELLING:  # it may have come in since, and the order went to the stream before
                c.order_stop(instance, attempts.stop_reason(instance))
        elif lapsed(c, instance):
            attempts.lost(c, instance, f"worker {worker.id} did not renew its lease")
    worker.former.clear()
    for task_id, token in held:
        known = c.instances.get(task_id)  # an ended one too, while it is pinned
        if known is None or known.phase != IN_FLIGHT or known.token != token or known.worker_id != worker.id:
            c.order_fence(worker, task_id, token)
            continue
        known.lease_until = c.now + c.limits.lease_ms
        if known.state == CANCELLING:
            c.order_stop(known, attempts.stop_reason(known))
        elif known.state == ASSIGNED:
            known.fencing = False  # it lives, and no other was started: it may as well go on
            attempts.start(c, worker, task_id, token)
    arm_lease(c, worker)


def frame(c: Cluster, event: WorkerFrame) -> Standing:
    """Takes in what a worker says. Results first, so that a quick task is not marked as started in vain."""
    verdict = standing(c, event.worker_id, event.epoch)
    if verdict not in (Standing.GOOD, Standing.NO_STREAM):
        return verdict
    worker = c.fleet.workers[event.worker_id]
    if event.stream is not None and event.stream is not worker.stream:
        return Standing.NO_STREAM  # the last words of a stream that this session has replaced
    if event.results or event.reply is not None:
        _take_results(c, worker, event)
    for task_id, token in event.started:
        attempts.start(c, worker, task_id, token)
    for told in event.progress:
        attempts.progress(c, worker, told)
    if event.credits > worker.credit_limit:
        worker.credit_limit = event.credits
    if event.draining:
        worker.draining = True
    heard(c, worker)
    c.freed(worker)
    return Standing.GOOD


def _take_results(c: Cluster, worker: Worker, event: WorkerFrame) -> None:
    acks = [attempts.result(c, worker, told) for told in event.results]
    if event.reply is not None:
        c.batch.answers.append((event.reply, acks))
    elif worker.stream is not None:
        c.batch.outgoing(worker.stream, worker.id).acks += acks


def heartbeat(c: Cluster, event: Heartbeat) -> Standing:
    """A sign of life: renews the leases of the attempts listed.

    One that lists what was started is of a worker whose event loop is held: a thread of it speaks.
    """
    verdict = standing(c, event.worker_id, event.epoch)
    if verdict not in (Standing.GOOD, Standing.NO_STREAM):
        return verdict
    worker = c.fleet.workers[event.worker_id]
    worker.cpu_usage = event.cpu_usage
    worker.memory_mb = event.memory_mb
    if event.started:
        _held(c, worker, frozenset(event.started))
    else:
        heard(c, worker)
    tokens = set(event.tokens)
    until = c.now + c.limits.lease_ms
    for instance in worker.attempts.values():
        if instance.token in tokens and not lapsed(c, instance):
            instance.lease_until = until  # the worker takes the answer for a renewal, so it is one
            if instance.fencing:
                c.order_stop(instance, "fenced")
    return verdict


def _held(c: Cluster, worker: Worker, started: frozenset[str]) -> None:
    """The worker's event loop is held: it is sent nothing, and what it lists has started all the same."""
    stall(c, worker, Stall.HELD)
    for instance in list(worker.attempts.values()):
        if instance.token in started:
            attempts.start(c, worker, instance.id, instance.token)


def stall(c: Cluster, worker: Worker, why: Stall) -> None:
    """Sends the worker nothing more until it is heard: what waits goes to others, and is not failed by this one."""
    worker.stall = max(worker.stall, why)
    c.fleet.touch(worker)


def lapsed(c: Cluster, instance: Instance) -> bool:
    """Tells whether the lease of an exclusive attempt is over, though its timer has not fired yet.

    It is not renewed then: a leader that was stopped meanwhile may have a follower that has started another.
    """
    return instance.policy.exclusive and instance.lease_until <= c.now


def lost_tokens(c: Cluster, worker_id: str, tokens: Iterable[str]) -> list[str]:
    """Returns which of the tokens that a worker lists are no live attempts of it."""
    worker = c.fleet.workers.get(worker_id)
    held = () if worker is None else worker.attempts.values()
    live = {instance.token for instance in held if not lapsed(c, instance)}
    return [token for token in tokens if token not in live]


def heard(c: Cluster, worker: Worker) -> None:
    """Notes a sign of life, which makes a worker with a stream well again."""
    worker.heard = True
    if worker.stall:
        worker.stall = Stall.NONE
        c.freed(worker)
    count_silence(c, worker)


def count_silence(c: Cluster, worker: Worker) -> None:
    """Counts a worker's silence from now on.

    The timer is moved when it fires, not at each sign; of a worker that was not well it waits to forget it.
    """
    worker.last_seen = c.now
    state = WorkerState.DRAINING if worker.draining else WorkerState.HEALTHY
    if worker.stream is not None and worker.state != state:
        c.set_worker_state(worker, state)
        c.timers.arm(worker.silence_key, c.now + c.limits.silence_ms)
    elif worker.silence_key not in c.timers:
        c.timers.arm(worker.silence_key, c.now + c.limits.silence_ms)


def silence_due(c: Cluster, worker: Worker) -> None:
    """The silence timer fired: the worker may be silent by now, or even forgotten."""
    silent = c.now - worker.last_seen
    if silent < c.limits.silence_ms:
        c.timers.arm(worker.silence_key, worker.last_seen + c.limits.silence_ms)
        return
    if worker.state in (WorkerState.HEALTHY, WorkerState.EXPECTED, WorkerState.DRAINING):
        c.set_worker_state(worker, WorkerState.UNHEALTHY)
    if silent >= c.limits.forget_ms and not worker.attempts:
        remove(c, worker)
        return
    c.timers.arm(worker.silence_key, max(c.now + c.limits.silence_ms, worker.last_seen + c.limits.forget_ms))


def remove(c: Cluster, worker: Worker, how: str = "left") -> None:
    """Forgets a worker; what it still holds is over."""
    end_stream(c, worker, "DEREGISTERED")
    for instance in list(worker.attempts.values()):
        attempts.lost(c, instance, f"worker {worker.id} {how}")
    c.timers.cancel(worker.silence_key)
    c.timers.cancel(worker.lease_key)
    c.fleet.remove(worker)
    _unwrite_worker(c, worker)
    if worker.id not in c.batch.changes.worker_deletes:
        c.batch.changes.worker_deletes.append(worker.id)


def deregister(c: Cluster, event: Deregister) -> Standing:
    """A worker ends its session; what it still holds goes back to its queue at once."""
    verdict = standing(c, event.worker_id, event.epoch)
    if verdict not in (Standing.GOOD, Standing.NO_STREAM):
        return verdict
    worker = c.fleet.workers[event.worker_id]
    for instance in list(worker.attempts.values()):
        if instance.state == CANCELLING:
            attempts.confirm_cancel(c, instance, "")
        elif instance.phase == IN_FLIGHT:
            attempts.requeue(c, instance, "INTERRUPTED", f"worker {worker.id} left before the task was done")
    remove(c, worker)
    c.batch.answers.append((event.reply, True))
    return Standing.GOOD


def end_stream(c: Cluster, worker: Worker, reason: str) -> None:
    """Closes the worker's stream, if one is open; it gets no tasks from now on."""
    if worker.stream is None:
        return
    c.batch.closes.append((worker.stream, reason))
    stream_closed(c, worker, worker.stream)


def stream_closed(c: Cluster, worker: Worker, stream: object) -> None:
    """The stream is gone: unroutable at once. What runs there stays its until the lease ends."""
    if worker.stream is not stream:
        return
    worker.stream = None
    if worker.state == WorkerState.HEALTHY or worker.state == WorkerState.DRAINING:
        c.set_worker_state(worker, WorkerState.UNHEALTHY)


def arm_lease(c: Cluster, worker: Worker) -> None:
    """Sets the lease timer to the first lease that ends."""
    if worker.attempts:
        first = min(instance.lease_until for instance in worker.attempts.values())
        c.timers.arm(worker.lease_key, max(first, c.now + 1))
    else:
        c.timers.cancel(worker.lease_key)


def lease_due(c: Cluster, worker: Worker) -> None:
    """The lease timer fired: attempts whose lease has ended are over."""
    for instance in list(worker.attempts.values()):
        if instance.lease_until <= c.now:
            c.order_fence(worker, instance.id, instance.token)
            attempts.lost(c, instance, f"worker {worker.id} did not renew its lease")
    arm_lease(c, worker)
