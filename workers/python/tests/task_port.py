"""An attempt without a worker: keeps what a built-in handler logs, gives out and stores."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from worker_artifacts import artifact_id
from worker_fakes import Signal

from taskyard_client.artifact_transfer import chunks_of
from taskyard_worker import Context, Deferral
from taskyard_worker.artifacts import Outgoing, uri_of
from taskyard_worker.errors import InvalidInput

PIECE = 1000
"""So small that lines are cut by it."""


class Kept:
    """Artifacts in memory. Implements `ArtifactPort`."""

    scratch = Path(tempfile.gettempdir())

    def __init__(self) -> None:
        self.bytes: dict[str, bytes] = {}
        self.named: list[Outgoing] = []

    def put(self, data: bytes) -> str:
        """Keeps an artifact; returns its URI."""
        id = artifact_id(len(self.bytes) + 1)
        self.bytes[uri_of(id)] = data
        return uri_of(id)

    async def upload(self, what: Outgoing) -> str:
        return self.upload_sync(what)

    def upload_sync(self, what: Outgoing) -> str:
        self.named.append(what)
        return self.put(b"".join(chunks_of(what.source))).removeprefix("artifact://")

    async def download(self, artifact_id: str) -> AsyncGenerator[bytes, None]:
        for piece in self.download_sync(artifact_id):
            yield piece

    def download_sync(self, artifact_id: str) -> Iterator[bytes]:
        if uri_of(artifact_id) not in self.bytes:
            raise InvalidInput(f"there is no artifact {artifact_id!r}")
        data = self.bytes[uri_of(artifact_id)]
        yield from (data[start : start + PIECE] for start in range(0, len(data), PIECE))


@dataclass
class Port:
    """What a Context asks of its attempt."""

    run_timeout_s: float | None = 3600.0
    task_id: str = "task-1"
    token: str = "token-1"
    number: int = 1
    tenant: str = "default"
    run_id: str = ""
    step_id: str = ""
    worker_id: str = "worker-1"
    stored_checkpoint: str | None = None
    stopping: bool = False
    deferral: Deferral | None = None
    logged: list[str] = field(default_factory=list)
    given_out: str = ""
    told: str = ""
    changed: Signal = field(default_factory=Signal)
    artifacts: Kept = field(default_factory=Kept)

    def wait_stopping(self, timeout: float | None) -> bool:
        return False

    def write_log(self, level: str, text: str) -> None:
        self.logged.append(f"{level} {text}")
        self.changed()

    def write_text(self, text: str) -> None:
        self.given_out += text
        self.changed()

    def report_progress(self, percent: float | None, message: str) -> None:
        self.told = message

    async def store_checkpoint(self, text: str) -> None:
        raise NotImplementedError

    def store_checkpoint_sync(self, text: str) -> None:
        raise NotImplementedError

    @property
    def ctx(self) -> Context:
        return Context(self)
