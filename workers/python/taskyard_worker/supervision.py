"""The worker's side of its supervisor process: tells it which process groups to kill, and keeps it alive.

Not the supervisor itself: that is `supervisor`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from taskyard_worker import supervisor
from taskyard_worker.logs import Logger


class Supervision:
    """Children registered here die with the worker, even when it is killed with kill -9.

    Args:
        log: The worker's own log.
    """

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._groups: dict[int, int | None] = {}
        self._closing = False
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Id of the supervisor process."""
        return self._process.pid

    def add(self, group: int) -> None:
        """Have a process group killed when the worker dies. Returns once the supervisor is bound to know it."""
        self._groups[group] = None
        self._tell(f"add {group}\n")

    def lease(self, group: int, deadline_ms: int) -> None:
        """Have a group killed at a time of `supervisor.boot_ms`, in place of an earlier such time."""
        if group in self._groups:
            self._groups[group] = deadline_ms
            self._tell(f"lease {group} {deadline_ms}\n")

    def drop(self, group: int) -> None:
        """Forget a group that has ended."""
        if group in self._groups:
            del self._groups[group]
            self._tell(f"drop {group}\n")

    def close(self) -> None:
        """End the supervisor, which kills what is still registered."""
        self._closing = True
        self._loop.remove_reader(self._output())
        self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start it by exec, in a session of its own, so that nothing aimed at the worker's group hits it."""
        process = subprocess.Popen(  # noqa: S603 - our own file, by our own interpreter
            [sys.executable, "-I", "-S", str(Path(supervisor.__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        self._process = process
        # It never writes: its output ends when it does.
        self._loop.add_reader(self._output(), self._died)
        return process

    def _died(self) -> None:
        """Start another, and tell it what the dead one knew."""
        self._loop.remove_reader(self._output())
        self._end()
        if self._closing:
            return
        self._log.error("the supervisor process died; starting another", pid=self._process.pid)
        self._start()
        for group, deadline in list(self._groups.items()):
            self._tell(f"add {group}\n")
            if deadline is not None:
                self._tell(f"lease {group} {deadline}\n")

    def _tell(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return
        try:
            stdin.write(line.encode())
        except BrokenPipeError:
            return  # it died: its output ends too, and its successor is told everything

    def _output(self) -> int:
        if self._process.stdout is None:
            raise RuntimeError("the supervisor was started without its pipe")
        return self._process.stdout.fileno()

    def _end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()
