"""The scripted scheduler's artifacts: kept in memory, taken in and given out as the contract says."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from conformance.kit.answers import abort
from taskyard.v1.artifacts_pb2 import (
    Artifact,
    ArtifactAttempt,
    DownloadArtifactRequest,
    DownloadArtifactResponse,
    UploadArtifactResponse,
)
from taskyard.v1.artifacts_pb2_grpc import ArtifactServiceServicer

if TYPE_CHECKING:
    from conformance.kit.scripted import ScriptedScheduler

PIECE = 64 * 1024
MAX_PIECE = 1024 * 1024
PREFIX = "artifact://"


def id_of(number: int) -> str:
    """Returns the id of the n-th artifact: a UUIDv7, as ids are."""
    return f"019a0000-0000-7000-8000-{number:012d}"


class ArtifactStore(ArtifactServiceServicer):
    """Artifacts by their id; what only clients call is not there.

    Args:
        scheduler: Whose store it is; told of broken rules.
    """

    def __init__(self, scheduler: ScriptedScheduler) -> None:
        self._scheduler = scheduler
        self.stored: dict[str, bytes] = {}

    def add(self, data: bytes) -> str:
        """Keeps bytes; returns their URI."""
        key = id_of(len(self.stored) + 1)
        self.stored[key] = data
        return PREFIX + key

    def get(self, uri: str) -> bytes | None:
        """Returns the bytes of a URI, with or without a fragment; None: there are none."""
        return self.stored.get(uri.removeprefix(PREFIX).partition("#")[0])

    def describe(self, key: str) -> Artifact:
        """Returns what is known of an artifact."""
        data = self.stored[key]
        return Artifact(uri=PREFIX + key, artifact_id=key, size=len(data), sha256=hashlib.sha256(data).hexdigest())

    async def UploadArtifact(self, request_iterator: Any, context: Any) -> UploadArtifactResponse:
        head, data = None, bytearray()
        async for part in request_iterator:
            if part.HasField("head"):
                head = part.head
            elif len(part.data) > MAX_PIECE:
                self._scheduler.breach(f"a piece of an upload has {len(part.data)} bytes; at most 1 MiB is allowed")
            data += part.data
        if head is None:
            self._scheduler.breach("an upload has no head")
        else:
            self._check(head.attempt, "an upload")
            if head.HasField("size") and head.size != len(data):
                self._scheduler.breach(f"an upload announced {head.size} bytes and had {len(data)}")
            if head.sha256 and head.sha256 != hashlib.sha256(data).hexdigest():
                self._scheduler.breach("an upload announced another SHA-256 than its bytes have")
        uri = self.add(bytes(data))
        self._scheduler.note(f"an artifact of {len(data)} bytes was uploaded")
        return UploadArtifactResponse(artifact=self.describe(uri.removeprefix(PREFIX)))

    async def DownloadArtifact(
        self, request: DownloadArtifactRequest, context: Any
    ) -> AsyncIterator[DownloadArtifactResponse]:
        self._check(request.attempt, "a download")
        if request.artifact_id not in self.stored:
            await abort(context, "NOT_FOUND", "ARTIFACT_NOT_FOUND")
        data = self.stored[request.artifact_id]
        end = request.offset + request.length if request.length else len(data)
        yield DownloadArtifactResponse(artifact=self.describe(request.artifact_id))
        for start in range(request.offset, min(end, len(data)), PIECE):
            yield DownloadArtifactResponse(data=data[start : min(start + PIECE, end)])

    async def GetArtifact(self, request: Any, context: Any) -> Any:
        await abort(context, "UNIMPLEMENTED", "NOT_FOR_WORKERS")

    async def ListArtifacts(self, request: Any, context: Any) -> Any:
        await abort(context, "UNIMPLEMENTED", "NOT_FOR_WORKERS")

    async def DeleteArtifact(self, request: Any, context: Any) -> Any:
        await abort(context, "UNIMPLEMENTED", "NOT_FOR_WORKERS")

    def _check(self, attempt: ArtifactAttempt, what: str) -> None:
        seen = self._scheduler.attempts.get(attempt.attempt_token)
        if seen is None or not attempt.worker_id or attempt.task_id != seen.assignment.task_id:
            self._scheduler.breach(f"{what} does not name the attempt that it is for")
