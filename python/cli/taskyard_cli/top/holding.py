"""What a key does to one queue: hold it back once that is agreed to, with a reason, and let it go on."""

from __future__ import annotations

from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard_cli.show import harmless, pause_word
from taskyard_cli.top.acting import Tells
from taskyard_cli.top.dialogs import Question, ReasonWindow
from taskyard_cli.top.rows import Row
from taskyard_client import AsyncClient, TaskyardError

SCOPE = PauseScope.PAUSE_SCOPE_QUEUE


class HoldsQueues(Tells):
    """A screen on which there are queues."""

    client: AsyncClient

    async def hold(self, row: Row) -> bool:
        """Pauses a queue, or lets one go on that is paused by itself; returns whether that was done."""
        try:
            found = await (self._resume(row.key) if row.paused else self._pause(row.key))
        except TaskyardError as error:
            self.tell(error)
            return False
        if found is not None:
            told = f"{pause_word(found)} {'goes on' if row.paused else 'is paused'}"
            self.notify(harmless(told), markup=False)
        return found is not None

    async def _pause(self, queue: str) -> Pause | None:
        asked = f"pause queue {harmless(queue)}? What runs, runs on; what waits and comes is held back."
        reason = await self.app.push_screen_wait(ReasonWindow(asked))
        return None if reason is None else await self.client.pause_work(SCOPE, queue, reason=reason)

    async def _resume(self, queue: str) -> Pause | None:
        if not await self.app.push_screen_wait(Question(f"let queue {harmless(queue)} go on?")):
            return None
        return await self.client.resume_work(SCOPE, queue)
