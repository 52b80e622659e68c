"""Takes in an artifact: bytes to the store, then its row with the next commit. The same for gRPC and HTTP.

Whatever fails before the row is asked for leaves nothing. What fails after that leaves bytes at most: whether the row
will be written is not known then, and bytes that have none in the end are removed after the grace (removal.py).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_core.artifacts import URI_BYTES, artifacts_in_bytes
from taskyard_core.ids import IdSource
from taskyard_core.records import IN_FLIGHT
from taskyard_scheduler.artifacts.port import CHUNK_BYTES, ArtifactStore, Incoming, Key
from taskyard_scheduler.egress.artifacts import artifact_message
from taskyard_scheduler.ingress.artifacts import Head
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_scheduler.store.references import ARTIFACT
from taskyard_service.errors import (
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    InvalidArgument,
    ResourceExhausted,
)

IDLE_S: Final = 60.0
"""How long an upload may bring nothing, in seconds."""
LARGE_CHUNK_BYTES: Final = 64 * 1024
"""From here on a chunk is looked through in a thread."""
NAMES_LIMIT: Final = 100_000
"""From so many artifacts on that one names, no more are kept for it."""
UPLOADS_LIMIT: Final = 256
"""Uploads at once: each has a file open and a chunk in memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one upload may take: bytes, and seconds without any."""

    size: int
    idle_s: float = IDLE_S


class Uploads:
    """The uploads of this process.

    Attributes:
        pending: Those whose bytes are durable and whose row is on its way.

    Args:
        store: Where bytes go.
        ids: Makes the ids of artifacts.
        limits: What one may take.
    """

    def __init__(self, store: ArtifactStore, ids: IdSource, limits: Limits) -> None:
        self._store = store
        self._ids = ids
        self._limits = limits
        self._count = 0
        self.pending: set[Key] = set()

    async def take(
        self, leader: Leader, tenant: str, head: Head, chunks: AsyncIterator[bytes], attempt: pb.ArtifactAttempt | None
    ) -> pb.Artifact:
        """Returns the artifact once it is durable and known.

        Args:
            leader: The present term.
            tenant: Whose it is.
            head: What is said of it.
            chunks: Its bytes.
            attempt: The attempt that it is for; None for a client's.

        Raises:
            ServiceError: As `UploadArtifact` has it.
        """
        check_attempt(leader, tenant, attempt)
        self._check_size(head.size or 0)
        if self._count >= UPLOADS_LIMIT:
            said = f"{UPLOADS_LIMIT} uploads are under way here: try again"
            raise ResourceExhausted("TOO_MANY_UPLOADS", said, retry_after_s=1.0)
        self._count += 1
        try:
            return await self._take(leader, tenant, head, chunks, attempt)
        finally:
            self._count -= 1

    async def _take(
        self, leader: Leader, tenant: str, head: Head, chunks: AsyncIterator[bytes], attempt: pb.ArtifactAttempt | None
    ) -> pb.Artifact:
        incoming = await self._store.receive()
        try:
            size, sha256, named = await self._write(incoming, head, chunks)
            said = _said(head, size, sha256, attempt)
            first = await first_answer(leader, tenant, head.request_id, said, pb.UploadArtifactResponse)
            if first is not None:
                return first.artifact
            check_attempt(leader, tenant, attempt)
            now = leader.clock.now()
            key = Key(tenant, self._ids.next(now))
            self.pending.add(key)
            try:
                await incoming.keep(key)
                return await self._record(leader, key, head.request_id, said, named, now)
            finally:
                self.pending.discard(key)
        finally:
            await asyncio.shield(incoming.discard())

    async def _record(
        self, leader: Leader, key: Key, request_id: str, said: pb.ArtifactHead, named: set[str], now: int
    ) -> pb.Artifact:
        """Has the artifact's row written; returns it once it is committed."""
        tenant, id = key
        attempt = said.attempt if said.HasField("attempt") else None
        check_attempt(leader, tenant, attempt)  # again: the disk may have taken its time
        row = (tenant, id, said.name, said.media_type, said.size, said.sha256, said.attempt.task_id, now)
        answer = pb.UploadArtifactResponse(artifact=artifact_message(row))
        changes = leader.engine.cluster.batch.changes
        changes.artifact_inserts.append(row)
        changes.reference_upserts += [(tenant, each, ARTIFACT, id, 0) for each in sorted(named)]
        return (await kept_answer(leader, tenant, request_id, said, answer)).artifact

    async def _write(self, incoming: Incoming, head: Head, chunks: AsyncIterator[bytes]) -> tuple[int, str, set[str]]:
        """Writes all bytes; returns how many they are, their SHA-256, and the artifacts that they refer to."""
        seen = _Seen(head.media_type)
        size = 0
        while (chunk := await self._next(chunks)) is not None:
            if len(chunk) > CHUNK_BYTES:
                said = f"{len(chunk)} bytes in one message are more than {CHUNK_BYTES}: send smaller pieces"
                raise InvalidArgument([FieldViolation("data", said)])
            size += len(chunk)
            self._check_size(size)
            if len(chunk) < LARGE_CHUNK_BYTES:
                seen.read(chunk)
            else:  # milliseconds, in which nobody else would be served
                await asyncio.to_thread(seen.read, chunk)
            await incoming.write(chunk)
        if head.size not in (None, size):
            said = f"{head.size} bytes were announced and {size} came: send them all, or leave the size out"
            raise InvalidArgument([FieldViolation("head.size", said)], reason="SIZE_MISMATCH")
        sha256 = seen.digest.hexdigest()
        if head.sha256 not in ("", sha256):
            said = f"{head.sha256} was announced, and what came has {sha256}: it changed on its way; send it again"
            raise InvalidArgument([FieldViolation("head.sha256", said)], reason="SHA256_MISMATCH")
        return size, sha256, seen.names

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        with suppress(StopAsyncIteration):
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    return await anext(chunks)
            except TimeoutError:
                said = f"nothing came for {self._limits.idle_s:g} s: upload it again"
                raise DeadlineExceeded("UPLOAD_TOO_SLOW", said) from None
        return None

    def _check_size(self, size: int) -> None:
        limit = self._limits.size
        if size > limit:
            raise ResourceExhausted(
                "ARTIFACT_TOO_LARGE",
                f"it has more than {limit} bytes, which is the most that an artifact may have "
                "(TASKYARD_ARTIFACT_LIMIT_MB of the scheduler): split it",
                metadata={"limit_bytes": str(limit)},
            )


class _Seen:
    """What is found out of bytes on their way in.

    A large output keeps the artifacts that it names, as a small one does, so JSON is looked through for them.

    Args:
        media_type: Only JSON, also by lines, is looked through.

    Attributes:
        digest: SHA-256 of all so far.
        names: The artifacts that were named so far.
    """

    def __init__(self, media_type: str) -> None:
        self.digest = hashlib.sha256()
        self.names: set[str] = set()
        self._looks = "json" in media_type.partition(";")[0]
        self._end = b""

    def read(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        if self._looks and len(self.names) < NAMES_LIMIT:
            data = self._end + chunk
            self.names |= artifacts_in_bytes(data)
            self._end = data[-URI_BYTES:]


def check_attempt(leader: Leader, tenant: str, attempt: pb.ArtifactAttempt | None) -> None:
    """Checks that an attempt runs, and where it is said to.

    Raises:
        FailedPrecondition: It does not.
    """
    if attempt is None:
        return
    instance = leader.engine.cluster.instances.get(attempt.task_id)
    if (
        instance is None
        or instance.phase != IN_FLIGHT
        or (instance.tenant, instance.worker_id, instance.token)
        != (tenant, attempt.worker_id, attempt.attempt_token)
    ):  # fmt: skip
        raise FailedPrecondition(
            "STALE_ATTEMPT",
            f"task {attempt.task_id[:200]!r} has no attempt of this token on worker {attempt.worker_id[:200]!r}: it"
            " has ended, or another has taken its place",
        )


def _said(head: Head, size: int, sha256: str, attempt: pb.ArtifactAttempt | None) -> pb.ArtifactHead:
    """Returns what tells whether a repeat is one: the head as it was meant, and what came."""
    said = pb.ArtifactHead(name=head.name, media_type=head.media_type, size=size, sha256=sha256)
    if attempt is not None:
        said.attempt.CopyFrom(attempt)
    return said
