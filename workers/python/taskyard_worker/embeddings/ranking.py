"""The nearest of many vectors to one, exactly: every one of them is looked at, and only the best are kept."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any

from taskyard_worker.embeddings.index_file import Header, NotAnIndex, read_line

DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found; `score` is the cosine of the angle between it and what was looked for."""

    id: str
    score: float
    text: str


class Ranking:
    """The nearest documents so far. Equally near ones are in the order of the index.

    Args:
        header: What the index says that its vectors are.
        vector: What is looked for; as long as the index says.
        top_k: How many are kept.
    """

    def __init__(self, header: Header, vector: Sequence[float], top_k: int) -> None:
        self._dimensions = header.dimensions
        self._vector = vector
        self._length = length_of(vector)
        self._top_k = top_k
        self._best: list[tuple[float, int, str, str]] = []  # a heap: the worst first
        self._count = 0

    @property
    def count(self) -> int:
        """How many documents were looked at."""
        return self._count

    def take(self, lines: Iterable[bytes]) -> None:
        """Look at some more lines of the index. Raises NotAnIndex."""
        for line in lines:
            if line:
                self._look(read_line(line, self._count + 2, "the index"))

    def hits(self) -> list[Hit]:
        """Return the nearest, the best first."""
        ranked = sorted(self._best, key=lambda each: (-each[0], -each[1]))
        return [Hit(known, round(score, DECIMALS) + 0.0, text) for score, _, known, text in ranked]

    def _look(self, entry: dict[str, Any]) -> None:
        vector = entry.get("vector")
        if not isinstance(vector, list) or len(vector) != self._dimensions:
            raise NotAnIndex(f"line {self._count + 2} of the index has no vector of {self._dimensions} numbers")
        try:
            score = self._cosine(vector)
            found = (score, -self._count, str(entry["id"]), str(entry["text"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise NotAnIndex(f'line {self._count + 2} of the index is no {{"id", "text", "vector"}}') from error
        self._count += 1
        if len(self._best) < self._top_k:
            heapq.heappush(self._best, found)
        else:
            heapq.heappushpop(self._best, found)

    def _cosine(self, vector: Sequence[float]) -> float:
        lengths = self._length * length_of(vector)
        score = sum(map(mul, self._vector, vector)) / lengths if lengths else 0.0
        if not math.isfinite(score):
            raise ValueError("a number is not finite")
        return score


def length_of(vector: Sequence[float]) -> float:
    """Return the Euclidean length."""
    return math.sqrt(sum(map(mul, vector, vector)))
