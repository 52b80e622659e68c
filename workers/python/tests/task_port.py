"""An attempt without a worker: keeps what a built-in handler logs and gives out."""

from __future__ import annotations

from dataclasses import dataclass, field

from worker_fakes import Signal

from taskyard_worker import Context
from taskyard_worker.artifacts import ArtifactPort


@dataclass
class Port:
    """What a Context asks of its attempt."""

    run_timeout_s: float | None = 3600.0
    task_id: str = "task-1"
    number: int = 1
    tenant: str = "default"
    run_id: str = ""
    step_id: str = ""
    worker_id: str = "worker-1"
    stored_checkpoint: str | None = None
    stopping: bool = False
    logged: list[str] = field(default_factory=list)
    given_out: str = ""
    changed: Signal = field(default_factory=Signal)

    @property
    def artifacts(self) -> ArtifactPort:
        raise NotImplementedError

    def wait_stopping(self, timeout: float | None) -> bool:
        return False

    def write_log(self, level: str, text: str) -> None:
        self.logged.append(f"{level} {text}")
        self.changed()

    def write_text(self, text: str) -> None:
        self.given_out += text
        self.changed()

    def report_progress(self, percent: float | None, message: str) -> None:
        raise NotImplementedError

    async def store_checkpoint(self, text: str) -> None:
        raise NotImplementedError

    def store_checkpoint_sync(self, text: str) -> None:
        raise NotImplementedError

    @property
    def ctx(self) -> Context:
        return Context(self)
