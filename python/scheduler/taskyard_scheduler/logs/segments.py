"""Segment files: append-only, shared by many attempts, so that many small tasks do not make one file each.

Bytes only: what they mean is record.py's, where each record stands is index.py's.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from taskyard_scheduler.logs.record import HEAD, Record, decode, length_at

OPEN_LIMIT = 16
"""Segments open for reading at once."""
SUFFIX = ".seg"


class Segments:
    """The segment files of one folder. One thread at a time.

    Args:
        folder: Where they are; made when it is missing, readable by its owner only.
        open_limit: How many are open for reading at once.
    """

    def __init__(self, folder: Path, open_limit: int = OPEN_LIMIT) -> None:
        self._folder = folder
        self._open_limit = open_limit
        self._readers: OrderedDict[int, int] = OrderedDict()
        self._writer: int | None = None
        self.active = 0
        """Number of the segment that is written to; 0 before the first."""
        self.active_size = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def numbers(self) -> list[int]:
        """Returns the numbers of the segments on disk, oldest first."""
        return sorted(
            int(path.stem) for path in self._folder.iterdir() if path.suffix == SUFFIX and path.stem.isdigit()
        )

    def size(self, number: int) -> int:
        """Returns the bytes of a segment's file."""
        return self._path(number).stat().st_size

    def open_for_append(self, number: int) -> None:
        """Writes go to this segment from now on; it is made when it is missing."""
        self.seal()
        self._writer = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.active = number
        self.active_size = os.fstat(self._writer).st_size

    def append(self, data: bytes) -> int:
        """Writes all of `data` at the end of the active segment; returns where it begins.

        Raises:
            OSError: It could not; the segment is as before.
        """
        if self._writer is None:
            raise OSError("no segment is open for writing")
        start = self.active_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._writer, view) :]
        except OSError:
            os.ftruncate(self._writer, start)
            raise
        self.active_size += len(data)
        return start

    def take_back(self, start: int) -> None:
        """Cuts the active segment at `start`: what was written there did not get into the index."""
        if self._writer is not None:
            os.ftruncate(self._writer, start)
            self.active_size = start

    def seal(self) -> None:
        """Ends the active segment: on disk for good, no more writes."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            os.fsync(writer)
        finally:
            os.close(writer)

    def read(self, number: int, offset: int, length: int) -> bytes:
        """Returns bytes of a segment; fewer when the file ends before."""
        return os.pread(self._reader(number), length, offset)

    def records(self, number: int, start: int) -> Iterator[tuple[int, int, Record | None]]:
        """Yields offset, length and content of each record from `start` on, None for a damaged one.

        Ends at the end of the file, at one that is cut off, or at what is no record. It never searches for
        the next one: what looks like a record inside of lines may have been put there by who wrote the lines.
        """
        reader, at, size = self._reader(number), start, self.size(number)
        while True:
            length = length_at(os.pread(reader, HEAD.size, at))
            if length is None or at + length > size:
                return
            found = decode(os.pread(reader, length, at))
            yield at, length, found and found[0]
            at += length

    def cut(self, number: int, size: int) -> None:
        """Cuts a segment's file to `size` bytes."""
        os.truncate(self._path(number), size)

    def remove(self, number: int) -> None:
        """Deletes a segment's file; one that is gone is fine."""
        reader = self._readers.pop(number, None)
        if reader is not None:
            os.close(reader)
        self._path(number).unlink(missing_ok=True)

    def close(self) -> None:
        """Lets go of every file."""
        while self._readers:
            os.close(self._readers.popitem()[1])
        self.seal()

    def _reader(self, number: int) -> int:
        reader = self._readers.get(number)
        if reader is None:
            reader = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
            self._readers[number] = reader
            if len(self._readers) > self._open_limit:
                os.close(self._readers.popitem(last=False)[1])
        else:
            self._readers.move_to_end(number)
        return reader

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}{SUFFIX}"
