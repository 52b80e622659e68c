"""The state machines of instance, run and worker: which step follows which. Not what a step entails.

`docs/states.md` shows the same tables; a test holds them together.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NoReturn

from taskyard_core.records import Instance, RunState, TaskState


class WorkerState(IntEnum):
    """How a worker stands. The numbers are those of `taskyard.v1.WorkerState`."""

    HEALTHY = 1
    """Lives and takes tasks. Left when its stream ends, when it is silent, or when it drains."""
    UNHEALTHY = 2
    """Has no open stream, or has been silent too long. Left by the next good sign of life, or forgotten."""
    DRAINING = 3
    """Takes no new tasks. Left when its stream ends or when it is silent."""
    EXPECTED = 4
    """Known from before this leader's term. Left by its first hello, or forgotten."""


S = TaskState

INSTANCE_MOVES: Final[dict[int, frozenset[int]]] = {
    S.PENDING: frozenset({S.QUEUED, S.CANCELLED, S.TIMEOUT, S.SKIPPED, S.SUCCESS}),
    S.QUEUED: frozenset({S.ASSIGNED, S.CANCELLED, S.TIMEOUT, S.SUCCESS, S.SKIPPED}),
    S.ASSIGNED: frozenset(
        {S.RUNNING, S.SUCCESS, S.FAILED, S.TIMEOUT, S.PENDING, S.QUEUED, S.CANCELLING, S.CANCELLED, S.DEFERRED}
    ),
    S.RUNNING: frozenset({S.SUCCESS, S.FAILED, S.TIMEOUT, S.PENDING, S.QUEUED, S.CANCELLING, S.CANCELLED, S.DEFERRED}),
    S.DEFERRED: frozenset({S.SUCCESS, S.FAILED, S.TIMEOUT, S.PENDING, S.QUEUED, S.CANCELLED, S.SKIPPED}),
    S.CANCELLING: frozenset({S.CANCELLED, S.SUCCESS, S.TIMEOUT, S.PENDING, S.QUEUED, S.SKIPPED}),
    S.SUCCESS: frozenset({S.FAILED, S.PENDING}),
    S.FAILED: frozenset({S.QUEUED, S.PENDING, S.SUCCESS, S.SKIPPED}),
    S.TIMEOUT: frozenset({S.QUEUED, S.PENDING, S.SUCCESS, S.SKIPPED}),
    S.CANCELLED: frozenset({S.QUEUED, S.PENDING, S.SUCCESS, S.SKIPPED}),
    S.SKIPPED: frozenset({S.PENDING, S.SUCCESS}),
}
"""SUCCESS to FAILED happens only before it is durable: the database did not take the result (RESULT_NOT_STORABLE).

What has ended is QUEUED or PENDING again only when a person has it, or a step before it, run again, and it ends as
SUCCESS or SKIPPED after all only when a person marks it. So does what waits.
"""

RUN_MOVES: Final[dict[int, frozenset[int]]] = {
    RunState.PENDING: frozenset({RunState.RUNNING, RunState.CANCELLED}),
    RunState.RUNNING: frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLING}),
    RunState.CANCELLING: frozenset({RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset({RunState.RUNNING}),
    RunState.FAILED: frozenset({RunState.RUNNING}),
    RunState.CANCELLED: frozenset({RunState.RUNNING}),
}
"""A run goes back to RUNNING only when a person retries one of its steps."""

WORKER_MOVES: Final[dict[int, frozenset[int]]] = {
    WorkerState.EXPECTED: frozenset({WorkerState.HEALTHY, WorkerState.UNHEALTHY}),
    WorkerState.HEALTHY: frozenset({WorkerState.UNHEALTHY, WorkerState.DRAINING}),
    WorkerState.UNHEALTHY: frozenset({WorkerState.HEALTHY, WorkerState.DRAINING}),
    WorkerState.DRAINING: frozenset({WorkerState.UNHEALTHY}),
}


class IllegalTransition(Exception):
    """The state machine was asked for a step that it does not have: a defect, told with the thing's story."""

    def __init__(self, subject: object, to: object, why: str) -> None:
        super().__init__(f"{subject!r} cannot become {to!r}: {why}")


NEXT: Final = tuple(sum(1 << to for to in INSTANCE_MOVES.get(state, ())) for state in range(14))
"""INSTANCE_MOVES as bits: bit `to` of entry `state` is set when that step exists."""


def refuse_move(instance: Instance, to: int) -> NoReturn:
    """Raises IllegalTransition: the table has no such step."""
    raise IllegalTransition(
        instance, TaskState(to), f"worker {instance.worker_id!r}, token {instance.token!r}, run {instance.run_id!r}"
    )
