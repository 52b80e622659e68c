"""Exclusive attempts: each runs where it can be killed before its lease ends.

Not the killing: that is the isolation's. Not the wait for a confirmed lease before the start: that is `confirmation`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable
from dataclasses import replace

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED
from taskyard_worker.attempts import Attempt
from taskyard_worker.errors import NonRetryable
from taskyard_worker.outcome import Outcome
from taskyard_worker.registry import Handler, Mode
from taskyard_worker.runner import Isolation


class Exclusives:
    """The exclusive attempts of this worker, from their assignment to their end.

    Args:
        loop: The event loop.
        isolation: Where they run; without it this worker takes none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, isolation: Isolation | None) -> None:
        self._loop = loop
        self._isolation = isolation
        self._held: dict[str, Attempt] = {}

    def killable(self, handler: Handler) -> Handler | None:
        """Return the handler so that it runs where it can be killed; None when it cannot run there."""
        if self._isolation is None or not (handler.killable or can_be_isolated(handler)):
            return None
        return handler if handler.killable else replace(handler, mode=Mode.PROCESS, killable=True)

    def take(self, attempt: Attempt) -> None:
        """Take in an attempt that is to run here."""
        self._held[attempt.token] = attempt

    def renew(self, tokens: Iterable[str], since: float, lost: frozenset[str]) -> None:
        """Let leases run anew from `since` (loop time), but for the lost ones."""
        isolation, elapsed = self._isolation, self._loop.time() - since
        if isolation is None or not self._held:
            return
        for token in tokens:
            attempt = self._held.get(token)
            if attempt is not None and token not in lost:
                isolation.renew(token, attempt.assignment.lease_ms / 1000 - elapsed)

    def ended(self, token: str) -> None:
        """Forget an attempt."""
        del self._held[token]


def can_be_isolated(handler: Handler) -> bool:
    """Tell whether another process could find the handler's function: no method has its object there."""
    function = handler.function
    return not inspect.ismethod(function) and "<locals>" not in getattr(function, "__qualname__", "<locals>")


def cannot_be_exclusive(task_type: str, handler: Handler) -> Outcome:
    """Return the failure of an exclusive task whose handler cannot be isolated: it would be no other elsewhere."""
    where = "a method of an object" if inspect.ismethod(handler.function) else "no function at the top of its module"
    text = (
        f"task type {task_type!r} cannot be exclusive: an exclusive task runs in a process of its own, and this "
        f"handler is {where}, which only the worker's own process has; leave 'exclusive' out, or give the type a "
        "handler of your own that is a function at the top of its module, @task(..., isolated=True)"
    )
    return Outcome(TASK_STATUS_FAILED, error=text, kind=NonRetryable.kind)
