"""What happened in one history: its lines, the hash over them, counts of what occurred, and what went wrong."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable


class Trace:
    """Gathers one history's events.

    Args:
        clock: Virtual seconds.
        keep: Whether the lines are kept for reading, and not only their hash.
    """

    def __init__(self, clock: Callable[[], float], *, keep: bool) -> None:
        self._clock = clock
        self._hash = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.lines: list[str] = []
        self.moves: Counter[tuple[str, int, int]] = Counter()
        """Steps of state machines: (machine, from, to)."""
        self.faults: Counter[str] = Counter()
        self.facts: Counter[str] = Counter()
        """What else is worth counting, such as starts, acknowledgements and repeated requests."""
        self.violations: list[str] = []
        self._closed = False

    def close(self) -> None:
        """The history is over: what is heard from now on is only its taking apart."""
        self._closed = True

    def note(self, who: str, what: str) -> None:
        """Adds a line."""
        if self._closed:
            return
        line = f"{self._clock():11.4f} {who:<12} {what}"
        self._hash.update(line.encode("utf-8", "replace"))
        if self._keep:
            self.lines.append(line)

    def violate(self, promise: str, story: str) -> None:
        """Notes that a promise was broken."""
        if self._closed:
            return
        self.note("CHECKER", f"{promise}: {story}")
        self.violations.append(f"at {self._clock():.3f} s: {promise}: {story}")

    def observe(self, machine: str, before: int, after: int) -> None:
        """Counts a step of a state machine; the engine's hook."""
        self.moves[machine, int(before), int(after)] += 1

    def digest(self) -> str:
        """Returns the hash over all lines."""
        return self._hash.hexdigest()
