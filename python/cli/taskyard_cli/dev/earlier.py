"""What a killed `taskyard dev` left running on the same directory: whom to wait for, and in which words.

Its services end by themselves, and until then hold their locks. A worker that took another place meanwhile would not
find the results that the earlier one keeps in its own, and what they are of would run again.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from taskyard_cli.dev.child import private
from taskyard_cli.dev.launcher import GRACE_S

LIMIT_S = GRACE_S + 5.0
"""How long it is waited for them, in seconds: they get `GRACE_S` to stop, then they are killed."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A service that an earlier `taskyard dev` may have left running.

    Attributes:
        name: The name that it had, which is that of the one to start now.
        lock: The file that it locks while it runs.
        noted: The file with its process id.
    """

    name: str
    lock: Path
    noted: Path

    @property
    def pid(self) -> int:
        """Its process id; 0 when it is not known."""
        return _number(self.noted)

    def runs(self) -> bool:
        """Tells whether it holds its lock.

        A lock file that has another process id is somebody else's, who would not end by himself: nobody to wait for.
        """
        return _is_held(self.lock) and _number(self.lock) in (0, self.pid)

    def note(self, pid: int) -> None:
        """Keeps the process id of the one that is started now, for whoever comes after us."""
        with suppress(OSError), open(self.noted, "w", encoding="ascii", opener=private) as file:
            file.write(f"{pid}\n")  # a full disk must end nothing; the id is only for people

    def wait_sentence(self) -> str:
        """Returns whom the one to start waits for, and why."""
        why = (
            "which still holds the database"
            if self.name == "scheduler"
            else "which finishes its tasks; they would run again if their results were not waited for"
        )
        return (
            f"{self.name} waits for the one of a `taskyard dev` that was killed (process {self.pid or 'unknown'}), "
            f"{why}: at most {LIMIT_S:.0f} s, Ctrl-C ends it"
        )

    def end_sentence(self) -> str:
        """Returns that the wait was in vain, and what follows."""
        follows = "" if self.name == "scheduler" else "; what it has finished may run again"
        return (
            f"{self.name} starts although the earlier one (process {self.pid or 'unknown'}) still runs after "
            f"{LIMIT_S:.0f} s{follows}"
        )


def earlier_scheduler(directory: Path) -> Earlier:
    """Returns the scheduler that may be left in the data directory."""
    return Earlier("scheduler", directory / "taskyard.db.lock", directory / "scheduler.pid")


def earlier_worker(directory: Path, number: int) -> Earlier:
    """Returns the worker of this number that may be left; it holds the first place below its own data directory."""
    name = f"worker-{number}"
    return Earlier(name, directory / name / "workers" / "1" / "lock", directory / f"{name}.pid")


def unclaimed_sentence(directory: Path, workers: int) -> str:
    """Returns that earlier workers beyond our number have, or will have, results that nobody hands in; else nothing."""
    found = [int(path.name.removeprefix("worker-")) for path in directory.glob("worker-*") if path.name[7:].isdecimal()]
    last = max((number for number in found if number > workers and _owes(directory, number)), default=0)
    if not last:
        return ""
    return (
        f"worker-{last} of an earlier `taskyard dev` here still runs, or may have results that were not handed in: "
        f"what they are of runs again, unless you start with --workers {last} once"
    )


def _owes(directory: Path, number: int) -> bool:
    """Tells whether a worker still runs, or keeps results of which it does not know that they were recorded."""
    worker = earlier_worker(directory, number)
    return worker.runs() or any((worker.lock.parent / "spool").glob("*.spool"))


def _is_held(path: Path) -> bool:
    """Tells whether another process has locked the file. One that cannot be opened is its owner's to complain about."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _number(path: Path) -> int:
    """Returns the process id in a file; 0 when there is none."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
