"""What keys do to one task: explain, cancel, retry, follow its logs. Asked about first, and answered for in words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable

from textual import work

from taskyard_cli.show import status_word
from taskyard_cli.task_commands import explanation
from taskyard_cli.top.dialogs import Question, Sheet
from taskyard_cli.top.leaving import Leaves
from taskyard_cli.top.log_screen import LogScreen
from taskyard_cli.top.rows import short_id
from taskyard_client import AsyncClient, TaskyardError


class Tells(Leaves):
    """A screen that says what went wrong with what its keys did."""

    def tell(self, error: TaskyardError) -> None:
        """Says what went wrong, a refusal for the role among it."""
        self.notify(error.message, title="not done", severity="error", timeout=10, markup=False)


class ActsOnTask(Tells):
    """A screen on which there is a task that keys act on."""

    client: AsyncClient

    @abstractmethod
    def task_id(self) -> str:
        """Returns the id of the task that keys act on; empty for none."""

    def _chosen(self) -> str:
        """Returns the task's id, and says so if there is none."""
        found = self.task_id()
        if not found:
            self.notify("no task is chosen: go to one with the arrows, in RUNNING or FAILED", severity="warning")
        return found

    def action_logs(self) -> None:
        """Follows the task's logs."""
        if chosen := self._chosen():
            self.app.push_screen(LogScreen(self.client, chosen))

    @work
    async def action_explain(self) -> None:
        """Says why the task is where it is."""
        if chosen := self._chosen():
            try:
                found = await self.client.explain(chosen)
            except TaskyardError as error:
                self.tell(error)
                return
            await self.app.push_screen(Sheet(chosen, explanation(found)))

    @work
    async def action_cancel(self) -> None:
        """Cancels the task, once that is agreed to."""
        if chosen := self._chosen():
            await self._do("cancel", chosen, lambda: self.client.cancel_task(chosen, "by hand, in top"))

    @work
    async def action_retry(self) -> None:
        """Runs the task again, once that is agreed to."""
        if chosen := self._chosen():
            await self._do("retry", chosen, lambda: self.client.retry_task(chosen))

    async def _do(self, verb: str, chosen: str, call: Callable[[], Awaitable[int]]) -> None:
        if not await self.app.push_screen_wait(Question(f"{verb} task {chosen}?")):
            return
        try:
            status = await call()
        except TaskyardError as error:
            self.tell(error)
            return
        self.notify(f"{verb}: task {short_id(chosen)} is {status_word(status)}", markup=False)  # type: ignore[arg-type]
