"""One process under test: started, watched through its log, killed, stopped, frozen and thawed by its id.

Not what it is told to run: that is `site`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

POLL_S = 0.01
"""How often another process is looked at: what it writes has no signal that we could wait on."""

PATIENCE_S = 60.0
"""How long anything may take that takes well under a second on an idle machine."""


async def until(check: Callable[[], Any], within: float = PATIENCE_S, what: str = "") -> Any:
    """Returns the first true value of `check`, a function or a coroutine function, which is asked until then.

    Raises:
        AssertionError: It was never true in time; says what was waited for.
    """
    deadline = time.monotonic() + within
    while True:
        value = check()
        found = await value if isinstance(value, Awaitable) else value
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what or check}; last: {found!r}")
        await asyncio.sleep(POLL_S)


class Process:
    """A child process whose output goes to a log file, JSON lines among it."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        """Starts it.

        Args:
            name: For people, and for the log file's name.
            command: Program and arguments.
            folder: Where the log goes and the process runs; must exist.
            environ: Its whole environment.
        """
        self.name = name
        self.log_path = folder / f"{name}.log"
        setpriv = shutil.which("setpriv")  # a test run that is killed takes its processes with it
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self.log_path.open("ab") as log:
            self._from = log.tell()
            self._process = subprocess.Popen(
                [*prefix, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=dict(environ)
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def events(self) -> list[dict[str, Any]]:
        """Returns the JSON lines that this process wrote, without a last line that is not whole yet."""
        text = self.text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{")]

    def text(self) -> str:
        """Returns everything that this process wrote."""
        with self.log_path.open("rb") as log:
            log.seek(self._from)
            return log.read().decode(errors="replace")

    async def wait_event(self, event: str, within: float = PATIENCE_S) -> dict[str, Any]:
        """Waits for a line of the log, and returns it."""

        def found() -> dict[str, Any] | None:
            line = next((line for line in self.events() if line.get("event") == event), None)
            if line is None and self.code is not None:
                raise AssertionError(f"{self.name} ended with exit code {self.code}, no {event!r}:\n{self.text()}")
            return line

        line: dict[str, Any] = await until(found, within, f"{event!r} in the log of {self.name}")
        return line

    async def wait(self, within: float = PATIENCE_S) -> int:
        """Waits for its end; returns the exit code."""
        await until(lambda: self.code is not None, within, f"the end of {self.name}")
        assert self.code is not None
        return self.code

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; harmless when it has ended."""
        self._process.send_signal(number)

    async def terminate(self, within: float = PATIENCE_S) -> int:
        """Ends it as an operator would; returns the exit code."""
        self.signal(signal.SIGTERM)
        return await self.wait(within)

    def kill(self) -> None:
        """Ends it at once, as the kernel would, and waits until it is gone."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stops it where it is (SIGSTOP); returns when it has stopped."""
        self.signal(signal.SIGSTOP)
        status = Path(f"/proc/{self.pid}/stat")
        while status.read_text().rpartition(")")[2].split()[0] not in "tT":
            pass

    def thaw(self) -> None:
        """Lets it go on (SIGCONT)."""
        self.signal(signal.SIGCONT)


def alive(pid: int) -> bool:
    """Tells whether a process runs; one that is dead and not yet buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
