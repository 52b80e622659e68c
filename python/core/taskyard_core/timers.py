"""Keyed deadlines for workloads that cancel nearly all of them: leases, acknowledgements, time-outs.

A deadline lives in a bucket of 16 ms; arming and cancelling touch two dicts. Not a clock: the caller says
`now`.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from operator import itemgetter

BUCKET_BITS = 4
BUCKET_MS = 1 << BUCKET_BITS
"""Width of a bucket in milliseconds: how much too early `Timers.next_ms` may be."""

_STALE_LIMIT = 64
_at_ms = itemgetter(1)


class Timers:
    """Deadlines by key: at most one for each key, fired in order of time, then of arming.

    Memory is bounded by the armed keys and their buckets: a bucket goes when its last key does, and the heap
    of bucket numbers is rebuilt once most of its entries are stale.
    """

    __slots__ = ("_at", "_buckets", "_heap", "_opened")

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._buckets: dict[int, dict[str, int]] = {}
        self._heap: list[int] = []  # every bucket's number at least once, and stale numbers
        self._opened = -(1 << 63)  # the last bucket that `due` looked into

    def __len__(self) -> int:
        """Return how many keys are armed."""
        return len(self._at)

    def __contains__(self, key: str) -> bool:
        """Return whether the key is armed."""
        return key in self._at

    def deadline(self, key: str) -> int | None:
        """Return when the key fires, or None when it is not armed."""
        return self._at.get(key)

    def arm(self, key: str, at_ms: int) -> None:
        """Let the key fire at `at_ms`, in place of any deadline that it has. A past time is due at once."""
        if key in self._at:
            self.cancel(key)
        self._at[key] = at_ms
        number = at_ms >> BUCKET_BITS
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = {key: at_ms}
            heappush(self._heap, number)
            if len(self._heap) > 2 * len(self._buckets) + _STALE_LIMIT:
                self._heap = list(self._buckets)
                heapify(self._heap)
        else:
            bucket[key] = at_ms

    def cancel(self, key: str) -> bool:
        """Forget the key's deadline; return whether it had one."""
        at_ms = self._at.pop(key, None)
        if at_ms is None:
            return False
        number = at_ms >> BUCKET_BITS
        bucket = self._buckets[number]
        del bucket[key]
        if not bucket:
            del self._buckets[number]
        return True

    def due(self, now_ms: int) -> list[str]:
        """Take out and return every key whose deadline is `now_ms` or earlier, by time, then by arming."""
        last = now_ms >> BUCKET_BITS
        fired: list[str] = []
        while (number := self._first_bucket()) is not None and number < last:
            heappop(self._heap)
            fired += [key for key, _ in sorted(self._buckets.pop(number).items(), key=_at_ms)]
        if number == last:
            fired += self._open(last, now_ms)
        for key in fired:
            del self._at[key]
        return fired

    def next_ms(self) -> int | None:
        """Return when to ask `due` next: never late, early by less than `BUCKET_MS`; None: no deadline.

        Within the bucket that `due` has already looked into the answer is exact, so a caller that sleeps
        until then never spins.
        """
        number = self._first_bucket()
        if number is None:
            return None
        if number <= self._opened:
            return min(self._buckets[number].values())
        return number << BUCKET_BITS

    def _first_bucket(self) -> int | None:
        heap = self._heap
        while heap:
            if heap[0] in self._buckets:
                return heap[0]
            heappop(heap)
        return None

    def _open(self, number: int, now_ms: int) -> list[str]:
        """Take what is due out of a bucket of which a part lies in the future."""
        self._opened = number
        bucket = self._buckets[number]
        ready = [item for item in bucket.items() if item[1] <= now_ms]
        ready.sort(key=_at_ms)
        for key, _ in ready:
            del bucket[key]
        if not bucket:
            del self._buckets[number]
        return [key for key, _ in ready]
