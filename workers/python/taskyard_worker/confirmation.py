"""Attempts that start only once a heartbeat was answered: it is uncertain whether they are still this worker's.

An exclusive one always waits so, since nobody knows how long its assignment was on the way. Any other does when the
event loop was held while it came or waited for its turn: it may have been given to another worker meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from taskyard_worker.attempts import Attempt

BACKLOG_S = 2.0
"""How long after a hold something may still arrive that was sent during it."""


class Doubt:
    """Whether the event loop was held since the scheduler last said which attempts are this worker's.

    The guard's thread writes the time of the hold before the two marks; the loop clears a mark before it looks at the
    time. So neither waits for a lock, and no hold goes unnoticed.

    Attributes:
        stands: What is here may have been given away. Looked at before each attempt, so it is a plain attribute.
        lingers: What arrives may have been sent during the hold, and given away since. True also while `stands` is.
    """

    __slots__ = ("_held_at", "lingers", "stands")

    def __init__(self) -> None:
        self.stands = self.lingers = False
        self._held_at = float("-inf")

    def mark(self, at: float) -> None:
        """The event loop is held, at this time of its clock. From any thread."""
        self._held_at = at
        self.lingers = True
        self.stands = True

    def settle(self, since: float) -> bool:
        """Take it that a heartbeat sent at `since` (loop time) was answered; return whether that says how things stand.

        It does not when the loop was held after the heartbeat was sent.
        """
        self.stands = False
        if self._held_at >= since:
            self.stands = True
            return False
        if self.lingers:
            self.lingers = False
            if self._held_at + BACKLOG_S >= since:
                self.lingers = True
        return True


class Confirmations:
    """The attempts that wait for a heartbeat's answer.

    Args:
        doubt: Whether an answer is out of date because the loop was held since the heartbeat was sent.
        start: Called with those that may start, in their order.
        beat_now: Asks for a heartbeat at once.
    """

    def __init__(self, doubt: Doubt, start: Callable[[Sequence[Attempt]], None], beat_now: Callable[[], None]) -> None:
        self._doubt = doubt
        self._start = start
        self._beat_now = beat_now
        self._waiting: dict[str, Attempt] = {}

    def hold(self, attempts: Iterable[Attempt]) -> None:
        """Keep attempts from starting until a heartbeat that lists them was answered, which is asked for at once."""
        self._waiting.update((attempt.token, attempt) for attempt in attempts)
        self._beat_now()

    def answered(self, tokens: Iterable[str], since: float) -> None:
        """Start what a heartbeat listed that was sent at `since` (loop time), and whose losses were released before."""
        if not self._doubt.settle(since):
            self._beat_now()
            return
        waiting = self._waiting
        confirmed = [attempt for token in tokens if (attempt := waiting.pop(token, None)) is not None]
        if confirmed:
            self._start(confirmed)

    def release(self, attempt: Attempt) -> bool:
        """Let go of an attempt that is to stop; return whether it waited here, so that nothing of it runs."""
        return self._waiting.pop(attempt.token, None) is not None
