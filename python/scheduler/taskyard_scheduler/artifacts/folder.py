"""The artifact store in a folder: of this machine, or one that several have mounted. Every call is made in a thread.

Bytes are written to `.incoming`, synced, and moved to their place; so a file in its place is whole.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.artifacts.paths import INCOMING, WHILE_DIGITS, in_its_folder, place, tenant_of
from taskyard_scheduler.artifacts.port import (
    CHUNK_BYTES,
    ArtifactStoreUnavailable,
    BytesMissing,
    Incoming,
    Key,
)
from taskyard_scheduler.artifacts.threads import DiskThreads, ThreadedStore


class FolderStore(ThreadedStore):
    """An ArtifactStore in a folder.

    Args:
        folder: Made when it is missing.
        log: Told of what was left and removed.
    """

    def __init__(self, folder: Path, log: FilteringBoundLogger) -> None:
        super().__init__("the artifact folder", log)
        self._folder = folder

    def _prepare(self) -> int:
        incoming = self._folder / INCOMING
        incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        left = list(incoming.iterdir())
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    async def receive(self) -> Incoming:
        """See ArtifactStore."""
        path = self._folder / INCOMING / secrets.token_hex(16)
        file: BinaryIO = await self._threads.run(lambda: path.open("xb", buffering=0))
        return _IncomingFile(self._threads, self._folder, path, file)

    async def read(self, key: Key, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """See ArtifactStore."""
        file = await self._threads.run(partial(self._open, key, offset))
        try:
            while length:
                data = await self._threads.run(partial(file.read, min(length, CHUNK_BYTES)))
                if not data:
                    raise BytesMissing(f"artifact {key.id} has {length} bytes less than it should")
                length -= len(data)
                yield data
        finally:
            file.close()

    async def delete(self, key: Key) -> None:
        """See ArtifactStore."""
        await self._threads.run(partial(_delete, self._folder.joinpath(*place(key))))

    async def scan(self, after: Key | None, limit: int) -> list[Key]:
        """See ArtifactStore."""
        return await self._threads.run(partial(_scan, self._folder, after, limit))

    def _open(self, key: Key, offset: int) -> BinaryIO:
        try:
            file = self._folder.joinpath(*place(key)).open("rb")
        except FileNotFoundError:
            raise BytesMissing(f"artifact {key.id} has no bytes") from None
        file.seek(offset)
        return file


class _IncomingFile(Incoming):
    def __init__(self, threads: DiskThreads, folder: Path, path: Path, file: BinaryIO) -> None:
        self._threads = threads
        self._folder = folder
        self._path = path
        self._file = file
        self._kept = False

    async def write(self, data: bytes) -> None:
        await self._threads.run(partial(_write_all, self._file, data))

    async def keep(self, key: Key) -> None:
        await self._threads.run(partial(self._keep, self._folder.joinpath(*place(key))))
        self._kept = True

    def _keep(self, target: Path) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
        while_folder = target.parent
        made = [folder for folder in (while_folder, while_folder.parent) if not folder.exists()]
        for _ in range(3):  # a folder that is empty may be removed by a deletion at any moment
            while_folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                self._path.rename(target)
                break
        else:
            self._path.rename(target)
        for folder in (while_folder, *(folder.parent for folder in made)):
            _sync_folder(folder)

    async def discard(self) -> None:
        if self._kept:
            return
        with suppress(ArtifactStoreUnavailable):  # else it is removed at the next start
            await self._threads.run(self._remove)

    def _remove(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def _write_all(file: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):  # it is not empty
        path.parent.rmdir()


def _scan(folder: Path, after: Key | None, limit: int) -> list[Key]:
    found: list[Key] = []
    for key in _keys(folder, after):
        found.append(key)
        if len(found) == limit:
            break
    return found


def _keys(folder: Path, after: Key | None) -> Iterator[Key]:
    """Yields keys in the order of tenants' names, not of their folders'."""
    tenants = sorted((tenant_of(name), name) for name in _names(folder) if not name.startswith("."))
    for tenant, name in tenants:
        if after is not None and tenant < after.tenant:
            continue
        begin = after.id if after is not None and tenant == after.tenant else ""
        for while_name in sorted(_names(folder / name)):
            if while_name < begin[:WHILE_DIGITS]:
                continue
            ids = sorted(_names(folder / name / while_name))
            yield from (Key(tenant, id) for id in ids if id > begin and in_its_folder(id, while_name))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):  # it was removed meanwhile, or is a file that is not ours
        return []
