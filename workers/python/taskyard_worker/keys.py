"""Memory of first results by idempotency key, so that a task delivered again answers without running again.

Only successes are remembered: a failed attempt is meant to be tried again under the same key, and what a deferred
one ends with is not known here: delivered again, it has another token, which its handler gives out anew. On disk, one
JSON line for each; not flushed to the platter, as the spool.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from taskyard_worker.private import private
from taskyard_worker.spool import Warn

MAX_KEYS = 10_000
MAX_AGE_MS = 24 * 3600 * 1000
MAX_BYTES = 64 * 1024 * 1024
"""Outputs kept in memory at most; beyond it the oldest keys go early."""


class KeyMemory(Protocol):
    """Remembers outputs by tenant and key."""

    def find(self, tenant: str, key: str) -> str | None:
        """Return the first output as JSON text, or None when the key is not known (any more)."""
        ...

    def remember(self, tenant: str, key: str, output_json: str) -> None:
        """Remember an output, unless there is one already. Kept with the next `save`."""
        ...

    def save(self) -> None:
        """Write what is new."""
        ...

    def close(self) -> None:
        """Write what is new and close."""
        ...


@dataclass(frozen=True, slots=True)
class Remembered:
    """A first result. `at_ms`: when it was made, Unix milliseconds."""

    output_json: str
    at_ms: int


class MemoryKeys:
    """A key memory without a file; bounded by count, age and bytes.

    Args:
        wall: Unix time in milliseconds.
        max_keys: How many keys are remembered.
    """

    def __init__(self, wall: Callable[[], int], max_keys: int = MAX_KEYS) -> None:
        self._wall = wall
        self._max_keys = max_keys
        self._known: OrderedDict[tuple[str, str], Remembered] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._known)

    def find(self, tenant: str, key: str) -> str | None:
        """Return the first output as JSON text, or None."""
        found = self._known.get((tenant, key))
        if found is None or self._wall() - found.at_ms > MAX_AGE_MS:
            return None
        return found.output_json

    def remember(self, tenant: str, key: str, output_json: str) -> None:
        """Remember an output, unless there is one already."""
        if self.find(tenant, key) is None:
            self.insert((tenant, key), Remembered(output_json, self._wall()))

    def insert(self, name: tuple[str, str], result: Remembered) -> None:
        """Put a result in the place of any other of that name, and let the oldest go."""
        old = self._known.pop(name, None)
        if old is not None:
            self._bytes -= len(old.output_json)
        self._known[name] = result
        self._bytes += len(result.output_json)
        limit = self._wall() - MAX_AGE_MS
        while self._known:
            first = next(iter(self._known.values()))
            if len(self._known) <= self._max_keys and self._bytes <= MAX_BYTES and first.at_ms >= limit:
                return
            self._known.popitem(last=False)
            self._bytes -= len(first.output_json)

    def lines(self) -> list[str]:
        """Return everything as lines of the file."""
        return [line(name, result) for name, result in self._known.items()]

    def save(self) -> None:
        """Do nothing: there is no file."""

    def close(self) -> None:
        """Do nothing: there is no file."""


class FileKeys(MemoryKeys):
    """A key memory that outlives the process. The file is rewritten when it is opened and when half of it is old.

    Args:
        path: The file; made when it is missing.
        wall: Unix time in milliseconds.
        warn: Told when the file cannot be written.
        max_keys: How many keys are remembered.

    Raises:
        OSError: The file cannot be used.
    """

    def __init__(self, path: Path, wall: Callable[[], int], warn: Warn, max_keys: int = MAX_KEYS) -> None:
        super().__init__(wall, max_keys)
        self._path = path
        self._warn = warn
        self._failing = False
        self._new: list[str] = []
        self._load()
        self._rewrite()

    def insert(self, name: tuple[str, str], result: Remembered) -> None:
        """Put a result in the place of any other of that name."""
        super().insert(name, result)
        self._new.append(line(name, result))

    def save(self) -> None:
        """Write what is new. A full disk costs the memory its survival, not the worker its work."""
        if not self._new:
            return
        try:
            with open(self._path, "a", encoding="utf-8", opener=private) as file:
                file.writelines(self._new)
            self._in_file += len(self._new)
            self._new.clear()
            self._failing = False
            if self._in_file > 2 * self._max_keys:
                self._rewrite()
        except OSError as error:
            del self._new[: -self._max_keys]
            if not self._failing:
                self._warn("the memory of idempotency keys cannot be written", path=str(self._path), error=str(error))
            self._failing = True

    def close(self) -> None:
        """Write what is new."""
        self.save()

    def _load(self) -> None:
        if not self._path.exists():
            return
        for text in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                tenant, key, at_ms, output_json = json.loads(text)
                super().insert((tenant, key), Remembered(str(output_json), int(at_ms)))
            except (ValueError, TypeError):
                continue  # a torn line, or two that a torn one joined: those keys are forgotten

    def _rewrite(self) -> None:
        fresh = self._path.with_suffix(".new")
        lines = self.lines()
        with open(fresh, "w", encoding="utf-8", opener=private) as file:
            file.writelines(lines)
        os.replace(fresh, self._path)
        self._in_file = len(lines)


def line(name: tuple[str, str], result: Remembered) -> str:
    """Return one line of the file; it begins on a new line even after a torn one."""
    return json.dumps([*name, result.at_ms, result.output_json]) + "\n"
