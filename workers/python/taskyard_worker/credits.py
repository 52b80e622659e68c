"""How many assignments may come on a stream: a total that only grows, and never more than free slots can take."""

from __future__ import annotations


class Credits:
    """Counts what a stream brought, and what the scheduler was told that it may bring.

    Args:
        slots: How many attempts may run at once.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._told = 0
        self.received = 0
        """Assignments that came on this stream."""

    def begin(self, running: int) -> int:
        """Begin anew with a stream while so many attempts run; return the total to tell first."""
        self.received = 0
        self._told = self._total(running)
        return self._told

    def grown(self, running: int) -> int:
        """Return the total when it is more than was told, which counts as told from now on; else 0."""
        total = self._total(running)
        if total <= self._told:
            return 0
        self._told = total
        return total

    def _total(self, running: int) -> int:
        return self.received + max(0, self._slots - running)
