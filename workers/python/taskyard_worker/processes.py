"""Child processes of attempts: each in a process group of its own, known to the supervisor before it does anything.

Knows nothing of what the children do (`isolation`, `shell`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from taskyard_worker.supervision import Supervision

LEASE_MARGIN_MS = 5000
"""How long before the end of its lease an exclusive attempt is killed."""

PIPE_BYTES = 64 * 1024
"""How much of a child's output is buffered before it has to wait."""
PROCESSES = Path("/proc")
"""Where Linux tells what runs."""
LOOK_S = 0.05
"""How often a group is looked at whose leader has ended: nothing tells of the end of what is not our own child."""


class Leases:
    """Leases of exclusive attempts, by token, on the boot-time clock."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision
        self._deadlines: dict[str, int] = {}
        self._groups: dict[str, int] = {}

    def renew(self, token: str, ends_ms: int) -> None:
        """Let an attempt live until 5 s before its lease ends, a time of `supervisor.boot_ms`."""
        self._deadlines[token] = ends_ms - LEASE_MARGIN_MS
        if token in self._groups:
            self._supervision.lease(self._groups[token], self._deadlines[token])

    def bind(self, token: str, group: int) -> None:
        """Name the process group that runs the attempt."""
        if token in self._deadlines:
            self._groups[token] = group
            self._supervision.lease(group, self._deadlines[token])

    def forget(self, token: str) -> None:
        """Forget an attempt that has ended."""
        self._deadlines.pop(token, None)
        self._groups.pop(token, None)


class Exit:
    """The end of a process, watched without a thread where the system can (Linux' pidfd)."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._watch()

    async def wait(self) -> int:
        """Return the exit code once the process has ended, negative for a signal."""
        await self._ended.wait()
        code: int = self._process.returncode
        return code

    def _watch(self) -> None:
        if not hasattr(os, "pidfd_open"):
            threading.Thread(target=self._wait_in_thread, name="child", daemon=True).start()
            return
        descriptor = os.pidfd_open(self._process.pid)
        self._loop.add_reader(descriptor, self._readable, descriptor)

    def _readable(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._process.wait()
        self._ended.set()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ended.set)


class Child:
    """One child process and its group.

    Attributes:
        stdout: What it prints.
        stderr: What it complains.
    """

    def __init__(self, process: subprocess.Popen[bytes], supervision: Supervision) -> None:
        self.stdout = asyncio.StreamReader(limit=PIPE_BYTES)
        self.stderr = asyncio.StreamReader(limit=PIPE_BYTES)
        self._process = process
        self._exit = Exit(process)
        self._supervision = supervision
        self._pipes: list[asyncio.ReadTransport] = []
        self._asked = False
        self._killed = False

    @property
    def group(self) -> int:
        """Id of its process group, which is also its process id."""
        return self._process.pid

    async def connect(self) -> None:
        """Begin to read its pipes."""
        loop = asyncio.get_running_loop()
        for reader, pipe in ((self.stdout, self._process.stdout), (self.stderr, self._process.stderr)):
            transport, _ = await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), pipe)
            self._pipes.append(transport)

    def say_go(self) -> None:
        """Write a line to its stdin and close that."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended: its exit code says more
                self._process.stdin.write(b"\n")
            self._process.stdin.close()

    async def exited(self) -> int:
        """Wait for its end, whatever it leaves in its group; return its exit code, negative for a signal."""
        return await self._exit.wait()

    async def wait(self) -> int:
        """Wait for its end and return its exit code, negative for a signal.

        What it leaves in its group is killed; what was asked to end is waited for, until it is gone or killed.
        """
        code = await self._exit.wait()
        while self._asked and not self._killed and group_lives(self.group):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(LOOK_S)
        self.kill()
        return code

    async def end(self, grace_s: float) -> None:
        """Ask the group to end with SIGTERM; kill what is left once the grace is over, or when this is cancelled."""
        self.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.wait()
        self.kill()
        await self._exit.wait()

    def terminate(self) -> None:
        """Ask the group to end, also what is stopped in it: it could not obey."""
        self._asked = True
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the group, what is left of it."""
        self._killed = True
        self._signal(signal.SIGKILL)

    def forget(self) -> None:
        """Tell the supervisor that it has ended, and close its pipes, whoever else still holds them."""
        self._supervision.drop(self.group)
        for pipe in self._pipes:
            pipe.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so of zombies
            os.killpg(self.group, number)


def group_lives(group: int) -> bool:
    """Tell whether anything runs in a process group.

    The dead that nobody has buried do not count: in a container the first process often buries nobody.
    """
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(_runs_in(group, entry) for entry in PROCESSES.glob("[0-9]*/stat")) if PROCESSES.is_dir() else True


def _runs_in(group: int, stat: Path) -> bool:
    try:
        state, _, its_group = stat.read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):
        return False  # it ended while it was looked at
    return int(its_group) == group and state not in (b"Z", b"X")


class ProcessHost:
    """Starts children.

    Args:
        supervision: Kills them when the worker dies.
    """

    def __init__(self, supervision: Supervision) -> None:
        self.supervision = supervision
        self.leases = Leases(supervision)

    async def start(
        self,
        command: Sequence[str],
        *,
        token: str,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdin: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start a child by exec, its stdout and stderr as pipes.

        The supervisor learns of it after it exists: a child must wait to be told to go on, so that there is no moment
        in which it could outlive the worker.

        Not the event loop's own way to start processes: uvloop's forks and runs fork handlers in the child, and
        those of gRPC crash there.

        Args:
            command: The program and its arguments.
            token: The attempt that it runs for.
            env: Its whole environment.
            cwd: Where it runs; None: where the worker does.
            stdin: As in `subprocess`.
            pass_fds: File descriptors that it inherits.

        Raises:
            OSError: It cannot be started.
        """
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - running programs is the task; it takes a millisecond
            command,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=pass_fds,
            bufsize=0,
        )
        self.supervision.add(process.pid)
        child = Child(process, self.supervision)
        try:
            self.leases.bind(token, child.group)
            await child.connect()
        except BaseException:
            child.kill()
            child.forget()
            raise
        return child
