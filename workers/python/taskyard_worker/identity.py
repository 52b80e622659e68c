"""The worker's own directory on this host, held by a lock, and the id that is kept in it.

A restart is the same worker; a second worker on the host takes the next numbered directory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from taskyard_worker.errors import DataDirectoryError
from taskyard_worker.private import private

PREFIX = "python-worker-"
MAX_DIRECTORIES = 10_000
MAX_ID_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Home:
    """A locked directory. The lock lasts until `release`, or until the process ends in whatever way."""

    path: Path
    worker_id: str
    lock: int

    def release(self) -> None:
        """Let another worker have the directory."""
        os.close(self.lock)


def take_home(data: Path, worker_id: str = "") -> Home:
    """Lock a directory below `data` and return it with the worker's id.

    Args:
        data: Taskyard's data directory.
        worker_id: A chosen id, which has a directory of its own; empty: the id kept in the first directory
            that no other worker holds, made there when it is new.

    Raises:
        DataDirectoryError: The directory cannot be used, or a worker of the chosen id runs on this host
            already.
    """
    try:
        return chosen_home(data, worker_id) if worker_id else next_home(data)
    except OSError as error:
        raise DataDirectoryError(
            f"the worker's data directory below {data} cannot be used: {error.strerror or error}; "
            "name another in TASKYARD_DATA"
        ) from error


def chosen_home(data: Path, worker_id: str) -> Home:
    """Lock the directory of a chosen id."""
    path = data / "workers" / f"id-{quote(worker_id, safe='')}"
    lock = try_lock(path)
    if lock is None:
        raise DataDirectoryError(
            f"a worker with the id {worker_id!r} runs on this host already; stop it or choose another id"
        )
    return Home(path, worker_id, lock)


def next_home(data: Path) -> Home:
    """Lock the first numbered directory that is free."""
    for number in range(1, MAX_DIRECTORIES + 1):
        path = data / "workers" / str(number)
        lock = try_lock(path)
        if lock is not None:
            return Home(path, kept_id(path / "worker-id"), lock)
    raise DataDirectoryError(f"all {MAX_DIRECTORIES} worker directories below {data} are in use")


def try_lock(path: Path) -> int | None:
    """Lock a directory, made when it is missing; return the lock, or None when another process holds it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        os.close(lock)
        raise
    return lock


def kept_id(path: Path) -> str:
    """Return the id that the file keeps; a missing or damaged one gets a new id."""
    if path.exists():
        kept = path.read_text(encoding="utf-8", errors="replace").strip()
        if kept.startswith(PREFIX) and len(kept) <= MAX_ID_CHARACTERS and kept.isprintable():
            return kept
    worker_id = PREFIX + secrets.token_hex(4)
    fresh = path.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8", opener=private) as file:
        file.write(worker_id + "\n")
    os.replace(fresh, path)
    return worker_id
