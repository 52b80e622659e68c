"""Work is held back by hand, and goes on again. What is held back is in `taskyard_core.pauses`."""

from __future__ import annotations

from dataclasses import replace

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import PauseWork, Refused, ResumeWork
from taskyard_core.pauses import OF_RUNS, Pause, PauseScope
from taskyard_core.records import drop_key


def pause(c: Cluster, event: PauseWork) -> None:
    """Holds something back from the next dispatch on; what workers have runs on."""
    wanted = event.pause
    if wanted.scope == PauseScope.RUN and not _lives(c, wanted):
        refusal = Refused("NOT_FOUND", f"there is no run {wanted.name!r} that has not ended")
        c.batch.answers.append((event.reply, refusal))
        return
    before = c.pauses.get(*wanted.key)
    held = wanted if before is None else replace(before, reason=wanted.reason, paused_by=wanted.paused_by)
    c.pauses.add(held)
    drop_key(c.batch.changes.pause_upserts, held.key)
    c.batch.changes.pause_upserts.append(held.row())
    c.batch.answers.append((event.reply, held))


def _lives(c: Cluster, wanted: Pause) -> bool:
    run = c.runs.get(wanted.name)
    return run is not None and run.tenant == wanted.tenant


def resume(c: Cluster, event: ResumeWork) -> None:
    """Lets something go on, each task at its old place."""
    found = c.pauses.get(event.tenant, event.scope, event.name)
    answer: Pause | Refused
    if found is None:
        answer = Refused("NOT_PAUSED", _not_paused(event))
    else:
        lift(c, found)
        answer = found
    c.batch.answers.append((event.reply, answer))


def _not_paused(event: ResumeWork) -> str:
    what = event.scope.name.lower().replace("_", " ") + (f" {event.name!r}" if event.name else "")
    return f"{what} is not paused by itself: `taskyard pauses` shows what is"


def lift(c: Cluster, held: Pause) -> None:
    """Ends a pause, and has all that it may have kept from a worker looked at again."""
    c.pauses.remove(held.key)
    changes = c.batch.changes
    drop_key(changes.pause_upserts, held.key)
    if held.key not in changes.pause_deletes:
        changes.pause_deletes.append(held.key)
    if held.scope in OF_RUNS:
        give_back(c)
    c.look_again()


def give_back(c: Cluster) -> None:
    """Puts what was taken out of its queue with its run back at its place; dispatch takes out again what is held."""
    for queue in c.queues.values():
        if queue.held_count:
            for instance in queue.unhold():
                c.enqueue(instance)
            queue.waiting = False
            c.active[queue] = None
