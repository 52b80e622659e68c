"""One process of a benchmark: started as a user would, logged to a file, ended by its id, its costs read."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

STOP_TIMEOUT_S = 30.0


class ChildFailed(RuntimeError):
    """A process of the benchmark ended when it should not have, or not as it should have."""


class Child:
    """A process. Its output goes to `NAME.log` in its folder."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> None:
        """Starts it.

        Args:
            name: For people.
            command: Program and arguments.
            folder: Its working directory; must exist.
            environ: Its whole environment.
        """
        self.name = name
        self.log_path = folder / f"{name}.log"
        # A benchmark that is killed takes its processes with it, where there is util-linux.
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*prefix, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=dict(environ)
            )
        self._seen = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def check(self) -> None:
        """Raises ChildFailed when it has ended."""
        code = self._process.poll()
        if code is not None:
            raise ChildFailed(f"the {self.name} ended with exit code {code}:\n{self.log_tail()}")

    def wait(self) -> int:
        """Waits for its end, at most STOP_TIMEOUT_S; returns its exit code."""
        return self._process.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Ends it as an operator would and waits for its end.

        Raises:
            ChildFailed: It had ended before, did not end in time, or its exit code was not 0.
        """
        self.check()
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise ChildFailed(
                f"the {self.name} did not end within {STOP_TIMEOUT_S:g} s of SIGTERM:\n{self.log_tail()}"
            ) from None
        if code:
            raise ChildFailed(f"the {self.name} was told to end and did so with exit code {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """Ends it at once; harmless when it has ended."""
        self._process.kill()
        self._process.wait()

    def cpu_s(self) -> float:
        """Returns the processor time that it and its children have used, in seconds."""
        return cpu_s(self._seen)

    def main_thread_cpu_s(self) -> float:
        """Returns the processor time of its main thread alone, in seconds: where one core is the limit."""
        return sum(thread.user_time + thread.system_time for thread in self._seen.threads() if thread.id == self.pid)

    def peak_rss_mb(self) -> float:
        """Returns the most memory that it has held, in MiB."""
        return peak_rss_mb(self.pid)

    def log_tail(self) -> str:
        """Returns the last lines that it wrote."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-20:])

    def complaints(self) -> list[str]:
        """Returns the log lines that are warnings or errors, or no JSON."""
        return [line for line in self.log_path.read_text(errors="replace").splitlines() if _complains(line)]


def _complains(line: str) -> bool:
    try:
        told = json.loads(line)
    except ValueError:
        return bool(line.strip())
    return not isinstance(told, dict) or told.get("level") not in ("debug", "info")


def cpu_s(process: psutil.Process) -> float:
    """Returns the processor time of a process and its living children, in seconds."""
    family = [process, *process.children(recursive=True)]
    return sum(times.user + times.system for times in (one.cpu_times() for one in family))


def peak_rss_mb(pid: int) -> float:
    """Returns the most memory that a process has held, in MiB; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
