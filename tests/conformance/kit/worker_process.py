"""The worker under test: any command line, started with the fixed environment, and ended as a group."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from conformance.kit.unmet import Unmet

KEPT_LINES = 60
KEPT_BYTES = 64 * 1024
LAST_WORDS_S = 0.5
"""How long what a worker said last may be on its way, once it has ended."""


def end_of(code: int) -> str:
    """Returns how a process ended, for people: `with exit code 3`, `by SIGKILL`."""
    if code >= 0:
        return f"with exit code {code}"
    if code == -signal.SIGTERM:
        return "by SIGTERM, which it did not catch (a script has to become the worker with `exec`)"
    return f"by {signal.Signals(-code).name}"


class WorkerProcess:
    """One life of the worker. Its output goes to a file in the scenario's folder.

    Args:
        command: Program and arguments. It is the worker itself, or becomes it (`exec`): SIGTERM goes to it alone.
        log: The file, which later lives append to.
        tell: Called when it has ended of itself.
    """

    def __init__(self, command: Sequence[str], log: Path, tell: Callable[[], None]) -> None:
        self._command = command
        self._log = log
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self.over: int | None = None
        """The exit code, once it has ended of itself and nothing that it said can be on its way any more."""

    async def start(self, environ: Mapping[str, str]) -> None:
        """Starts it with nothing of Taskyard in its environment but `environ`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
        setpriv = shutil.which("setpriv")  # a kit that is killed takes its workers with it
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        await self._unwatch()
        with self._log.open("ab") as log:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *prefix, *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                    env=kept | dict(environ), start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise Unmet(f"the worker could not be started: {error}") from error
        self._watch = asyncio.create_task(self._watched(self._process), name="the worker's end")

    async def _watched(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        await asyncio.sleep(LAST_WORDS_S)
        self.over = code
        self._tell()

    async def _unwatch(self) -> None:
        self.over = None
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return None if self._process is None else self._process.returncode

    async def wait(self) -> int:
        """Returns the exit code once it has ended. Raises Unmet when it was never started."""
        if self._process is None:
            raise Unmet("the scenario has not started the worker")
        return await self._process.wait()

    def terminate(self) -> None:
        """Asks it to end, as an operator does."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    async def kill(self) -> None:
        """Ends it and every process of its group at once."""
        await self._unwatch()
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    def text(self) -> str:
        """Returns what it wrote in all of its lives."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def tail(self) -> str:
        """Returns the last of what it wrote; it may have written without end."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - KEPT_BYTES))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-KEPT_LINES:])
