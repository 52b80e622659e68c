"""Prints the lines of a task's log, and what comes without a line end in one piece. Not where they come from."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from taskyard.v1 import tasks_pb2 as pb
from taskyard_cli.show import harmless


class LogPrinter:
    """Prints lines in their order. A file gets exactly what was written; a terminal nothing that could drive it.

    Args:
        console: Where to.
        apart: Print a line before each further attempt.
        alone: The lines are of one stream, whose text is printed as it came: its end gets no line end in a file.
    """

    def __init__(self, console: Console, *, apart: bool, alone: bool) -> None:
        self._console = console
        self._apart = apart
        self._alone = alone
        self._attempt = 0
        self._open = ""  # the stream whose text has no line end yet

    def print(self, line: pb.StoredLogLine) -> None:
        """Prints one line, or a piece of one."""
        content = line.content
        if line.attempt != self._attempt:
            self._begin(line.attempt)
        if self._open != content.stream:
            self._break_line()
        level = f"{content.level} " if content.level else ""
        text = f"{level}{content.text}"
        sys.stdout.write(harmless(text) if self._console.is_terminal else text)
        self._open = content.stream if content.partial else ""
        if not content.partial:
            sys.stdout.write("\n")
        sys.stdout.flush()

    def end(self) -> None:
        """Ends what has no line end."""
        if not self._alone or self._console.is_terminal:
            self._break_line()
            sys.stdout.flush()

    def _begin(self, attempt: int) -> None:
        self._break_line()
        if self._apart and (self._attempt or attempt > 1):
            # With the lines, so that a file keeps the attempts apart as a terminal does.
            self._console.print(Text(f"--- attempt {attempt} ---", style="dim"))
        self._attempt = attempt

    def _break_line(self) -> None:
        if self._open:
            self._open = ""
            sys.stdout.write("\n")
