"""What two snapshots say together: how much ended a second, and how that went lately. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from taskyard.v1.fleet_pb2 import GetClusterStatusResponse

KEPT = 240
"""How many rates are kept for the line."""
_BARS = "▁▂▃▄▅▆▇█"


def rates(
    before: GetClusterStatusResponse, after: GetClusterStatusResponse, seconds: float
) -> Mapping[str, float] | None:
    """Returns how many tasks ended a second, by status.

    Args:
        before: The earlier status.
        after: The later one.
        seconds: What lies between them.

    Returns:
        None where the two cannot be compared: another term has counters of its own, and no time is no rate.
    """
    if seconds <= 0 or before.term != after.term or before.scheduler_id != after.scheduler_id:
        return None
    found = {
        word: (count - before.tasks_ended.get(word, 0)) / seconds for word, count in sorted(after.tasks_ended.items())
    }
    return found if all(rate >= 0 for rate in found.values()) else None


def sparkline(values: Iterable[float | None], width: int) -> str:
    """Returns the last `width` values as bars between 0 and their largest; a gap where there was none.

    What is not 0 is never shown as 0, so that little can be told from nothing.
    """
    shown: Sequence[float | None] = list(values)[-width:]
    top = max((value for value in shown if value is not None), default=0.0)
    return "".join(" " if value is None else _bar(value, top) for value in shown)


def _bar(value: float, top: float) -> str:
    if value <= 0 or top <= 0:
        return _BARS[0]
    return _BARS[max(1, min(len(_BARS) - 1, math.ceil(value / top * (len(_BARS) - 1))))]


class History:
    """The rates of the last readings."""

    def __init__(self) -> None:
        self._before: tuple[float, GetClusterStatusResponse] | None = None
        self._totals: deque[float | None] = deque(maxlen=KEPT)
        self.now: Mapping[str, float] | None = None
        """By status, of the last two readings; None while there are none to compare."""

    def take(self, at: float, status: GetClusterStatusResponse) -> None:
        """Takes in a reading and its time in seconds."""
        if self._before is not None:
            self.now = rates(self._before[1], status, at - self._before[0])
            self._totals.append(None if self.now is None else sum(self.now.values()))
        self._before = (at, status)

    def gap(self) -> None:
        """Notes that there was no reading: what ended meanwhile is not that of one interval."""
        self._before, self.now = None, None
        self._totals.append(None)

    def line(self, width: int) -> str:
        """Returns the line of the last `width` readings."""
        return sparkline(self._totals, width)
