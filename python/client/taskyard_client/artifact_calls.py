"""The calls about artifacts, and outputs that are artifacts."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_client import methods
from taskyard_client.artifact_transfer import CHUNK_BYTES, Received, chunks_of, guessed_type
from taskyard_client.artifact_values import BadReference, ValueReference, read_name, resolved
from taskyard_client.errors import InvalidInput, NotFound, ServerError, TaskyardError, Violation
from taskyard_client.session import Session, page_size_for, pages

Data = bytes | str | os.PathLike[str] | AsyncIterable[bytes] | Iterable[bytes]
"""What can be uploaded: bytes, a text (as UTF-8), the path of a file, or pieces of bytes as they come."""
Progress = Callable[[int], None]
"""Called with how many bytes have gone, or come, so far."""


class ArtifactCalls:
    """Calls of ArtifactService. An artifact is named by its URI (`artifact://<id>`) or its id.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def upload(
        self, data: Data, name: str = "", media_type: str = "", *, progress: Progress | None = None
    ) -> pb.Artifact:
        """Uploads an artifact; returns it once it is durable.

        What breaks on its way is sent again from the beginning, unless it came in pieces: those are gone.

        Args:
            data: Bytes, a text, the path of a file, or pieces of bytes.
            name: For people. Empty: the file's.
            media_type: What it is. Empty: as the name says, `text/plain` for a text, else `application/octet-stream`.
            progress: Told how far it is.

        Raises:
            InvalidInput: The name or the media type breaks a rule, there is no such file, or it has more bytes than an
                artifact may have.
            Overloaded: There is no room for it.
        """
        if isinstance(data, str):
            data, media_type = data.encode(), media_type or "text/plain; charset=utf-8"
        elif isinstance(data, os.PathLike):
            data = Path(data)
            name = name or data.name
        head = pb.ArtifactHead(
            name=name, media_type=media_type or guessed_type(name), request_id=self._session.request_ids.one()
        )
        if isinstance(data, bytes | Path):
            head.size = await asyncio.to_thread(_size_of, data)
            source = data
            return await self._upload(head, lambda: _read(source), progress, again=True)
        pieces = _pieces(data)
        return await self._upload(head, lambda: pieces, progress, again=False)

    async def _upload(
        self,
        head: pb.ArtifactHead,
        chunks: Callable[[], AsyncIterator[bytes]],
        progress: Progress | None,
        *,
        again: bool,
    ) -> pb.Artifact:
        async def messages() -> AsyncIterator[pb.UploadArtifactRequest]:
            yield pb.UploadArtifactRequest(head=head)
            sent = 0
            async for chunk in chunks():
                for start in range(0, len(chunk), CHUNK_BYTES):
                    yield pb.UploadArtifactRequest(data=chunk[start : start + CHUNK_BYTES])
                sent += len(chunk)
                if progress is not None:
                    progress(sent)

        answer = await self._session.caller.upload(methods.UPLOAD_ARTIFACT, messages, again=again)
        return answer.artifact

    def open(
        self, artifact: str, *, offset: int = 0, length: int = 0, progress: Progress | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yields an artifact's bytes in pieces of at most 1 MiB, going on where the connection broke.

        The last piece comes once all are known to be what was stored.

        Args:
            artifact: Its URI or id.
            offset: The first byte wanted.
            length: How many are wanted at most. 0: all.
            progress: Told how far it is.

        Raises:
            NotFound: There is none.
            Gone: It has no byte at the offset.
            ServerError: It is damaged.
        """
        return self._open(_id_of(artifact), Received(offset, length), progress)

    async def _open(self, id: str, received: Received, progress: Progress | None) -> AsyncGenerator[bytes, None]:
        def request() -> pb.DownloadArtifactRequest:
            return pb.DownloadArtifactRequest(artifact_id=id, offset=received.next_offset, length=received.left)

        held = b""
        answers = self._session.caller.stream(methods.DOWNLOAD_ARTIFACT, request, lambda: received.done)
        async with aclosing(answers):
            async for answer in answers:
                data = received.take(answer)
                if progress is not None and data:
                    progress(received.received)
                if data and held:
                    yield held
                held = data or held
                if received.done:
                    break
        if fault := received.fault():
            raise ServerError(fault, reason="SHA256_MISMATCH")
        if held:
            yield held

    async def read(self, artifact: str) -> bytes:
        """Returns all bytes of an artifact. For what fits into memory; raises as `open`."""
        return b"".join([chunk async for chunk in self.open(artifact)])

    async def download(
        self, artifact: str, path: str | os.PathLike[str], *, progress: Progress | None = None
    ) -> pb.Artifact:
        """Writes an artifact to a file, which is there once it is whole; returns what is known of it.

        Raises: as `open`; OSError: the file cannot be written.
        """
        received = Received()
        target = Path(path)
        descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                async for chunk in self._open(_id_of(artifact), received, progress):
                    await asyncio.to_thread(file.write, chunk)
            _take_place(part, target)
        finally:
            await asyncio.to_thread(Path(part).unlink, missing_ok=True)
        return received.artifact or pb.Artifact()

    async def get(self, artifact: str) -> pb.Artifact:
        """Reads what is known of an artifact.

        Raises:
            NotFound: There is none.
        """
        request = pb.GetArtifactRequest(artifact_id=_id_of(artifact))
        return (await self._session.caller.call(methods.GET_ARTIFACT, request)).artifact

    def list(
        self, *, filter: str = "", order_by: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.Artifact, None]:
        """Yields artifacts, newest first.

        Args:
            filter: Which ones, for example `media_type == "text/csv"`. Empty: all.
            order_by: `create_time desc` or `create_time`. Empty: the first of these.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = pb.ListArtifactsRequest(page_size=page_size_for(page_size, limit), filter=filter, order_by=order_by)
        return pages(self._session, methods.LIST_ARTIFACTS, request, lambda page: page.artifacts, limit)

    async def delete(self, artifact: str) -> None:
        """Removes an artifact that nothing refers to.

        Raises:
            NotFound: There is none.
            WrongState: Something refers to it.
        """
        request = pb.DeleteArtifactRequest(request_id=self._session.request_ids.one(), artifact_id=_id_of(artifact))
        await self._session.caller.call(methods.DELETE_ARTIFACT, request)

    async def resolve(self, value: Any) -> Any:
        """Returns a value with each string in it that stands for a value in an artifact replaced by that.

        `result` does it with outputs; what `wait` and lists return is as it was stored.

        Raises:
            NotFound: There is no such artifact, or nothing where the pointer goes.
        """
        return await resolved(value, self._load, _blame)

    async def _load(self, artifact_id: str) -> Any:
        return await asyncio.to_thread(json.loads, await self.read(artifact_id))


def _id_of(artifact: str) -> str:
    try:
        return read_name(artifact)
    except BadReference as error:
        raise InvalidInput(str(error), [Violation("artifact", str(error))]) from None


def _size_of(source: bytes | Path) -> int:
    if isinstance(source, bytes):
        return len(source)
    try:
        with source.open("rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        say = f"{str(source)!r} cannot be read: {error.strerror or error}"
        raise InvalidInput(say, [Violation("data", say)]) from None


async def _pieces(data: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(data, AsyncIterable):
        async for piece in data:
            yield piece
        return
    pieces = iter(data)
    while (next_piece := await asyncio.to_thread(_next, pieces)) is not None:
        yield next_piece


def _next(pieces: Iterator[bytes]) -> bytes | None:
    return next(pieces, None)


async def _read(source: bytes | Path) -> AsyncIterator[bytes]:
    chunks = chunks_of(source)
    while (chunk := await asyncio.to_thread(_next, chunks)) is not None:
        yield chunk


def _take_place(part: str, target: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(part, 0o666 & ~umask)  # as any file that is made: a temporary one is its owner's alone
    Path(part).replace(target)


def _blame(path: str, reference: ValueReference, error: Exception) -> Exception:
    if isinstance(error, TaskyardError):
        return error
    where = f"{path}: " if path else ""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):  # a parser's words help nobody
        error = ValueError("the artifact's bytes are no JSON; refer to the artifact itself, without #")
    return NotFound(f"{where}{reference.text!r} stands for nothing: {error}", reason="VALUE_NOT_FOUND")
