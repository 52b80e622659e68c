"""A terminal with a command in it, as a person has it: what is drawn is read, and keys are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

PATIENCE_S = 60.0
"""How long anything may take that takes a second on an idle machine."""


class Terminal:
    """A terminal of 80 by 24 in which a command runs.

    Args:
        arguments: Of `taskyard`.
        code: Runs in place of `taskyard`, with these arguments.
    """

    def __init__(self, *arguments: str, code: str = "") -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environ = os.environ | {"TERM": "xterm-256color"}
        environ.pop("COLUMNS")
        command = [sys.executable, *(("-c", code) if code else ("-m", "taskyard_cli")), *arguments]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
        )
        os.close(theirs)
        self.text = b""

    def read_until(self, wanted: bytes) -> None:
        """Reads what is drawn until something was."""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._read(), f"it ended before that: {self.text!r}"

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def ended(self) -> int:
        """Reads until the command has ended; returns its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read(0.05)
        while self._read(0.0):
            pass
        return self.process.wait(1)

    def _read(self, within: float = PATIENCE_S) -> bytes:
        ready, _, _ = select.select([self.ours], [], [], within)
        try:
            found = os.read(self.ours, 1 << 16) if ready else b""
        except OSError:  # the other side has closed
            found = b""
        self.text += found
        return found

    def hang_up(self) -> None:
        """Closes our side, as who closes a window does."""
        os.close(self.ours)
        self.ours = -1

    def close(self) -> None:
        """Ends what is left."""
        self.process.kill()
        self.process.wait()
        if self.ours >= 0:
            self.hang_up()
