"""Waits between tries, growing and jittered. Not the trying."""

from __future__ import annotations

from random import Random

FIRST_S = 0.1
LONGEST_S = 5.0


class Backoff:
    """Doubles from 100 ms up to 5 s; each wait is drawn between half of that and all of it.

    Args:
        random: Source of the jitter.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next_s = FIRST_S

    def next_s(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        wait = self._next_s
        self._next_s = min(wait * 2, LONGEST_S)
        return wait * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """Begin anew: the last try was a success."""
        self._next_s = FIRST_S
