"""Artifacts as the process of an isolated attempt has them: through files, which the worker uploads and downloads."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskyard_client.artifact_transfer import chunks_of
from taskyard_worker.artifacts import Outgoing, scratch_file
from taskyard_worker.errors import (
    ArtifactsUnavailable,
    InvalidInput,
    NonRetryable,
    OutputTooLarge,
    TaskStopped,
    WorkerError,
)

_ERRORS: dict[str, type[WorkerError]] = {
    "STOPPED": TaskStopped,
    InvalidInput.kind: InvalidInput,
    OutputTooLarge.kind: OutputTooLarge,
    NonRetryable.kind: NonRetryable,
}


Ask = Callable[[dict[str, Any], Callable[[dict[str, Any]], object]], None]
"""Has the worker carry an artifact; the second argument is called with its answer, in another thread."""


class PipeArtifacts:
    """Implements `ArtifactPort`.

    Args:
        ask: The way to the worker.
        scratch: Folder for files that both sides see.
    """

    def __init__(self, ask: Ask, scratch: Path) -> None:
        self._tell = ask
        self.scratch = scratch

    async def upload(self, what: Outgoing) -> str:
        """Return the id of the artifact once it is durable."""
        with self._question(what) as question:
            return await self._ask(question)

    def upload_sync(self, what: Outgoing) -> str:
        """Block until the artifact is durable; return its id."""
        with self._question(what) as question:
            return self._ask_sync(question)

    async def download(self, artifact_id: str) -> AsyncGenerator[bytes, None]:
        """Yield an artifact's bytes."""
        with tempfile.NamedTemporaryFile(dir=self.scratch) as file:
            await self._ask({"id": artifact_id, "path": file.name})
            for chunk in chunks_of(Path(file.name)):
                yield chunk

    def download_sync(self, artifact_id: str) -> Iterator[bytes]:
        """Do what `download` does, blocking."""
        with tempfile.NamedTemporaryFile(dir=self.scratch) as file:
            self._ask_sync({"id": artifact_id, "path": file.name})
            yield from chunks_of(Path(file.name))

    @contextmanager
    def _question(self, what: Outgoing) -> Iterator[dict[str, Any]]:
        said = {"name": what.name, "media_type": what.media_type}
        if isinstance(what.source, Path):
            yield {"path": str(what.source), **said}
            return
        with scratch_file(self.scratch) as (path, file):
            file.write(what.source)
            file.close()
            yield {"path": str(path), **said}

    async def _ask(self, question: dict[str, Any]) -> str:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[dict[str, Any]] = loop.create_future()

        def answered(answer: dict[str, Any]) -> None:
            if not waiter.done():
                waiter.set_result(answer)

        self._tell(question, lambda answer: loop.call_soon_threadsafe(answered, answer))
        return _read(await waiter)

    def _ask_sync(self, question: dict[str, Any]) -> str:
        ready = threading.Event()
        answers: list[dict[str, Any]] = []

        def answered(answer: dict[str, Any]) -> None:
            answers.append(answer)
            ready.set()

        self._tell(question, answered)
        ready.wait()
        return _read(answers[0])


def _read(answer: dict[str, Any]) -> str:
    """Return the artifact's id. Raises what the worker met."""
    if "error" in answer:
        raise _ERRORS.get(answer["kind"], ArtifactsUnavailable)(answer["error"])
    id: str = answer["id"]
    return id
