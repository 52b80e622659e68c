"""Artifacts over gRPC: uploads and downloads, each tried once. On a channel of its own: bytes delay no heartbeat.

Not the repeating of what failed: that is `transfers`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

import grpc
import grpc.aio
from grpc.aio import AioRpcError

from taskyard.v1.artifacts_pb2 import (
    Artifact,
    ArtifactHead,
    DownloadArtifactRequest,
    DownloadArtifactResponse,
    UploadArtifactRequest,
)
from taskyard.v1.artifacts_pb2_grpc import ArtifactServiceStub
from taskyard_client.cancellation import own_cancellation
from taskyard_worker.grpc_link import CHANNEL_OPTIONS, bearer, link_error


class ArtifactLink(Protocol):
    """The way to the scheduler's artifacts. Every method raises LinkError when it fails."""

    async def upload(self, head: ArtifactHead, chunks: AsyncIterator[bytes]) -> Artifact:
        """Send an artifact; return it once it is durable."""
        ...

    def download(self, request: DownloadArtifactRequest) -> AsyncGenerator[DownloadArtifactResponse, None]:
        """Yield the artifact's head, then its bytes."""
        ...


class GrpcArtifactLink:
    """A channel to the scheduler, opened when it is first used. Made inside a running event loop.

    Args:
        address: `host:port`, or any target that gRPC knows.
        token: The worker's bearer token.
        certificates: Those that sign the scheduler's, in PEM; None: no TLS.
    """

    def __init__(self, address: str, token: str, certificates: bytes | None = None) -> None:
        self._address = address
        self._metadata = bearer(token)
        self._certificates = certificates
        self._channel: grpc.aio.Channel | None = None

    async def upload(self, head: ArtifactHead, chunks: AsyncIterator[bytes]) -> Artifact:
        """Send an artifact; return it once it is durable."""
        with own_cancellation():
            try:
                answer = await self._stub().UploadArtifact(_messages(head, chunks), metadata=self._metadata)
            except AioRpcError as error:
                raise link_error(error) from error
        artifact: Artifact = answer.artifact
        return artifact

    async def download(self, request: DownloadArtifactRequest) -> AsyncGenerator[DownloadArtifactResponse, None]:
        """Yield the artifact's head, then its bytes."""
        call = self._stub().DownloadArtifact(request, metadata=self._metadata)
        answers = aiter(call)
        try:
            while (answer := await _next(answers)) is not None:
                yield answer
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel, and with it every call."""
        if self._channel is not None:
            await self._channel.close()

    def _stub(self) -> Any:
        if self._channel is None:
            options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
            if self._certificates is None:
                self._channel = grpc.aio.insecure_channel(self._address, options=options)
            else:
                credentials = grpc.ssl_channel_credentials(self._certificates)
                self._channel = grpc.aio.secure_channel(self._address, credentials, options=options)
        return ArtifactServiceStub(self._channel)


async def _messages(head: ArtifactHead, chunks: AsyncIterator[bytes]) -> AsyncIterator[UploadArtifactRequest]:
    yield UploadArtifactRequest(head=head)
    async for chunk in chunks:
        yield UploadArtifactRequest(data=chunk)


async def _next(answers: AsyncIterator[DownloadArtifactResponse]) -> DownloadArtifactResponse | None:
    with own_cancellation():
        try:
            return await anext(answers, None)
        except AioRpcError as error:
            raise link_error(error) from error
