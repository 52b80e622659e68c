"""Ends attempts before their time: the polite request, the grace, and the word that a handler does not listen.

Kills nothing itself: an isolated handler or a shell command ends its own process group when it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskyard.v1.tasks_pb2 import TASK_STATUS_DEFERRED, TASK_STATUS_FAILED, TASK_STATUS_SUCCESS
from taskyard_worker.attempts import Attempt, Stop, StopCause
from taskyard_worker.outcome import Outcome
from taskyard_worker.registry import Mode

DEFAULT_GRACE_S = 10.0
KILL_MARGIN_S = 5.0
"""How long a killed process may take to be gone before the attempt counts as one that cannot be stopped."""

_ENDED_ITSELF = (TASK_STATUS_SUCCESS, TASK_STATUS_FAILED, TASK_STATUS_DEFERRED)
_WORDS = {
    StopCause.CANCELLED: "the task was cancelled",
    StopCause.TIMEOUT: "the task ran out of time",
    StopCause.FENCED: "another attempt takes its place",
    StopCause.DRAINED: "the worker stops",
}


def order_to_stop(cause: StopCause, grace_s: float = DEFAULT_GRACE_S) -> Stop:
    """Return an order to stop in the words of its cause. `grace_s`: seconds until the kill."""
    return Stop(cause, _WORDS[cause], grace_s)


def stopped_outcome(stop: Stop, outcome: Outcome) -> Outcome:
    """Return how an attempt ended that was told to stop: as ordered, unless it was done before the worker's end."""
    if stop.cause is StopCause.DRAINED and outcome.status in _ENDED_ITSELF:
        return outcome
    return Outcome(stop.cause.status, error=stop.message)


class Stopper:
    """Gives orders to stop, and watches run timeouts.

    Args:
        loop: The event loop.
        unconfirmed: Called when an attempt still runs at the end of its grace.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, unconfirmed: Callable[[Attempt], None]) -> None:
        self._loop = loop
        self._unconfirmed = unconfirmed

    def watch(self, attempt: Attempt, seconds: float) -> None:
        """Stop the attempt when it runs longer than `seconds`."""
        attempt.timer = self._loop.call_later(seconds, self._timed_out, attempt)

    def stop(self, attempt: Attempt, order: Stop) -> None:
        """Tell an attempt to stop. A second order changes nothing, except that FENCED takes the result away."""
        if attempt.stop is not None:
            if order.cause is StopCause.FENCED:
                attempt.stop = Stop(StopCause.FENCED, order.message, attempt.stop.grace_s)
            return
        attempt.stop = order
        attempt.disarm()
        if attempt.stop_event is not None:
            attempt.stop_event.set()
            attempt.release_waiters()
        elif attempt.lane is not None:
            attempt.lane.cancel(order.message)
        margin = KILL_MARGIN_S if attempt.handler.killable else 0.0
        attempt.timer = self._loop.call_later(order.grace_s + margin, self._grace_over, attempt)

    def _timed_out(self, attempt: Attempt) -> None:
        limit = attempt.assignment.timeout_ms / 1000
        self.stop(attempt, Stop(StopCause.TIMEOUT, f"ran longer than its timeout of {limit:g} s", DEFAULT_GRACE_S))

    def _grace_over(self, attempt: Attempt) -> None:
        attempt.timer = None
        if attempt.handler.mode is Mode.LOOP and not attempt.handler.killable and attempt.lane is not None:
            attempt.lane.cancel("the grace is over")
        self._unconfirmed(attempt)
