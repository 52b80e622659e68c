"""One task: its facts, its attempts, and why it is where it is, kept up to date."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from taskyard_cli.show import harmless
from taskyard_cli.task_commands import task_page
from taskyard_cli.top.acting import ActsOnTask
from taskyard_client import AsyncClient, TaskyardError


class TaskScreen(ActsOnTask):
    """Shows one task.

    Args:
        client: What it asks.
        task_id: Which task.
        interval: Seconds between two readings.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "logs", "logs"),
        Binding("e", "explain", "explain"),
        Binding("c", "cancel", "cancel"),
        Binding("r", "retry", "retry"),
        Binding("escape,q", "dismiss", "back"),
    ]  # fmt: skip

    def __init__(self, client: AsyncClient, task_id: str, interval: float) -> None:
        super().__init__()
        self.client = client
        self._task_id = task_id
        self._interval = interval

    def task_id(self) -> str:
        """Returns its task's id."""
        return self._task_id

    def compose(self) -> ComposeResult:
        """Puts the screen together."""
        yield Static("", markup=False, id="state")
        with VerticalScroll():
            yield Static("", markup=False, id="page")
        yield Footer()

    def on_mount(self) -> None:
        """Begins to read."""
        self.query_one(VerticalScroll).focus()
        self._read()

    @work
    async def _read(self) -> None:
        while True:
            try:
                found = await self.client.get_task(self._task_id)
                why = await self.client.explain(self._task_id)
                self.query_one("#page", Static).update(task_page(found, why.summary))
                self.query_one("#state", Static).update("")
            except TaskyardError as error:
                self.query_one("#state", Static).update(harmless(f"! {error.message}"))
            await asyncio.sleep(self._interval)
