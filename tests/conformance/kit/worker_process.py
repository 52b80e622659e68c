"""The worker under test: any command line, started with the fixed environment, and ended as a group."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

KEPT_LINES = 60


class WorkerProcess:
    """One life of the worker. Its output goes to a file in the scenario's folder.

    Args:
        command: Program and arguments. It is the worker itself, or becomes it (`exec`): SIGTERM goes to it alone.
        log: The file, which later lives append to.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, environ: Mapping[str, str]) -> None:
        """Starts it with nothing of Taskyard in its environment but `environ`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
        setpriv = shutil.which("setpriv")  # a kit that is killed takes its workers with it
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *prefix, *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env=kept | dict(environ), start_new_session=True,
            )  # fmt: skip

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self._process is None else self._process.returncode

    async def wait(self) -> int:
        """Returns the exit code once it has ended."""
        assert self._process is not None
        return await self._process.wait()

    def terminate(self) -> None:
        """Asks it to end, as an operator does."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    async def kill(self) -> None:
        """Ends it and every process of its group at once."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def text(self) -> str:
        """Returns what it wrote in all of its lives."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def tail(self) -> str:
        """Returns the last of what it wrote."""
        return "\n".join(self.text().splitlines()[-KEPT_LINES:])
