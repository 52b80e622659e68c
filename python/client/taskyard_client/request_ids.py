"""Makes request ids: ordered by time, as a UUIDv7 is, so that an index over them stays compact."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Protocol


class _HasRequestId(Protocol):
    request_id: str


class RequestIds:
    """A source of request ids.

    Args:
        wall: Tells Unix milliseconds.
        rng: Draws what makes them unique.
    """

    def __init__(self, wall: Callable[[], int], rng: random.Random) -> None:
        self._wall = wall
        self._rng = rng

    def one(self) -> str:
        """Returns a new id: 12 hex digits of time, 20 drawn."""
        return f"{self._wall():012x}{self._rng.getrandbits(80):020x}"

    def fill(self, items: Iterable[_HasRequestId]) -> None:
        """Gives an id to each of `items` that has none; cheaper than as many single ones."""
        first = self.one()
        for number, item in enumerate(items):
            if not item.request_id:
                item.request_id = f"{first}.{number}"
