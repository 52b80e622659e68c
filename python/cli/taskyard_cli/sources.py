"""The files that a command reads: named one by one, in folders, or on stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from taskyard_cli.problems import BadFile, Problem

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its name for messages, what its name is without folder and ending, and its content."""

    file: str
    stem: str
    data: bytes


def read_sources(names: Sequence[str], suffixes: Sequence[str], limit: int) -> Iterator[Source]:
    """Yields the files, those of a folder by name.

    Args:
        names: Files, folders, and `-` for stdin.
        suffixes: Which files of a folder are meant, for example `.json`.
        limit: At most one byte more than so many is read of each.

    Raises:
        BadFile: One cannot be read, or a folder has no such file.
    """
    for name in names:
        if name == STDIN:
            yield Source("stdin", "stdin", _read("stdin", sys.stdin.buffer, limit))
            continue
        for path in _paths(name, suffixes):
            try:
                with path.open("rb") as file:
                    yield Source(str(path), path.stem, _read(str(path), file, limit))
            except OSError as error:
                raise _unreadable(str(path), error) from None


def _paths(name: str, suffixes: Sequence[str]) -> list[Path]:
    path = Path(name)
    if not path.is_dir():
        return [path]
    try:
        found = sorted(each for each in path.iterdir() if each.suffix in suffixes and not each.is_dir())
    except OSError as error:
        raise _unreadable(name, error) from None
    if not found:
        say = f"is a folder without a {' or '.join(suffixes)} file; name one that has some"
        raise BadFile(name, [Problem(None, "", say)])
    return found


def _read(name: str, file: BinaryIO, limit: int) -> bytes:
    try:
        return file.read(limit + 1)
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> BadFile:
    return BadFile(name, [Problem(None, "", f"cannot be read: {error.strerror}")])
