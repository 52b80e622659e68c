"""Follows the logs of one task."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, RichLog, Static

from taskyard.v1.tasks_pb2 import StoredLogLine
from taskyard_cli.show import harmless
from taskyard_cli.top.leaving import Leaves
from taskyard_client import AsyncClient, DeadlineExceeded, TaskyardError, Unavailable

KEPT = 10_000
"""Most lines that can be scrolled back to."""
SHOWN = 2_000
"""Most characters that are shown of a line that has no end yet."""
AGAIN_S = 2.0
"""Between one try to reach the scheduler again and the next."""


class LogScreen(Leaves):
    """Shows what a task wrote, all attempts, and new lines as they come.

    Args:
        client: What it asks.
        task_id: Which task.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,l", "dismiss", "back")]

    def __init__(self, client: AsyncClient, task_id: str) -> None:
        super().__init__()
        self._client = client
        self._task_id = task_id
        self._last = (0, -1)  # attempt and line
        self._open = ("", "")  # stream and text of a line that has no end yet

    def compose(self) -> ComposeResult:
        """Puts the screen together."""
        yield Static(f"logs of {self._task_id}", markup=False, classes="head")
        yield RichLog(max_lines=KEPT, wrap=True)
        yield Static("", markup=False, id="open")
        yield Static("", markup=False, id="state")
        yield Footer()

    def on_mount(self) -> None:
        """Begins to follow."""
        self.query_one(RichLog).focus()
        self._follow()

    @work
    async def _follow(self) -> None:
        while not self.leaving():
            try:
                self._say("follows; esc goes back")
                async for line in self._client.logs(self._task_id, follow=True):
                    if self.leaving():
                        return
                    self._write(line)
                self._end_line()
                self._say("that is all: the task has ended")
                return
            except (Unavailable, DeadlineExceeded) as error:
                self._say(f"no connection, trying again: {error.message}")
                await asyncio.sleep(AGAIN_S)
            except TaskyardError as error:
                self._say(error.message)
                return

    def _write(self, line: StoredLogLine) -> None:
        position = (line.attempt, line.line)
        if position <= self._last:
            return  # seen before the connection was lost
        content = line.content
        if line.attempt != self._last[0] or self._open[0] != content.stream:
            self._end_line()
        if line.attempt != self._last[0] and (self._last[0] or line.attempt > 1):
            self.query_one(RichLog).write(Text(f"--- attempt {line.attempt} ---", style="dim"))
        self._last = position
        level = f"{content.level} " if content.level else ""
        self._open = (content.stream, f"{self._open[1]}{level}{content.text}")
        if content.partial:
            self.query_one("#open", Static).update(harmless(self._open[1][-SHOWN:]))
        else:
            self._end_line(even_empty=True)

    def _end_line(self, *, even_empty: bool = False) -> None:
        """Moves the line that has no end yet to those that have."""
        if (self._open[1] or even_empty) and not self.leaving():
            self.query_one(RichLog).write(Text(harmless(self._open[1])))
            self.query_one("#open", Static).update("")
        self._open = ("", "")

    def _say(self, text: str) -> None:
        if not self.leaving():
            self.query_one("#state", Static).update(harmless(text))
