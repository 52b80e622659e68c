"""What a handler does with artifacts: `ctx.artifacts`. It looks through an `ArtifactPort`, as the Context does.

Loads quickly, since the processes of isolated handlers use it.
"""

from __future__ import annotations

import mimetypes
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Iterable, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from taskyard_worker.awaiting import needs_await
from taskyard_worker.errors import InvalidInput, NonRetryable

"""The size of the pieces that artifacts travel in."""

Data = bytes | str | Path
"""What `put` takes beside what comes in pieces: bytes, a text (as UTF-8), or the path of a file."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Bytes to be uploaded, which can be read again: in memory, or a file."""

    source: bytes | Path
    name: str
    media_type: str


class ArtifactPort(Protocol):
    """What `Artifacts` asks of the attempt behind it. Artifacts are named by id."""

    scratch: Path
    """Folder for files that nobody needs once the attempt has ended."""

    async def upload(self, what: Outgoing) -> str:
        """Return the id of the artifact once it is durable."""
        ...

    def upload_sync(self, what: Outgoing) -> str:
        """Block the calling thread until the artifact is durable; return its id."""
        ...

    def download(self, artifact_id: str) -> AsyncGenerator[bytes, None]:
        """Yield an artifact's bytes, checked against its SHA-256 at the end."""
        ...

    def download_sync(self, artifact_id: str) -> Iterator[bytes]:
        """Do what `download` does, blocking the calling thread."""
        ...


class Artifacts:
    """Artifacts, as a handler sees them: bytes that are kept apart from inputs and outputs, and named by a URI.

    The `async` methods are for handlers written with `async def`; those that end in `_sync` do the same for handlers
    in threads and in isolated processes. What was taken away or never was raises InvalidInput; what cannot be had now
    is tried again for a minute, and raises ArtifactsUnavailable then, which the task's retry policy answers.
    """

    __slots__ = ("_port",)

    def __init__(self, port: ArtifactPort) -> None:
        self._port = port

    def put(self, data: Data | AsyncIterable[bytes], name: str = "", media_type: str = "") -> Coroutine[Any, Any, str]:
        """Upload an artifact; return its URI, `artifact://<id>`, once it is durable.

        Args:
            data: Bytes, a text, the path of a file, or pieces of bytes as they come.
            name: For people. Empty: the file's.
            media_type: What it is. Empty: as the name says, `text/plain` for a text, else `application/octet-stream`.

        Raises:
            InvalidInput: The name or the media type breaks a rule.
            OutputTooLarge: It has more bytes than an artifact may have.
            ArtifactsUnavailable: It could not be stored.
            NonRetryable: The handler is no `async def`: it calls `put_sync`.
        """
        needs_await("artifacts.put")
        return self._put(data, name, media_type)

    def put_sync(self, data: Data | Iterable[bytes], name: str = "", media_type: str = "") -> str:
        """Do what `put` does, from a thread."""
        if isinstance(data, bytes | bytearray | memoryview | str | os.PathLike):
            return uri_of(self._port.upload_sync(outgoing(data, name, media_type)))
        with scratch_file(self._port.scratch) as (path, file):
            for piece in data:
                file.write(piece)
            file.close()
            return uri_of(self._port.upload_sync(outgoing(path, name, media_type, named=False)))

    def get(self, uri: str) -> Coroutine[Any, Any, bytes]:
        """Return all bytes of an artifact. For what fits into memory; else `open` or `download`.

        Raises:
            InvalidInput: It is no artifact's URI, has a fragment, or there is none.
            ArtifactsUnavailable: It could not be had.
            NonRetryable: The handler is no `async def`: it calls `get_sync`.
        """
        needs_await("artifacts.get")
        return self._get(uri)

    def get_sync(self, uri: str) -> bytes:
        """Do what `get` does, from a thread."""
        return b"".join(self.open_sync(uri))

    def open(self, uri: str) -> AsyncGenerator[bytes, None]:
        """Yield an artifact's bytes in pieces of at most 1 MiB; the last comes once all are known to be right.

        Raises: as `get`.
        """
        return self._port.download(id_of(uri))

    def open_sync(self, uri: str) -> Iterator[bytes]:
        """Do what `open` does, from a thread."""
        return self._port.download_sync(id_of(uri))

    def download(self, uri: str, path: str | os.PathLike[str]) -> Coroutine[Any, Any, None]:
        """Write an artifact to a file, which is there once it is whole.

        Raises: as `get`; OSError: the file cannot be written.
        """
        needs_await("artifacts.download")
        return self._download(uri, path)

    def download_sync(self, uri: str, path: str | os.PathLike[str]) -> None:
        """Do what `download` does, from a thread."""
        chunks = self.open_sync(uri)
        with replacing(Path(path)) as file:
            for chunk in chunks:
                file.write(chunk)

    async def _put(self, data: Data | AsyncIterable[bytes], name: str, media_type: str) -> str:
        if isinstance(data, bytes | bytearray | memoryview | str | os.PathLike):
            return uri_of(await self._port.upload(outgoing(data, name, media_type)))
        with scratch_file(self._port.scratch) as (path, file):
            async for piece in data:
                file.write(piece)
            file.close()
            return uri_of(await self._port.upload(outgoing(path, name, media_type, named=False)))

    async def _get(self, uri: str) -> bytes:
        return b"".join([chunk async for chunk in self.open(uri)])

    async def _download(self, uri: str, path: str | os.PathLike[str]) -> None:
        with replacing(Path(path)) as file:
            async with aclosing(self.open(uri)) as chunks:
                async for chunk in chunks:
                    file.write(chunk)


def outgoing(data: Any, name: str, media_type: str, *, named: bool = True) -> Outgoing:
    """Return what is to be uploaded. `named`: a file's name is what it is called when nothing else is said."""
    if isinstance(data, str):
        return Outgoing(data.encode(), name, media_type or "text/plain; charset=utf-8")
    if isinstance(data, bytes | bytearray | memoryview):
        return Outgoing(bytes(data), name, media_type or _guessed(name))
    path = Path(data).absolute()
    if not path.is_file():
        raise NonRetryable(f"there is no file {str(path)!r} to upload")
    name = name or (path.name if named else "")
    return Outgoing(path, name, media_type or _guessed(name))


def _guessed(name: str) -> str:
    guess, encoding = mimetypes.guess_type(name)
    return guess if guess and not encoding else ""


def id_of(uri: str) -> str:
    """Return the id in an artifact's URI. Raises InvalidInput."""
    # Here, since it loads the whole client, which few processes of isolated handlers need.
    from taskyard_client.artifact_values import BadReference, read_uri

    try:
        return read_uri(str(uri))
    except BadReference as error:
        raise InvalidInput(str(error)) from error


def uri_of(artifact_id: str) -> str:
    """Return the URI of an artifact's bytes."""
    return f"artifact://{artifact_id}"


@contextmanager
def scratch_file(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Make a file that is removed at the end."""
    descriptor, name = tempfile.mkstemp(dir=folder)
    path = Path(name)
    try:
        with closing(os.fdopen(descriptor, "wb")) as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes its place when it is whole."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    part = Path(name)
    try:
        with closing(os.fdopen(descriptor, "wb")) as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
