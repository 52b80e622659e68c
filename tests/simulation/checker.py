"""What must hold while a history goes on and once it is quiet, said against the ledger and the leader's memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

from simulation import model
from simulation.history import History
from simulation.hosts import World
from simulation.ledger import TERMINAL, Record, short, story
from simulation.programs import Disk
from simulation.workload import Workload
from taskyard_core.records import INSTANCE_COLUMNS, RunState, instance_row
from taskyard_core.records import TaskState as S

LOOK_S = 1.0
START_SLACK_S = 2.0
FENCE_SLACK_S = 2.0
LEASE_SLACK_S = 4.0
DEFAULT_START_MS = 5_000
RUN_ENDED = (2, 3, 5)


async def watch(world: World) -> None:
    """Looks at what is in flight, again and again: what is overdue although all is well is a violation."""
    while True:
        await asyncio.sleep(LOOK_S)
        _check_overdue(world)
        _check_fenced(world)
        check_memory(world)


def _check_overdue(world: World) -> None:
    """Deadlines that the leader alone must keep: start acknowledgements, and leases of workers that are gone."""
    if world.leader() is None:
        return
    calm = world.loop.now - max(world.disturbed_at, world.history.term_at)
    for held in world.history.ledger.in_flight.values():
        for record in held.values():
            age = world.loop.now - record.since
            if record.state == S.ASSIGNED and not record.policy.get("exclusive"):
                limit = max(record.policy.get("start_ms", DEFAULT_START_MS), world.limits.takeover_grace_ms)
                if min(age, calm) > limit / 1000 + START_SLACK_S:
                    _overdue(world, record, "starts are acknowledged in time", age)
            elif _gone(world, record) and min(age, calm) > world.limits.lease_ms / 1000 + LEASE_SLACK_S:
                _overdue(world, record, "leases end", age)


def _check_fenced(world: World) -> None:
    """A worker that did not start an attempt in time is told to leave it, if it can be told."""
    history, now = world.history, world.loop.now
    for token, (worker_id, at) in list(history.ledger.unstarted.items()):
        if now - at < FENCE_SLACK_S:
            continue
        del history.ledger.unstarted[token]
        stream = history.streams.get(worker_id)
        if token in history.told_to_stop or stream is None or stream.server is None or stream.task is None:
            continue
        leads = stream.server.alive and stream.server.name == history.ledger.holder and history.term_at < at
        open_all_along = float(stream.facts["at"]) < history.ledger.tokens[token].at
        if leads and open_all_along and not stream.task.done() and world.disturbed_at < at:
            history.violate("what is replaced is fenced", f"{worker_id} was not told to leave {token[:6]}")


def _gone(world: World, record: Record) -> bool:
    """Tells whether the worker of a record is gone for good."""
    return any(host.name == record.get("worker_id") and host.for_good and not host.up for host in world.workers)


def _overdue(world: World, record: Record, promise: str, age: float) -> None:
    world.history.violate(promise, f"{story(record)} for {age:.1f} s")
    record.since = world.loop.now  # said once


def check_memory(world: World) -> None:
    """What an idle leader has in memory is what is committed: a new leader would find the same."""
    host = world.leader()
    if host is None or host.process is None or host.process.paused or host.scheduler is None:
        return
    leader = host.scheduler.leader()
    c = leader.engine.cluster
    if c.dirty or c.new or c.dirty_runs or not leader._idle.is_set() or leader._wake.is_set():
        return
    if c.revision != world.database.revision:
        return
    instances = world.history.ledger.instances
    for id, instance in c.instances.items():
        record = instances.get(id)
        if record is None:
            world.history.violate("memory is what is committed", f"{instance!r} is not committed")
            continue
        if instance.phase == 9:
            continue
        row = instance_row(instance)
        if record.values["revision"] != instance.revision:
            world.history.violate("memory is what is committed", f"{story(record)} is {instance!r} in memory")
            continue
        for name, value in zip(INSTANCE_COLUMNS, row, strict=True):
            if record.values[name] != value and name != "created_at":
                what = f"{name} of {story(record)} is {value!r} in memory and {record.values[name]!r} stored"
                world.history.violate("memory is what is committed", what)
                record.values[name] = value  # said once


def unfinished(world: World) -> bool:
    """Tells whether something accepted has not ended."""
    ledger = world.history.ledger
    return any(record.state not in TERMINAL for record in ledger.instances.values()) or any(
        run["ended_at"] is None for run in ledger.runs.values()
    )


def latest_due(world: World) -> float:
    """Returns when the last of what waits for its time is due by the leader's clock, in virtual seconds; 0: nothing is.

    A delay is counted by the clock of the leader that took it in: where that was an hour ahead, the next one, which was
    not, begins an hour later.
    """
    leader = world.leader()
    if leader is None or leader.scheduler is None:
        return 0.0
    ledger = world.history.ledger
    waiting = (record for record in ledger.instances.values() if record.state in (S.PENDING, S.DEFERRED))
    dues = [record.get("not_before") for record in waiting]
    dues += [run["start_at"] for run in ledger.runs.values() if run["state"] == RunState.PENDING]
    now = leader.scheduler.leader().clock.now()
    latest: int = max((due for due in dues if due is not None), default=0)
    return world.loop.now + (latest - now) / 1000 if latest > now else 0.0  # what is overdue is stuck


def whats_left(world: World) -> Iterator[str]:
    """Yields what has not ended, and what the leader says about it."""
    ledger = world.history.ledger
    leader = world.leader()
    for record in ledger.instances.values():
        if record.state in TERMINAL:
            continue
        why = ""
        if leader is not None and leader.scheduler is not None:
            reasons = leader.scheduler.leader().engine.explain(record.id, leader.scheduler.leader().clock.now())
            why = "; ".join(f"{reason.code}: {reason.message}" for reason in reasons or ())
        yield f"{story(record)}: {why or 'nobody says why'}"
    for run in ledger.runs.values():
        if run["ended_at"] is None:
            yield f"run {short(run['id'])} of {run['workflow']} is in state {run['state']}"


async def settle(world: World) -> None:
    """Waits a little for the leader to have nothing to do."""
    for _ in range(20):
        host = world.leader()
        if host is not None and host.scheduler is not None and host.scheduler.leader()._idle.is_set():
            return
        await asyncio.sleep(1.0)


def check_end(world: World, load: Workload, disks: list[Disk]) -> None:
    """Checks what must hold once everything has ended."""
    history = world.history
    check_memory(world)
    _check_leader_is_empty(world)
    _check_accepted(history)
    _check_fates(history, load, disks)
    for record in history.ledger.instances.values():
        _check_record(history, record)
    for run in history.ledger.runs.values():
        for problem in model.run_problems(run, history.ledger, load.workflows):
            history.violate("runs follow their rules", problem)
    for execution in history.executions.values():
        if execution.ended_at is None and history.ledger.instances[execution.task_id].state not in TERMINAL:
            history.violate("nothing is stuck", f"{short(execution.task_id)} still runs")


def _check_leader_is_empty(world: World) -> None:
    host = world.leader()
    if host is None or host.scheduler is None:
        world.history.violate("nothing is stuck", "nobody leads in the end")
        return
    leader = host.scheduler.leader()
    c = leader.engine.cluster
    left = {
        "instances": len(c.instances),
        "runs": len(c.runs),
        "pins": len(c.pins),
        "waiting replies": len(leader._waiting),
        "queued": c.waiting_count(),
    }
    for worker in c.fleet.workers.values():
        left[f"slots of {worker.id}"] = len(worker.attempts)
        left[f"resources of {worker.id}"] = worker.cpu + worker.memory + worker.gpus
    for what, count in left.items():
        if count:
            world.history.violate("slots are counted", f"all has ended and the leader still has {count} {what}")


def _check_accepted(history: History) -> None:
    ledger = history.ledger
    for id, ask in history.accepted.items():
        if ask.what == "TaskWish":
            record = ledger.instances.get(id)
            if record is None:
                history.violate("nothing accepted is lost", f"task {short(id)} is not in the database")
            elif record.state not in TERMINAL:
                history.violate("nothing accepted is lost", f"{story(record)} has not ended")
        elif id not in ledger.runs:
            history.violate("nothing accepted is lost", f"run {short(id)} is not in the database")
    for id, state in history.seen_ends.items():
        record = ledger.instances.get(id)
        if record is not None and record.state != state and not record.reopened:
            history.violate("a result is recorded once", f"a client saw {S(state).name} of {story(record)}")
        run = ledger.runs.get(id)
        if run is not None and run["state"] != state and id not in ledger.reopened_runs:
            history.violate("a result is recorded once", f"a client saw run {short(id)} as {state}: {run['state']}")


def _check_record(history: History, record: Record) -> None:
    expected = set(range(1, record.get("attempt")))
    if record.state in TERMINAL and set(record.archived) - {record.get("attempt")} != expected:
        history.violate("attempts are kept", f"{story(record)} kept {sorted(record.archived)} of {sorted(expected)}")
    if record.state == S.SUCCESS and record.get("error_kind") != "MARKED":
        told = history.reported.get(record.get("token"))
        if told is None or told[0] == S.DEFERRED or record.get("token") in history.completed:
            outside = history.completed.get(record.get("token"), "")
            if json.loads(record.get("output_json")) != outside and told != (S.SUCCESS, record.get("output_json")):
                history.violate("a result is its attempt's", f"{story(record)}: nothing came from outside")
        elif told != (S.SUCCESS, record.get("output_json")):
            history.violate("a result is its attempt's", f"{story(record)} succeeded and its attempt said {told}")
    if record.ends != 1 and not record.reopened:
        history.violate("a result is recorded once", f"{story(record)} ended {record.ends} times")


def _check_fates(history: History, load: Workload, disks: list[Disk]) -> None:
    """Each task ended as what it did and what was asked of it allow."""
    ids = {request: id for disk in disks for request, id in disk.ids.items()}
    cancelled = {ids[request] for disk in disks for request in disk.cancelled if request in ids}
    for wish in load.tasks:
        record = history.ledger.instances.get(ids.get(wish.request_id, ""))
        if record is not None and not wish.key:
            for problem in model.fate_problems(wish, record, history, cancelled=record.id in cancelled):
                history.violate("tasks end as they should", f"{problem}: {story(record)}")
