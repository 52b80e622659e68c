"""What is to be done once a batch is committed, as data. Nothing here acts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from taskyard_core.records import Changes, Instance, Row

RECORDED = 1
STALE_ATTEMPT = 2
UNKNOWN_TASK = 3
"""Outcomes of a reported result; the numbers are those of `taskyard.v1.ResultOutcome`."""


class Ack(NamedTuple):
    """The word on a reported result."""

    task_id: str
    token: str
    outcome: int


class Assign(NamedTuple):
    """An attempt to be sent; only while the instance still has this token."""

    instance: Instance
    token: str


class CancelOrder(NamedTuple):
    """An attempt to be stopped. `reason` is `cancelled`, `timeout` or `fenced`. `kill`: without grace."""

    task_id: str
    token: str
    reason: str
    kill: bool = False


@dataclass(slots=True)
class Outgoing:
    """What goes to one stream. `drain`: the worker is to take nothing more, end what it runs, and stop."""

    worker_id: str
    assignments: list[Assign] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    cancels: list[CancelOrder] = field(default_factory=list)
    checkpoint_acks: list[tuple[str, str, int]] = field(default_factory=list)
    drain: bool = False


@dataclass(slots=True)
class Batch:
    """One commit and what follows it.

    `frames` by stream; `closes` are (stream, reason) of streams to be ended; `answers` are (reply, value);
    `touched` and `touched_runs` are what watchers may want to see, as committed; `ended` are
    (tenant, task type, state, milliseconds) of instances and `ended_runs` (tenant, state) of runs, to be counted.
    """

    changes: Changes = field(default_factory=Changes)
    answers: list[tuple[object, Any]] = field(default_factory=list)
    frames: dict[object, Outgoing] = field(default_factory=dict)
    closes: list[tuple[object, str]] = field(default_factory=list)
    touched: list[tuple[Instance, Row]] = field(default_factory=list)
    touched_runs: list[Row] = field(default_factory=list)
    ended: list[tuple[str, str, int, int]] = field(default_factory=list)
    ended_runs: list[tuple[str, int]] = field(default_factory=list)

    def outgoing(self, stream: object, worker_id: str) -> Outgoing:
        """Returns what goes to a stream, to be added to."""
        found = self.frames.get(stream)
        if found is None:
            found = self.frames[stream] = Outgoing(worker_id)
        return found
