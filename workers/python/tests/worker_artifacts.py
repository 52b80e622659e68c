"""A scheduler's artifacts under the test's control, at the worker's `ArtifactLink`."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from random import Random

from worker_fakes import Signal

from taskyard.v1.artifacts_pb2 import Artifact, ArtifactHead, DownloadArtifactRequest, DownloadArtifactResponse
from taskyard_worker.link import LinkError
from taskyard_worker.transfers import Transfers

PIECE = 1024 * 1024


def artifact_id(number: int) -> str:
    return f"018f3b5e-7c1a-7abc-9def-{number:012x}"


class FakeArtifacts:
    """Keeps what is uploaded. Errors are raised in order: of uploads after their bytes came, of downloads after one
    piece."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.heads: list[ArtifactHead] = []
        self.requests: list[DownloadArtifactRequest] = []
        self.upload_errors: deque[LinkError] = deque()
        self.download_errors: deque[LinkError] = deque()
        self.damaged = False
        self.changed = Signal()

    def put(self, data: bytes) -> str:
        id = artifact_id(len(self.stored) + 1)
        self.stored[id] = data
        return id

    async def upload(self, head: ArtifactHead, chunks: AsyncIterator[bytes]) -> Artifact:
        self.heads.append(head)
        self.changed()
        data = b"".join([chunk async for chunk in chunks])
        if self.upload_errors:
            raise self.upload_errors.popleft()
        assert head.size == len(data)
        assert head.sha256 == hashlib.sha256(data).hexdigest()
        return Artifact(artifact_id=self.put(data))

    async def download(self, request: DownloadArtifactRequest) -> AsyncGenerator[DownloadArtifactResponse, None]:
        self.requests.append(request)
        self.changed()
        if request.artifact_id not in self.stored:
            raise LinkError("NOT_FOUND", "ARTIFACT_NOT_FOUND", f"there is no artifact {request.artifact_id!r}")
        data = self.stored[request.artifact_id]
        sha256 = hashlib.sha256(b"other" if self.damaged else data).hexdigest()
        yield DownloadArtifactResponse(
            artifact=Artifact(artifact_id=request.artifact_id, size=len(data), sha256=sha256)
        )
        for start in range(request.offset, len(data), PIECE):
            yield DownloadArtifactResponse(data=data[start : start + PIECE])
            if self.download_errors:
                raise self.download_errors.popleft()


def transfers(link: FakeArtifacts, folder: Path) -> Transfers:
    return Transfers(link, folder / "scratch", Random(1))
