"""Steps by which the scripted scheduler assigns tasks."""

from __future__ import annotations

import json
from typing import Any

from conformance.kit.scripted import UNKNOWN_FIELD
from conformance.kit.seen import Seen
from conformance.kit.stage import Stage
from conformance.kit.unmet import Unmet
from conformance.kit.verb import Names, Object, verb
from taskyard.v1.workers_pb2 import CancelAttempt

LEASE_MS = 60_000


@verb("scripted")
async def assign(
    stage: Stage,
    task: str,
    type: str,
    input: Object | None = None,
    params: Object | None = None,
    again: str = "",
    attempt: int = 1,
    timeout_ms: int = 0,
    lease_ms: int = LEASE_MS,
    key: str = "",
    exclusive: bool = False,
    checkpoint: str = "",
    with_cancel: bool = False,
) -> None:
    """Assigns one task, once credits allow it. `again`: another attempt of that one's task."""
    seen = fresh(stage, task, type, input, params, again)
    given = seen.assignment
    given.attempt, given.timeout_ms, given.lease_ms = attempt, timeout_ms, lease_ms
    given.idempotency_key, given.exclusive = key, exclusive
    if checkpoint:
        given.checkpoint = checkpoint
    await credited(stage, 1)
    if with_cancel:
        order = CancelAttempt(
            task_id=given.task_id, attempt_token=given.attempt_token, reason="cancelled", grace_ms=1000
        )
        stage.scripted.attempts[seen.token] = seen
        stage.scripted.push(cancels=[order], assignments=[given])
        stage.scripted.note(f"assigned and cancelled {task} in one frame")
    else:
        stage.scripted.assign([seen])


@verb("scripted")
async def assign_many(stage: Stage, tasks: str, count: int, type: str, input: Object | None = None) -> None:
    """Assigns NAME0, NAME1 and so on in one frame, once credits allow all of them."""
    seen = [fresh(stage, f"{tasks}{number}", type, {**(input or {}), "number": number}) for number in range(count)]
    for each in seen:
        each.assignment.attempt, each.assignment.lease_ms = 1, LEASE_MS
    await credited(stage, count)
    stage.scripted.assign(seen)


@verb("scripted")
async def assign_again(stage: Stage, task: str) -> None:
    """Sends the same assignment, of the same attempt, once more."""
    await connected(stage)
    stage.scripted.assign([stage.attempt(task)], again=True)


@verb("scripted")
async def name(stage: Stage, tasks: Names) -> None:
    """Names attempts that the worker is never sent."""
    for each in tasks:
        stage.new_attempt(each)


def fresh(
    stage: Stage,
    name: str,
    type: str,
    input: dict[str, Any] | None,
    params: dict[str, Any] | None = None,
    again: str = "",
) -> Seen:
    """Returns a new attempt with what every assignment has."""
    seen = stage.new_attempt(name, again)
    given = seen.assignment
    given.task_type, given.tenant, given.priority = type, "default", 5
    given.created_at, given.term = stage.scripted.now_ms(), 1
    for key, value in stage.fill(params or {}).items():
        given.params[key] = value
    if input is not None:
        given.input_json = json.dumps(stage.fill(input), ensure_ascii=False)
    if stage.scripted.settings.unknown_fields:
        given.MergeFromString(UNKNOWN_FIELD)
    return seen


async def connected(stage: Stage) -> None:
    """Returns once the worker has a stream open."""

    def sentence() -> str:
        return "the worker opened no stream" if stage.scripted.registrations else "the worker did not register"

    await stage.until(lambda: stage.scripted.stream is not None, sentence)


async def credited(stage: Stage, count: int) -> None:
    """Returns once the worker takes so many tasks more."""
    await connected(stage)

    def room() -> int:
        stream = stage.scripted.stream
        return stream.credits - stream.sent if stream else 0

    await stage.until(
        lambda: room() >= count, lambda: f"the worker gave credits for {room()} more tasks, but has slots for {count}"
    )
    if stage.scripted.stream is None:
        raise Unmet("the stream ended while a task was to be assigned")
