"""The artifact store at any address that fsspec knows: object stores, file servers. Every call is made in a thread.

What such a place has of durability and of moving a file is its own: bytes are visible under their key once they are
whole there.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import fsspec
from structlog.typing import FilteringBoundLogger

from taskyard_scheduler.artifacts.paths import INCOMING, WHILE_DIGITS, in_its_folder, place, tenant_of
from taskyard_scheduler.artifacts.port import (
    CHUNK_BYTES,
    ArtifactStoreUnavailable,
    BytesMissing,
    Incoming,
    Key,
)
from taskyard_scheduler.artifacts.threads import ThreadedStore


class RemoteStore(ThreadedStore):
    """An ArtifactStore at a URL.

    Args:
        url: As fsspec reads it, such as `s3://bucket/folder`.
        log: Told of what was left and removed.

    Raises:
        ArtifactStoreUnavailable: fsspec has no driver for it.
    """

    def __init__(self, url: str, log: FilteringBoundLogger) -> None:
        super().__init__("the artifact store", log)
        try:
            filesystem, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ArtifactStoreUnavailable(f"no driver reads this address: {error}") from error
        self._fs: Any = filesystem
        self._root = str(root).rstrip("/")

    async def receive(self) -> Incoming:
        """See ArtifactStore."""
        path = f"{self._root}/{INCOMING}/{secrets.token_hex(16)}"
        file = await self._run(partial(self._fs.open, path, "wb"))
        return _IncomingObject(self, path, file)

    async def read(self, key: Key, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """See ArtifactStore."""
        file = await self._run(partial(self._open, key, offset))
        try:
            while length:
                data = await self._run(partial(file.read, min(length, CHUNK_BYTES)))
                if not data:
                    raise BytesMissing(f"artifact {key.id} has {length} bytes less than it should")
                length -= len(data)
                yield data
        finally:
            file.close()

    async def delete(self, key: Key) -> None:
        """See ArtifactStore."""
        await self._run(partial(self._remove, self._path(key)))

    async def scan(self, after: Key | None, limit: int) -> list[Key]:
        """See ArtifactStore."""
        found: list[Key] = await self._run(partial(self._scan, after, limit))
        return found

    async def _run(self, work: Any) -> Any:
        """Runs a call; whatever a driver raises, and is no word of ours, means that it cannot be done now."""
        try:
            return await self._threads.run(work)
        except (ArtifactStoreUnavailable, BytesMissing):
            raise
        except Exception as error:  # each driver has its own exceptions
            raise ArtifactStoreUnavailable(f"the artifact store fails: {type(error).__name__}: {error}") from error

    def _path(self, key: Key) -> str:
        return "/".join((self._root, *place(key)))

    def _prepare(self) -> int:
        incoming = f"{self._root}/{INCOMING}"
        self._fs.makedirs(incoming, exist_ok=True)
        left = self._names(incoming)
        for name in left:
            self._remove(f"{incoming}/{name}")
        return len(left)

    def _open(self, key: Key, offset: int) -> Any:
        try:
            file = self._fs.open(self._path(key), "rb", block_size=CHUNK_BYTES)
        except FileNotFoundError:
            raise BytesMissing(f"artifact {key.id} has no bytes") from None
        file.seek(offset)
        return file

    def _move(self, path: str, key: Key) -> None:
        target = self._path(key)
        self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._fs.mv(path, target)

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def _scan(self, after: Key | None, limit: int) -> list[Key]:
        found: list[Key] = []
        for key in self._keys(after):
            found.append(key)
            if len(found) == limit:
                break
        return found

    def _keys(self, after: Key | None) -> Iterator[Key]:
        tenants = sorted((tenant_of(name), name) for name in self._names(self._root) if not name.startswith("."))
        for tenant, name in tenants:
            if after is not None and tenant < after.tenant:
                continue
            begin = after.id if after is not None and tenant == after.tenant else ""
            for while_name in sorted(self._names(f"{self._root}/{name}")):
                if while_name >= begin[:WHILE_DIGITS]:
                    ids = sorted(self._names(f"{self._root}/{name}/{while_name}"))
                    yield from (Key(tenant, id) for id in ids if id > begin and in_its_folder(id, while_name))

    def _names(self, folder: str) -> list[str]:
        try:
            found = self._fs.ls(folder, detail=False, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in found]


class _IncomingObject(Incoming):
    def __init__(self, store: RemoteStore, path: str, file: Any) -> None:
        self._store = store
        self._path = path
        self._file = file
        self._kept = False

    async def write(self, data: bytes) -> None:
        await self._store._run(partial(self._file.write, data))

    async def keep(self, key: Key) -> None:
        await self._store._run(partial(self._keep, key))
        self._kept = True

    def _keep(self, key: Key) -> None:
        self._file.close()
        self._store._move(self._path, key)

    async def discard(self) -> None:
        if self._kept:
            return
        with suppress(ArtifactStoreUnavailable):  # else it is removed at the next start
            await self._store._run(self._throw_away)

    def _throw_away(self) -> None:
        # An unfinished object is given up, not finished, where the driver can.
        discard = getattr(self._file, "discard", None)
        if discard is not None and not self._file.closed:
            discard()
        with suppress(Exception):
            self._file.close()
        self._store._remove(self._path)
