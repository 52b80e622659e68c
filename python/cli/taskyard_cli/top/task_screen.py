"""One task: its facts, its attempts, and why it is where it is, kept up to date."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.console import Group
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
            page, trouble = await self._asked()
            if self.leaving():
                return
            if page is not None:
                self.query_one("#page", Static).update(page)
            self.query_one("#state", Static).update(trouble)
            await asyncio.sleep(self._interval)

    async def _asked(self) -> tuple[Group | None, str]:
        """Returns the task's page, or none and what went wrong."""
        try:
            found = await self.client.get_task(self._task_id)
            return task_page(found, (await self.client.explain(self._task_id)).summary), ""
        except TaskyardError as error:
            return None, harmless(f"! {error.message}")
