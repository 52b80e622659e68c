"""Everything of one scenario that is played: folder, wire, scheduler, worker, and the names that its steps gave."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from e2e.site import Site

from conformance.kit.proxy import Wire
from conformance.kit.scripted import ScriptedScheduler
from conformance.kit.seen import Seen
from conformance.kit.unmet import Changes, Unmet
from conformance.kit.worker_process import WorkerProcess, end_of
from taskyard.v1.workers_pb2 import TaskAssignment
from taskyard_client import AsyncClient, TaskHandle
from taskyard_service.identity import Role

RECORDS = "conformance-records"
PATIENCE_S = 15.0
"""How long a worker may take for what takes milliseconds on an idle machine, its start among it."""

_PLACE = re.compile(r"\$(\w+)\.(\w+)")
_REPEAT = re.compile(r"\$repeat\((.+),(\d+)\)")


class Stage:
    """One scenario while it is played.

    Args:
        name: The scenario's.
        scheduler: `scripted` or `real`.
        command: The worker's command line.
        folder: Of this scenario alone.
        patience_s: How long the worker may take where the scenario does not say.
    """

    def __init__(
        self, name: str, scheduler: str, command: Sequence[str], folder: Path, patience_s: float = PATIENCE_S
    ) -> None:
        self.patience_s = patience_s
        self.name = name
        self.folder = folder
        self.data = folder / "worker-data"
        self.worker_id = f"conformance-{name}"
        self.changed = Changes()
        self.wire = Wire()
        self.worker = WorkerProcess(command, folder / "worker.log", self.changed)
        self.site = Site(folder) if scheduler == "real" else None
        self.token = self.site.token(Role.WORKER) if self.site else secrets.token_hex(16)
        self.scripted = ScriptedScheduler(self.changed, self.token)
        self.attempts: dict[str, Seen] = {}
        self.client: AsyncClient | None = None
        self.handles: dict[str, TaskHandle] = {}
        self.uris: dict[str, str] = {}
        self.ends: list[int] = []
        self.told: list[str] = []  # what a real scheduler says of tasks that ended

    async def open(self) -> None:
        """Makes scheduler and wire ready; the worker starts when a step says so."""
        self.data.mkdir(parents=True)
        await self.wire.start()
        if self.site is None:
            self.wire.target = await self.scripted.start()
        else:
            await self.site.start_scheduler()
            self.wire.target = self.site.port

    async def close(self) -> None:
        """Ends everything that was started."""
        await self.worker.kill()
        await self.wire.close()
        if self.site is None:
            await self.scripted.close()
        else:
            await self.site.close()

    # --- waiting ---------------------------------------------------------------------------------

    async def until(self, check: Callable[[], bool], sentence: str | Callable[[], str], within_s: float = 0) -> None:
        """Returns once `check` holds. Raises Unmet when it does not in time, a rule is broken or the worker is gone."""
        breaches = self.scripted.breaches
        words = sentence if callable(sentence) else lambda: sentence

        def settled() -> bool:
            return bool(breaches) or check() or self.worker.over is not None

        await self.changed.until(settled, within_s or self.patience_s, words)
        self.no_breach()
        if not check():
            self.not_over(words())

    def not_over(self, sentence: str) -> None:
        """Raises Unmet with the sentence when the worker has ended, so that what it says cannot come any more."""
        if self.worker.over is not None:
            raise Unmet(f"{sentence} (the worker has ended {end_of(self.worker.over)})")

    def no_breach(self) -> None:
        """Raises Unmet with the first rule that the worker broke."""
        if self.scripted.breaches:
            raise Unmet(self.scripted.breaches[0])

    # --- names -----------------------------------------------------------------------------------

    def attempt(self, name: str) -> Seen:
        """Returns the attempt that a step gave this name."""
        if name not in self.attempts:
            raise Unmet(f"the scenario has assigned no task `{name}`")
        return self.attempts[name]

    def new_attempt(self, name: str, again: str = "") -> Seen:
        """Names an attempt with a token of its own. `again`: of the same task as that one."""
        of = self.attempts[again].assignment.task_id if again else ""
        task_id = of or f"019b0000-0000-7000-8000-{len(self.attempts) + 1:012d}"
        seen = Seen(name, TaskAssignment(task_id=task_id, attempt_token=f"{name}-{secrets.token_hex(8)}"))
        self.attempts[name] = seen
        return seen

    def fill(self, value: Any) -> Any:
        """Returns a value of the scenario with its placeholders filled in."""
        if isinstance(value, dict):
            return {key: self.fill(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if not isinstance(value, str):
            return value
        if repeat := _REPEAT.fullmatch(value):
            return repeat[1] * int(repeat[2])
        return _PLACE.sub(lambda found: self._place(found[1], found[2]), value)

    def _place(self, name: str, of: str) -> str:
        if of == "uri":
            return self.uris[name]
        assignment = self.attempt(name).assignment
        return {"token": assignment.attempt_token, "id": assignment.task_id}[of]

    # --- what workers leave on disk ---------------------------------------------------------------

    def records(self) -> list[tuple[str, str]]:
        """Returns the whole lines that handlers have appended to the records: key and attempt or process id."""
        path = self.data / RECORDS
        text = path.read_text() if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [(key, rest) for key, _, rest in (line.rpartition(" ") for line in lines)]
