"""Results that the scheduler has not acknowledged yet: in memory for sending again, in the spool for a restart.

Not the file itself: that is `spool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from taskyard.v1.workers_pb2 import AssignTaskRequest, ResultAck, TaskResult


class Spool(Protocol):
    """Where results survive a restart of the worker. Records are frames with results, in order."""

    def append(self, frame: AssignTaskRequest, last: int) -> bool:
        """Keep a frame whose last result has the sequence number `last`; return whether it is on disk."""
        ...

    def trim(self, oldest: int) -> None:
        """Let go of every record before sequence number `oldest`."""
        ...

    def clear(self, *, now: bool = False) -> None:
        """Let go of every record; without `now` it may be put off, since a record too many does no harm."""
        ...

    def replay(self) -> list[TaskResult]:
        """Return the results of an earlier life. Called once, before the first append."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class KeptResults:
    """Every ended attempt whose result is not acknowledged, oldest first, with a sequence number each."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._kept: dict[str, tuple[int, TaskResult, int]] = {}
        self._last = 0
        self._saved = 0

    def __len__(self) -> int:
        """Return how many results wait for their acknowledgement."""
        return len(self._kept)

    def __contains__(self, token: object) -> bool:
        """Return whether the attempt's result waits for its acknowledgement."""
        return token in self._kept

    def __iter__(self) -> Iterator[TaskResult]:
        """Iterate over the results, oldest first."""
        return (result for _, result, _ in self._kept.values())

    def tokens(self) -> Iterator[str]:
        """Iterate over the attempts' tokens, oldest first."""
        return iter(self._kept)

    def restore(self) -> int:
        """Take over what an earlier life left in the spool; return how many results that is."""
        for result in self._spool.replay():
            self._last += 1
            self._kept[result.attempt_token] = (self._last, result, 0)
        self._saved = self._last
        return len(self._kept)

    def keep(self, token: str, result: TaskResult, stream: int = 0) -> None:
        """Keep a new result, in memory until `save`. `stream`: number of the one that brought its assignment."""
        self._last += 1
        self._kept[token] = (self._last, result, stream)

    def brought_again(self, token: str, stream: int) -> bool:
        """Note which stream brought a kept result's assignment; return whether it was another one before."""
        number, result, before = self._kept[token]
        self._kept[token] = (number, result, stream)
        return before != stream

    def save(self, frame: AssignTaskRequest) -> None:
        """Write a frame of results, which were kept in the order of the frames, to the spool."""
        self._saved += len(frame.results)
        self._spool.append(frame, self._saved)

    def saved(self) -> list[TaskResult]:
        """Return the results that have been written; the others come with a frame of their own."""
        return [result for number, result, _ in self._kept.values() if number <= self._saved]

    def acknowledge(self, acks: Sequence[ResultAck]) -> list[str]:
        """Forget the results that the scheduler has dealt with; return tokens that were not kept."""
        kept = self._kept
        unknown = [ack.attempt_token for ack in acks if kept.pop(ack.attempt_token, None) is None]
        if not kept:
            self._spool.clear()
        else:
            self._spool.trim(next(iter(kept.values()))[0])
        return unknown

    def close(self) -> None:
        """Close the spool, empty when everything is acknowledged."""
        if not self._kept:
            self._spool.clear(now=True)
        self._spool.close()
