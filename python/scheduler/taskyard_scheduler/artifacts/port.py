"""The port of the artifact store: what the scheduler asks of whatever keeps the bytes of artifacts.

Knows nothing of rows, tenants' rights or references: a key and its bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

CHUNK_BYTES = 1024 * 1024
"""The most bytes that are in hand at once, of one artifact."""


class Key(NamedTuple):
    """Names an artifact: ids are UUIDv7, so keys of a tenant are in the order of creation."""

    tenant: str
    id: str


class ArtifactStoreError(Exception):
    """Root of what an artifact store raises on purpose."""


class ArtifactStoreUnavailable(ArtifactStoreError):
    """The store cannot do this now; try again later.

    Attributes:
        full: There is no room left.
    """

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class BytesMissing(ArtifactStoreError):
    """The store has no bytes under this key."""


class Incoming(Protocol):
    """Bytes on their way in: nobody sees them until `keep` has returned. Used by one task at a time."""

    async def write(self, data: bytes) -> None:
        """Takes the next bytes; returns when there may be more.

        Raises:
            ArtifactStoreUnavailable: They could not be written.
        """
        ...

    async def keep(self, key: Key) -> None:
        """Makes the bytes durable, then visible under a key that has none. Neither write nor keep may follow.

        Raises:
            ArtifactStoreUnavailable: They are not visible.
        """
        ...

    async def discard(self) -> None:
        """Removes what was written; does nothing after `keep`. May be repeated.

        Raises nothing: what cannot be removed now is removed at the next start.
        """
        ...


class ArtifactStore(Protocol):
    """Keeps the bytes of artifacts.

    Between `start` and `stop` everything may be called at the same time; one slow caller delays no other. Memory is
    bounded by `CHUNK_BYTES` for each call under way.
    """

    async def start(self) -> None:
        """Makes the store ready and removes what lost uploads have left. Only the leading scheduler's is started.

        Raises:
            ArtifactStoreUnavailable: Its files cannot be used.
        """
        ...

    async def stop(self) -> None:
        """Lets go of what it has open. May be called twice."""
        ...

    async def receive(self) -> Incoming:
        """Begins to take in bytes.

        Raises:
            ArtifactStoreUnavailable: It cannot.
        """
        ...

    def read(self, key: Key, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """Yields `length` bytes from `offset` on, in pieces of at most `CHUNK_BYTES`.

        Raises:
            BytesMissing: There are none, or fewer.
            ArtifactStoreUnavailable: They cannot be read now.
        """
        ...

    async def delete(self, key: Key) -> None:
        """Removes the bytes; none is fine.

        Raises:
            ArtifactStoreUnavailable: They may still be there.
        """
        ...

    async def scan(self, after: Key | None, limit: int) -> list[Key]:
        """Returns at most `limit` keys that have bytes, in order, beyond `after`.

        Raises:
            ArtifactStoreUnavailable: It cannot be told now.
        """
        ...
