"""One service as a child process: started, its log lines passed on, ended with everything below it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

CHUNK = 1 << 16
OUTPUT_LEFT_S = 1.0
"""How long what it wrote last is read once it has ended, in seconds: what it left running may write for ever."""


class Child:
    """A child process.

    Args:
        name: For people, and of its log file.
        service: Which service: an entry point's name.
        environ: Its whole environment.
        log: File that gets its output as it is; begun anew at each start of `taskyard dev`.
        tell: Gets each line of its output, without the line end.
    """

    def __init__(
        self, name: str, service: str, environ: Mapping[str, str], log: Path, tell: Callable[[str], None]
    ) -> None:
        self.name = name
        self._service = service
        self._environ = dict(environ)
        self._log = log
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.StreamReader | None = None
        self._reading: asyncio.ReadTransport | None = None
        self._stdin = -1  # never written to: its end tells the child that we are gone
        self._losing = False

    @property
    def pid(self) -> int:
        """Its process id; 0 before the start."""
        return self._process.pid if self._process else 0

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Starts it in a session of its own, so that Ctrl-C reaches only us: we stop things in order.

        Its pipes are ours and not asyncio's, whose `wait` waits for their end as well: a process that a task left
        running has them open for as long as it likes.
        """
        theirs_in, self._stdin = os.pipe()
        output, theirs_out = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "taskyard_cli.dev.launcher", self._service,
                stdin=theirs_in, stdout=theirs_out, stderr=asyncio.subprocess.STDOUT,
                env=self._environ, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(self._stdin)
            os.close(output)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._output = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._output)
        pipe = os.fdopen(output, "rb", buffering=0)
        self._reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)

    async def ended(self) -> int:
        """Passes its output on until it ends; returns its exit code, negative for a signal."""
        if self._process is None or self._output is None or self._reading is None:
            raise RuntimeError(f"{self.name} was not started")
        passing = asyncio.create_task(self._pass_on(self._output), name=f"output of {self.name}")
        ending = asyncio.create_task(self._process.wait(), name=f"end of {self.name}")
        try:
            await asyncio.wait({passing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()  # who cannot pass its lines on says so at once
            code = await ending
            await asyncio.wait({passing}, timeout=OUTPUT_LEFT_S)
            return code
        finally:
            passing.cancel()
            ending.cancel()
            self._reading.close()
            os.close(self._stdin)

    async def _pass_on(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await output.read(CHUNK):
            self._keep(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._tell(line.decode(errors="replace"))
        if rest:
            self._tell(rest.decode(errors="replace"))

    def _keep(self, chunk: bytes) -> None:
        """Appends to the log file.

        A full disk must not end the services, which go on by themselves once there is room: the loss is said once.
        """
        try:
            with open(self._log, "ab", buffering=0, opener=private) as file:
                file.write(chunk)
        except OSError as error:
            if not self._losing:
                self._tell(f"lines are shown here and not kept in {self._log}: {error.strerror or error}")
            self._losing = True
        else:
            self._losing = False

    def terminate(self) -> None:
        """Asks it to stop, also when it is frozen and could not obey. Harmless when it has ended."""
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kills it and its process group. Harmless when it has ended."""
        if self._process is not None and self.runs:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Returns when it does not run."""
        if self._process is not None:
            await self._process.wait()


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read: tasks may write anything to a log."""
    return os.open(path, flags, 0o600)
