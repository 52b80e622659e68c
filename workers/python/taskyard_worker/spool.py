"""The spool on disk: append-only segments of framed records, so that a result survives the worker's death.

Not flushed to the platter: it outlives a killed process, not a power cut; a result lost so is made again by
another attempt. Not the index of what is acknowledged (`results`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from google.protobuf.message import DecodeError

from taskyard.v1.workers_pb2 import AssignTaskRequest, TaskResult

SEGMENT_BYTES = 4 * 1024 * 1024
CLEAR_INTERVAL_S = 1.0
"""An idle spool is emptied at most this often; what is replayed in vain after a crash is answered as recorded."""

_HEAD = struct.Struct("<II")


class Warn(Protocol):
    """A logger's method."""

    def __call__(self, event: str, /, **facts: object) -> object:
        """Log an event with its facts."""
        ...


@dataclass(slots=True)
class Segment:
    """One file. `last` is the sequence number of its last result."""

    path: Path
    last: int = 0
    size: int = 0


class FileSpool:
    """A spool in a directory of its own.

    A record is its length, its CRC-32 and the bytes of a frame. A torn tail, as a kill or a full disk leaves,
    is ignored. When the disk is full, records stay in memory until there is room.

    Args:
        directory: Made when it is missing.
        clock: Seconds, never going back; for the pace of clearing.
        warn: Told when the disk takes no more, and when it does again.

    Raises:
        OSError: The directory cannot be used.
    """

    def __init__(self, directory: Path, clock: Callable[[], float], warn: Warn) -> None:
        self._directory = directory
        self._clock = clock
        self._warn = warn
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        left = sorted(directory.glob("*.spool"))
        self._old = deque(Segment(path) for path in left)
        self._next = int(left[-1].stem) + 1 if left else 1
        self._waiting: deque[tuple[bytes, int]] = deque()  # records without room on the disk
        self._cleared = float("-inf")
        self._active, self._file = self._open_segment()

    @property
    def unwritten(self) -> int:
        """How many records wait for room on the disk."""
        return len(self._waiting)

    def replay(self) -> list[TaskResult]:
        """Return the results of an earlier life. They stay in their files until all of them are acknowledged."""
        results: dict[str, TaskResult] = {}
        for segment in self._old:
            for record in read_records(segment.path.read_bytes()):
                results.update((result.attempt_token, result) for result in record.results)
        for segment in self._old:
            segment.last = len(results)
        return list(results.values())

    def append(self, frame: AssignTaskRequest, last: int) -> bool:
        """Write a record; return whether it, and all before it, are in the file."""
        payload = frame.SerializeToString()
        was_full = bool(self._waiting)
        self._waiting.append((_HEAD.pack(len(payload), zlib.crc32(payload)) + payload, last))
        try:
            while self._waiting:
                self._write(*self._waiting[0])
                self._waiting.popleft()
        except OSError as error:
            if not was_full:
                self._warn(
                    "the result spool cannot be written; results stay in memory and would be lost with this process, "
                    "and their tasks run again: make room on the disk",
                    path=str(self._active.path),
                    error=str(error),
                )
            return False
        if was_full:
            self._warn("the result spool is written again", path=str(self._active.path))
        return True

    def trim(self, oldest: int) -> None:
        """Remove the segments that hold nothing from `oldest` on."""
        while self._waiting and self._waiting[0][1] < oldest:
            self._waiting.popleft()
        while self._old and self._old[0].last < oldest:
            self._old.popleft().path.unlink(missing_ok=True)

    def clear(self, *, now: bool = False) -> None:
        """Empty the spool; unless `now`, at most once a second while it is small."""
        self._waiting.clear()
        if self._active.size == 0 and not self._old:
            return
        time = self._clock()
        if not now and self._active.size < SEGMENT_BYTES and time - self._cleared < CLEAR_INTERVAL_S:
            return
        self._cleared = time
        while self._old:
            self._old.popleft().path.unlink(missing_ok=True)
        os.ftruncate(self._file, 0)
        self._active.size = 0

    def close(self) -> None:
        """Close the file; an empty one is removed."""
        os.close(self._file)
        if self._active.size == 0:
            self._active.path.unlink(missing_ok=True)

    def _write(self, data: bytes, last: int) -> None:
        if self._active.size >= SEGMENT_BYTES:
            fresh, file = self._open_segment()
            os.close(self._file)
            self._old.append(self._active)
            self._active, self._file = fresh, file
        written = os.write(self._file, data)
        if written != len(data):
            os.ftruncate(self._file, self._active.size)
            raise OSError(f"only {written} of {len(data)} bytes found room")
        self._active.size += written
        self._active.last = last

    def _open_segment(self) -> tuple[Segment, int]:
        path = self._directory / f"{self._next:012d}.spool"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._next += 1
        return Segment(path), file


class MemorySpool:
    """A spool without a file: for workers that need no results across a restart, and for simulated ones.

    Given to a new worker it stands for a disk that outlived the old one.
    """

    def __init__(self) -> None:
        self._records: deque[tuple[AssignTaskRequest, int]] = deque()

    def append(self, frame: AssignTaskRequest, last: int) -> bool:
        """Keep a copy of the frame."""
        self._records.append((AssignTaskRequest(results=frame.results), last))
        return True

    def trim(self, oldest: int) -> None:
        """Let go of every record before `oldest`."""
        while self._records and self._records[0][1] < oldest:
            self._records.popleft()

    def clear(self, *, now: bool = False) -> None:
        """Let go of every record."""
        self._records.clear()

    def replay(self) -> list[TaskResult]:
        """Return what an earlier worker left."""
        results = {result.attempt_token: result for frame, _ in self._records for result in frame.results}
        self._records = deque((frame, len(results)) for frame, _ in self._records)
        return list(results.values())

    def close(self) -> None:
        """Do nothing: the records stay."""


def read_records(data: bytes) -> Iterator[AssignTaskRequest]:
    """Yield the records up to the first that is torn or damaged."""
    at = 0
    while at + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        payload = data[at : at + size]
        at += size
        if len(payload) != size or zlib.crc32(payload) != checksum:
            return
        try:
            yield AssignTaskRequest.FromString(payload)
        except DecodeError:
            return
