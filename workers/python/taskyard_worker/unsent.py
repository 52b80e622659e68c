"""Log lines that a stopping worker could not send: one file, read at its next start.

Not the results (`spool`). Lines reach the file when the worker stops; those of a killed worker are lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from google.protobuf.message import DecodeError

from taskyard.v1.workers_pb2 import AppendLogsRequest, LogChunk
from taskyard_worker.spool import Warn


class UnsentLogs(Protocol):
    """Where log lines survive a restart of the worker."""

    def keep(self, chunks: Sequence[LogChunk]) -> None:
        """Keep these lines in place of all that were kept. Raises OSError when there is no room."""
        ...

    def replay(self) -> list[LogChunk]:
        """Return what an earlier life left; it stays until `clear` or `keep`."""
        ...

    def clear(self) -> None:
        """Let go of every line. Raises OSError."""
        ...


class FileLogs:
    """Unsent lines in a file, which is replaced as a whole: a kill while it is written leaves the old one.

    It is as large as what a `LogBook` lets wait.

    Args:
        path: The file.
        warn: Told when the file is damaged.
    """

    def __init__(self, path: Path, warn: Warn) -> None:
        self._path = path
        self._warn = warn

    def keep(self, chunks: Sequence[LogChunk]) -> None:
        """Write the file anew. Raises OSError."""
        part = self._path.with_suffix(".part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(AppendLogsRequest(chunks=chunks).SerializeToString())
            part.replace(self._path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def replay(self) -> list[LogChunk]:
        """Return the file's lines; none, and a warning, when it is damaged. Raises OSError."""
        try:
            return list(AppendLogsRequest.FromString(self._path.read_bytes()).chunks)
        except FileNotFoundError:
            return []
        except DecodeError as error:
            self._warn("the log lines that an earlier life could not send are damaged and lost", error=str(error))
            self.clear()
            return []

    def clear(self) -> None:
        """Remove the file. Raises OSError."""
        self._path.unlink(missing_ok=True)


class MemoryLogs:
    """Unsent lines without a file. Given to a new worker it stands for a disk that outlived the old one."""

    def __init__(self) -> None:
        self._chunks: list[LogChunk] = []

    def keep(self, chunks: Sequence[LogChunk]) -> None:
        """Keep the lines."""
        self._chunks = list(chunks)

    def replay(self) -> list[LogChunk]:
        """Return what an earlier worker left."""
        return list(self._chunks)

    def clear(self) -> None:
        """Let go of every line."""
        self._chunks = []
