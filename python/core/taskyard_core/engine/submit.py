"""Submissions: each item accepted, recognised as a repeat, or refused on its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import Accepted, Known, NewRun, NewTask, Outcome, Refused, Submit
from taskyard_core.engine.instances import make_instance
from taskyard_core.records import QUEUED


class Item(Protocol):
    """What tasks and runs have in common when they are submitted."""

    request_id: str | None
    request_hash: bytes | None
    idempotency_key: str | None


def submit(c: Cluster, event: Submit) -> None:
    """Creates the tasks of a call; the answer goes out with the commit."""
    outcomes = refuse_whole(event.tasks) if event.atomic else None
    if outcomes is None:
        if event.atomic and (clash := find_clash(c, event.tenant, event.tasks, event.known)):
            outcomes = clash
        else:
            outcomes = [_submit_one(c, event.tenant, task, event.known) for task in event.tasks]
    c.batch.answers.append((event.reply, outcomes))


def _submit_one(c: Cluster, tenant: str, task: NewTask | Refused, known: Known) -> Outcome:
    if isinstance(task, Refused):
        return task
    if task.request_id is not None or task.idempotency_key is not None:
        repeat = recognise(c, tenant, task, known)
        if repeat is not None:
            return repeat
    instance = make_instance(c, tenant, task)
    c.add(instance)
    if instance.state == QUEUED:
        c.enqueue(instance)
    else:
        c.arm_waiting(instance)
    remember(c, tenant, task, instance.id)
    return Accepted(instance.id)


def recognise(c: Cluster, tenant: str, item: Item, known: Known) -> Outcome | None:
    """Returns the answer for an item that was submitted before, or None for a new one."""
    if item.request_id is not None:
        first = c.requests.get((tenant, item.request_id)) or known.requests.get(item.request_id)
        if first is not None:
            if first[1] != item.request_hash:
                return _reused(item.request_id, first[0])
            return Accepted(first[0], repeated=True)
    if item.idempotency_key is not None:
        id = _keys(c, item).get((tenant, item.idempotency_key)) or known.keys.get(item.idempotency_key)
        if id is not None:
            return Accepted(id, repeated=True)
    return None


def remember(c: Cluster, tenant: str, item: Item, id: str) -> None:
    """Keeps what makes a repeat of this item recognisable."""
    if item.request_id is not None:
        c.remember_request(tenant, item.request_id, id, item.request_hash)
    if item.idempotency_key is not None:
        c.remember_key(_keys(c, item), tenant, item.idempotency_key, id)


def _keys(c: Cluster, item: Item) -> OrderedDict[tuple[str, str], str]:
    return c.run_keys if isinstance(item, NewRun) else c.keys


def refuse_whole(items: Sequence[object]) -> list[Outcome] | None:
    """Returns the outcomes of an atomic call that has a bad item; None when it has none."""
    if not any(isinstance(item, Refused) for item in items):
        return None
    other = Refused("ATOMIC", "the call is atomic and another item was refused: correct that one, or drop `atomic`")
    return [item if isinstance(item, Refused) else other for item in items]


def find_clash(c: Cluster, tenant: str, items: Sequence[Item | Refused], known: Known) -> list[Outcome] | None:
    """Returns the outcomes of an atomic call in which a request id was used for another payload; None otherwise."""
    verdicts: list[object] = []
    first: dict[str, bytes | None] = {}
    for item in items:
        verdict = item if isinstance(item, Refused) else recognise(c, tenant, item, known)
        if verdict is None and not isinstance(item, Refused) and item.request_id is not None:
            if first.setdefault(item.request_id, item.request_hash) != item.request_hash:
                verdict = _reused(item.request_id, "another item of this call")
        verdicts.append(verdict)
    return refuse_whole(verdicts)


def _reused(request_id: str, made: str) -> Refused:
    return Refused(
        "REQUEST_ID_REUSED",
        f"request id {request_id[:200]!r} was used for another payload, which made {made}: use a new id for it",
    )
