"""The scheduler's time: Unix milliseconds that never step back, from the wall at start and the loop's clock since."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Reads the wall once, so that a clock that is set while the scheduler runs moves no deadline."""

    def __init__(self, wall: Callable[[], int], monotonic: Callable[[], float], floor: int = 0) -> None:
        """Takes the sources of time.

        Args:
            wall: Returns Unix milliseconds.
            monotonic: Returns seconds of a clock that never steps.
            floor: Earliest time to begin with, such as that of the newest row.
        """
        self._monotonic = monotonic
        self._offset = max(wall(), floor) - int(monotonic() * 1000)

    def now(self) -> int:
        """Returns Unix milliseconds."""
        return self._offset + int(self._monotonic() * 1000)
