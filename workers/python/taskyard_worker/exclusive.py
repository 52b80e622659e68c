"""Exclusive attempts: each runs where it can be killed, and starts once a heartbeat has confirmed its lease.

Not the killing when a lease ends: that is the isolation's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from taskyard_worker.attempts import Attempt
from taskyard_worker.registry import Handler, Mode
from taskyard_worker.runner import Isolation


class Exclusives:
    """The exclusive attempts of this worker, from their assignment to their end.

    Args:
        loop: The event loop.
        isolation: Where they run; without it this worker takes none.
        start: Called with an attempt that may start.
        beat_now: Called when an attempt waits for its lease to be confirmed by a heartbeat.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        isolation: Isolation | None,
        start: Callable[[Attempt], None],
        beat_now: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._isolation = isolation
        self._start = start
        self._beat_now = beat_now
        self._held: dict[str, Attempt] = {}
        self._unconfirmed: dict[str, Attempt] = {}

    def killable(self, handler: Handler) -> Handler | None:
        """Return the handler so that it runs where it can be killed; None when it cannot run there."""
        if self._isolation is None or not (handler.killable or can_be_isolated(handler)):
            return None
        return handler if handler.killable else replace(handler, mode=Mode.PROCESS, killable=True)

    def hold(self, attempt: Attempt) -> None:
        """Keep an attempt from starting until its lease is confirmed, which is asked for at once."""
        self._held[attempt.token] = self._unconfirmed[attempt.token] = attempt
        self._beat_now()

    def renew(self, tokens: Iterable[str], since: float, lost: frozenset[str]) -> None:
        """Let leases run anew from `since` (loop time), but for the lost ones; start what has waited for that."""
        isolation, elapsed = self._isolation, self._loop.time() - since
        if isolation is None or not self._held:
            return
        for token in tokens:
            attempt = self._held.get(token)
            if attempt is None or token in lost:
                continue
            isolation.renew(token, attempt.assignment.lease_ms / 1000 - elapsed)
            self.release(attempt)

    def release(self, attempt: Attempt) -> None:
        """Start an attempt that waits for its lease to be confirmed, or that need not start any more."""
        if self._unconfirmed.pop(attempt.token, None) is not None:
            self._start(attempt)

    def ended(self, token: str) -> None:
        """Forget an attempt."""
        del self._held[token]


def can_be_isolated(handler: Handler) -> bool:
    """Tell whether another process could find the handler's function."""
    return "<locals>" not in getattr(handler.function, "__qualname__", "<locals>")
