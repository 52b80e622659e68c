"""A small process beside the worker: kills the worker's children when the worker dies, or when a lease ends.

Started by `supervision` as a script; uses the standard library only and imports nothing of ours, so that it
is small and starts at once. It reads lines: `add GROUP`, `lease GROUP DEADLINE_MS`, `drop GROUP`; the end of
its input means that the worker is dead.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

LONGEST_WAIT_S = 1.0
"""The wait stops counting while the host sleeps, deadlines do not: so look at the clock at least this often."""


def boot_ms() -> int:
    """Return milliseconds since boot, those included that the host slept."""
    return int(time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) * 1000)


def kill(group: int) -> None:
    """Kill a process group; it may be gone already."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # gone; or macOS' way to say that only zombies are left


class Groups:
    """The process groups to kill, some of them with a deadline on the boot-time clock."""

    def __init__(self) -> None:
        self._deadlines: dict[int, int | None] = {}

    def obey(self, line: str) -> None:
        """Carry out one line. A lease of a group that is not known is too late and means nothing."""
        verb, group, *rest = line.split()
        number = int(group)
        if verb == "add":
            self._deadlines[number] = None
        elif verb == "lease" and number in self._deadlines:
            self._deadlines[number] = int(rest[0])
        elif verb == "drop":
            self._deadlines.pop(number, None)

    def kill_overdue(self, now_ms: int) -> None:
        """Kill every group whose lease has ended."""
        for group, deadline in list(self._deadlines.items()):
            if deadline is not None and deadline <= now_ms:
                kill(group)
                del self._deadlines[group]

    def kill_all(self) -> None:
        """Kill every group."""
        for group in self._deadlines:
            kill(group)

    def wait_s(self, now_ms: int) -> float | None:
        """Return how long nothing can be overdue, in seconds; None: for as long as nothing is said."""
        deadlines = [deadline for deadline in self._deadlines.values() if deadline is not None]
        if not deadlines:
            return None
        return min(max(0, min(deadlines) - now_ms) / 1000, LONGEST_WAIT_S)


def supervise(source: int) -> None:
    """Obey until the input ends, then kill what is left."""
    groups = Groups()
    pending = b""
    try:
        while True:
            readable, _, _ = select.select([source], [], [], groups.wait_s(boot_ms()))
            groups.kill_overdue(boot_ms())
            if not readable:
                continue
            data = os.read(source, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                groups.obey(line.decode())
    finally:
        groups.kill_all()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the worker, not with the terminal
    supervise(sys.stdin.fileno())
