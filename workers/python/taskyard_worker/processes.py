"""Child processes of attempts: each in a process group of its own, known to the supervisor before it does anything.

Knows nothing of what the children do (`isolation`, `shell`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from taskyard_worker.supervision import Supervision

LEASE_MARGIN_MS = 5000
"""How long before the end of its lease an exclusive attempt is killed."""

PIPE_BYTES = 64 * 1024
"""How much of a child's output is buffered before it has to wait."""


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


class ExitProtocol(asyncio.subprocess.SubprocessStreamProtocol):
    """Tells the end of the process itself: asyncio's own `wait` also waits for whoever holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=PIPE_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """Note that the process has ended."""
        super().process_exited()
        self.exited.set()


class Child:
    """One child process and its group."""

    def __init__(
        self, process: asyncio.subprocess.Process, transport: asyncio.SubprocessTransport, supervision: Supervision
    ) -> None:
        self.process = process
        self._transport = transport
        protocol = transport.get_protocol()
        if not isinstance(protocol, ExitProtocol):
            raise TypeError("a child is started with ExitProtocol")
        self._exited = protocol.exited
        self._supervision = supervision

    @property
    def group(self) -> int:
        """Id of its process group, which is also its process id."""
        return self.process.pid

    async def wait(self) -> int:
        """Wait for its end and kill what it left in its group; return its exit code, negative for a signal."""
        await self._exited.wait()
        self.kill()
        return self.process.returncode or 0

    async def end(self, grace_s: float) -> None:
        """Ask the group to end with SIGTERM; kill it once the grace is over, or when this is cancelled."""
        self.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._exited.wait()
        self.kill()
        await self._exited.wait()

    def terminate(self) -> None:
        """Ask the group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the group, what is left of it."""
        self._signal(signal.SIGKILL)

    def forget(self) -> None:
        """Tell the supervisor that it has ended, and close its pipes, whoever else still holds them."""
        self._supervision.drop(self.group)
        self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS says so of zombies
            os.killpg(self.group, number)


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
        stdin: int = asyncio.subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start a child by exec, its stdout and stderr as pipes.

        The supervisor learns of it after it exists: a child must wait to be told to go on, so that there is
        no moment in which it could outlive the worker.

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
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: ExitProtocol(loop),
            *command,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        process = asyncio.subprocess.Process(transport, protocol, loop)
        child = Child(process, transport, self.supervision)
        self.supervision.add(child.group)
        self.leases.bind(token, child.group)
        return child
