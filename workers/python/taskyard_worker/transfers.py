"""Brings artifacts of attempts to the scheduler and from it, through restarts of either side's connection.

What a handler sees of it is `artifacts`; one try of a call is `artifact_link`'s.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import json
import math
import shutil
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from taskyard.v1.artifacts_pb2 import ArtifactAttempt, ArtifactHead, DownloadArtifactRequest
from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED, TASK_STATUS_SUCCESS
from taskyard_client.artifact_transfer import Received, chunks_of
from taskyard_client.artifact_values import MARK, ValueReference, cut, resolved
from taskyard_worker.artifact_link import ArtifactLink
from taskyard_worker.artifacts import Outgoing, uri_of
from taskyard_worker.backoff import Backoff
from taskyard_worker.context import to_json
from taskyard_worker.errors import ArtifactsUnavailable, InvalidInput, NonRetryable, OutputTooLarge, TaskStopped
from taskyard_worker.link import LinkError
from taskyard_worker.outcome import Outcome
from taskyard_worker.retry import repeatable
from taskyard_worker.verdict import failure_text, is_large

PATIENCE_S = 60.0
"""How long is waited in all, between tries, for a scheduler that does not answer."""
VALUE_BYTES = 256 * 1024 * 1024
"""The most bytes of JSON that are put into an input: it has to fit into memory, several times over."""
JSON_TYPE = "application/json"

T = TypeVar("T")


class Owner(Protocol):
    """The attempt that a transfer is for."""

    @property
    def task_id(self) -> str:
        """Id of the instance."""
        ...

    @property
    def token(self) -> str:
        """The attempt's token."""
        ...

    @property
    def worker_id(self) -> str:
        """Id of the worker."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        ...


class Transfers:
    """Uploads and downloads of this worker's attempts. Used on the event loop.

    Args:
        link: The way to the scheduler.
        scratch: Folder for files on their way; emptied here.
        random: Source of jitter.
    """

    def __init__(self, link: ArtifactLink, scratch: Path, random: Random) -> None:
        self._link = link
        self._random = random
        self.scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)  # of a life that was killed
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def upload(self, owner: Owner, what: Outgoing, patience_s: float | None = None) -> str:
        """Return the id of the artifact once it is durable; tries again while the scheduler does not answer.

        Args:
            owner: The attempt.
            what: The bytes.
            patience_s: How long is waited in all, between tries. None: a minute.

        Raises:
            InvalidInput: The scheduler does not take what is said of it.
            OutputTooLarge: It is larger than an artifact may be.
            ArtifactsUnavailable: It could not be stored.
            TaskStopped: The attempt was told to stop.
        """
        size, sha256 = await asyncio.to_thread(_measured, what.source)
        head = ArtifactHead(
            name=what.name, media_type=what.media_type, size=size, sha256=sha256, request_id=str(uuid4()),
            attempt=_attempt_of(owner),
        )  # fmt: skip

        async def once() -> str:
            return (await self._link.upload(head, _pieces(what.source, owner))).artifact_id

        id: str = await self._patiently(owner, once, patience_s)
        return id

    async def download(self, owner: Owner, artifact_id: str) -> AsyncGenerator[bytes, None]:
        """Yield an artifact's bytes; goes on where it was when the connection breaks.

        Raises:
            InvalidInput: There is none of that id.
            ArtifactsUnavailable: It could not be had, or not as it was stored.
            TaskStopped: The attempt was told to stop.
        """
        download = _Download(self._link, owner, artifact_id)
        held = b""  # the last piece is given out once all are known to be right
        try:
            while (chunk := await self._patiently(owner, download.next)) is not None:
                if held:
                    yield held
                held = chunk
            download.check()
            if held:
                yield held
        finally:
            await download.close()

    async def _patiently(self, owner: Owner, call: Callable[[], Any], patience_s: float | None = None) -> Any:
        left = PATIENCE_S if patience_s is None else patience_s
        backoff = Backoff(self._random)
        while True:
            if owner.stopping:
                raise TaskStopped("the attempt was told to stop")
            try:
                return await call()
            except LinkError as error:
                if owner.stopping:
                    raise TaskStopped("the attempt was told to stop") from error
                wait = max(backoff.next_s(), error.retry_after or 0.0)
                left -= wait
                if not _passes(error) or left < 0:
                    raise _told(error) from error
            await asyncio.sleep(wait)

    # What the worker itself does with artifacts.

    async def output(self, owner: Owner, outcome: Outcome) -> Outcome:
        """Return an outcome whose output, if it is large, is an artifact by now."""
        if outcome.status != TASK_STATUS_SUCCESS or not is_large(outcome.output_json):
            return outcome
        stored = await self.stored_output(owner, await asyncio.to_thread(outcome.output_json.encode))
        return replace(stored, metadata=outcome.metadata)

    async def stored_output(self, owner: Owner, source: bytes | Path) -> Outcome:
        """Return the outcome of a handler whose output, a large one, is JSON in memory or in a file.

        The work is done, so a scheduler that does not answer is waited for as long as the attempt may run.
        """
        try:
            id = await self.upload(owner, Outgoing(source, "output.json", JSON_TYPE), patience_s=math.inf)
        except (NonRetryable, ArtifactsUnavailable) as error:
            text, kind = failure_text(error)
            return Outcome(TASK_STATUS_FAILED, error=f"the output could not be stored: {text}", kind=kind)
        return Outcome(TASK_STATUS_SUCCESS, large_output(id))

    async def input(self, owner: Owner, values: dict[str, Any], flat: frozenset[str]) -> dict[str, Any]:
        """Return an input with each string that stands for a value in an artifact replaced by that.

        Args:
            owner: The attempt.
            values: Its input.
            flat: Names of the flat parameters, which are text.

        Raises:
            InvalidInput: One stands for nothing; the message names the field and the URI.
            ArtifactsUnavailable: One could not be had.
        """
        found: dict[str, Any] = await resolved(values, lambda id: self._load(owner, id), _blame)
        for name in flat:
            if found[name] is not values[name] and not isinstance(found[name], str):
                found[name] = to_json(found[name])
        return found

    async def _load(self, owner: Owner, artifact_id: str) -> Any:
        data = bytearray()
        async with aclosing(self.download(owner, artifact_id)) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > VALUE_BYTES:
                    raise InvalidInput(
                        f"its JSON has more than {VALUE_BYTES} bytes; refer to the artifact itself, without #, and "
                        "read it in pieces"
                    )
        try:
            return await asyncio.to_thread(json.loads, data)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"its bytes are no JSON ({error}); refer to the artifact itself, without #") from error


class Threaded(Owner, Protocol):
    """An attempt whose handler may run in a thread."""

    transfers: set[concurrent.futures.Future[Any]]
    stop_event: threading.Event | None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The worker's event loop."""
        ...


class AttemptArtifacts:
    """Artifacts of an attempt that runs in the worker's process. Implements `ArtifactPort`.

    Args:
        attempt: The attempt.
        transfers: What carries it out.
    """

    __slots__ = ("_attempt", "_transfers", "scratch")

    def __init__(self, attempt: Threaded, transfers: Transfers) -> None:
        self._attempt = attempt
        self._transfers = transfers
        self.scratch = transfers.scratch

    async def upload(self, what: Outgoing) -> str:
        """Return the id of the artifact once it is durable."""
        self._check_loop("put")
        return await self._transfers.upload(self._attempt, what)

    def upload_sync(self, what: Outgoing) -> str:
        """Block the calling thread until the artifact is durable; return its id."""
        return self._blocked(self._transfers.upload(self._attempt, what))

    async def download(self, artifact_id: str) -> AsyncGenerator[bytes, None]:
        """Yield an artifact's bytes."""
        self._check_loop("open")
        async with aclosing(self._transfers.download(self._attempt, artifact_id)) as chunks:
            async for chunk in chunks:
                yield chunk

    def download_sync(self, artifact_id: str) -> Iterator[bytes]:
        """Do what `download` does, blocking the calling thread."""
        chunks = self._transfers.download(self._attempt, artifact_id)

        async def following() -> bytes | None:
            return await anext(chunks, None)

        try:
            while (chunk := self._blocked(following())) is not None:
                yield chunk
        finally:
            self._attempt.loop.call_soon_threadsafe(_close, chunks)

    def _check_loop(self, method: str) -> None:
        if self._attempt.stop_event is not None:
            raise NonRetryable(
                f"ctx.artifacts.{method} is for `async def` handlers; this one calls ctx.artifacts.{method}_sync(...)"
            )

    def _blocked(self, call: Coroutine[Any, Any, T]) -> T:
        attempt = self._attempt
        if attempt.stop_event is None:
            call.close()
            raise NonRetryable(
                "what ends in _sync would block the event loop; an `async def` handler awaits the method without _sync"
            )
        future = asyncio.run_coroutine_threadsafe(call, attempt.loop)
        attempt.transfers = attempt.transfers | {future}
        try:
            if attempt.stopping:
                future.cancel()
            return future.result()
        except concurrent.futures.CancelledError:
            raise TaskStopped("the attempt was told to stop") from None
        finally:
            attempt.transfers = attempt.transfers - {future}


_closing: set[asyncio.Task[None]] = set()


def _close(chunks: AsyncGenerator[bytes, None]) -> None:
    """Close what a thread has stopped reading; on the loop."""

    async def close() -> None:
        await chunks.aclose()

    task = asyncio.get_running_loop().create_task(close(), name="download closed")
    _closing.add(task)
    task.add_done_callback(_closing.discard)


class _Download:
    """One artifact on its way here, over as many calls as it takes."""

    def __init__(self, link: ArtifactLink, owner: Owner, artifact_id: str) -> None:
        self._link = link
        self._owner = owner
        self._id = artifact_id
        self._received = Received()
        self._call: AsyncGenerator[Any, None] | None = None

    async def next(self) -> bytes | None:
        """Return the next bytes, or None when all are here. After a LinkError it goes on where it was."""
        try:
            return await self._next()
        except BaseException:
            await self.close()
            raise

    async def _next(self) -> bytes | None:
        while not self._received.done:
            if self._call is None:
                self._call = self._link.download(
                    DownloadArtifactRequest(
                        artifact_id=self._id, offset=self._received.next_offset, attempt=_attempt_of(self._owner)
                    )
                )
            answer = await anext(self._call, None)
            if answer is None:
                raise LinkError("UNAVAILABLE", "", "the download ended before all was there")
            if data := self._received.take(answer):
                return data
        await self.close()
        return None

    def check(self) -> None:
        """Raise ArtifactsUnavailable when what came is not what was stored."""
        if fault := self._received.fault():
            raise ArtifactsUnavailable(fault)

    async def close(self) -> None:
        """End the call, if one is open."""
        call, self._call = self._call, None
        if call is not None:
            await call.aclose()


def names_artifacts(text: str) -> bool:
    """Tell whether a JSON text may refer to artifacts. Hot path."""
    return MARK in text


def large_output(artifact_id: str) -> str:
    """Return the output that stands for the JSON in an artifact."""
    return to_json(f"{uri_of(artifact_id)}#")


def _attempt_of(owner: Owner) -> ArtifactAttempt:
    return ArtifactAttempt(worker_id=owner.worker_id, task_id=owner.task_id, attempt_token=owner.token)


def _measured(source: bytes | Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks_of(source):
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


async def _pieces(source: bytes | Path, owner: Owner) -> AsyncIterator[bytes]:
    chunks = chunks_of(source)
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        if owner.stopping:
            return  # the scheduler sees that it is not whole
        yield chunk


def _passes(error: LinkError) -> bool:
    """Tell whether the same may succeed later. A call that is broken off is as good as one that was not answered.

    Of a connection that breaks while something is being sent gRPC says INTERNAL; the scheduler's own has a reason.
    """
    if repeatable(error) or error.code in ("CANCELLED", "DEADLINE_EXCEEDED"):
        return True
    return error.code in ("INTERNAL", "UNKNOWN") and not error.reason


def _told(error: LinkError) -> Exception:
    if error.reason == "ARTIFACT_TOO_LARGE":
        return OutputTooLarge(error.message)
    if error.code in ("NOT_FOUND", "INVALID_ARGUMENT"):
        return InvalidInput(error.message)
    return ArtifactsUnavailable(error.message)


def _blame(path: str, reference: ValueReference, error: Exception) -> Exception:
    if isinstance(error, ArtifactsUnavailable | TaskStopped):
        return error
    return InvalidInput(f"{path!r} is {cut(reference.text)!r}, which stands for nothing: {error}")
