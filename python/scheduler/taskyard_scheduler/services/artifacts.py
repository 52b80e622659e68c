"""ArtifactService: bytes in and out, and what is known of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from taskyard.v1 import artifacts_pb2 as pb
from taskyard.v1 import artifacts_pb2_grpc
from taskyard_core.records import ARTIFACT_COLUMNS, Row
from taskyard_scheduler.artifacts.port import ArtifactStore, ArtifactStoreUnavailable, Key
from taskyard_scheduler.artifacts.removal import remove
from taskyard_scheduler.artifacts.uploads import Uploads, check_attempt
from taskyard_scheduler.egress.artifacts import artifact_message
from taskyard_scheduler.filters import ARTIFACT_FIELDS, parse_filter
from taskyard_scheduler.ingress.artifacts import Head, read_head, read_range, require_artifact
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.paging import read_time_page
from taskyard_scheduler.services.repeats import first_answer, kept_answer
from taskyard_service.errors import FailedPrecondition, FieldViolation, InvalidArgument, NotFound
from taskyard_service.identity import Role, current_identity

HOLDERS_SHOWN = 3
_SIZE = ARTIFACT_COLUMNS.index("size")


class ArtifactService(artifacts_pb2_grpc.ArtifactServiceServicer):
    """Calls on artifacts. The interceptors have checked token and role.

    Args:
        scheduler: Who leads.
        store: Where bytes are.
        uploads: Takes in bytes.
    """

    def __init__(self, scheduler: Scheduler, store: ArtifactStore, uploads: Uploads) -> None:
        self._scheduler = scheduler
        self._store = store
        self._uploads = uploads

    async def UploadArtifact(
        self, request_iterator: AsyncIterator[pb.UploadArtifactRequest], context: Any
    ) -> pb.UploadArtifactResponse:
        requests = aiter(request_iterator)
        first = await anext(requests, None)
        if first is None or first.WhichOneof("content") != "head":
            raise InvalidArgument([FieldViolation("head", "absent: the first message of an upload must carry it")])
        attempt = self._attempt(first.head, "head.")
        head = read_head(first.head)
        return pb.UploadArtifactResponse(artifact=await self.take(head, _data_of(requests), attempt))

    async def take(self, head: Head, chunks: AsyncIterator[bytes], attempt: pb.ArtifactAttempt | None) -> pb.Artifact:
        """Takes in an artifact of the caller; see `Uploads.take`."""
        return await self._uploads.take(self._scheduler.leader(), current_identity().tenant, head, chunks, attempt)

    async def DownloadArtifact(
        self, request: pb.DownloadArtifactRequest, context: Any
    ) -> AsyncIterator[pb.DownloadArtifactResponse]:
        require_artifact(request.artifact_id)
        attempt = self._attempt(request)
        leader = self._scheduler.leader()
        tenant = current_identity().tenant
        check_attempt(leader, tenant, attempt)
        row = await stored_artifact(leader, tenant, request.artifact_id)
        offset, length = read_range(request.offset, request.length, row[_SIZE])
        yield pb.DownloadArtifactResponse(artifact=artifact_message(row))
        async with aclosing(self.bytes_of(row, offset, length)) as chunks:
            async for chunk in chunks:
                yield pb.DownloadArtifactResponse(data=chunk)

    async def artifact(self, artifact_id: str) -> Row:
        """Returns the row of an artifact of the caller. Raises NotFound."""
        require_artifact(artifact_id)
        return await stored_artifact(self._scheduler.leader(), current_identity().tenant, artifact_id)

    def bytes_of(self, row: Row, offset: int, length: int) -> AsyncGenerator[bytes, None]:
        """Yields bytes of an artifact; see `ArtifactStore.read`."""
        return self._store.read(Key(row[0], row[1]), offset, length)

    async def GetArtifact(self, request: pb.GetArtifactRequest, context: Any) -> pb.GetArtifactResponse:
        return pb.GetArtifactResponse(artifact=artifact_message(await self.artifact(request.artifact_id)))

    async def ListArtifacts(self, request: pb.ListArtifactsRequest, context: Any) -> pb.ListArtifactsResponse:
        leader = self._scheduler.leader()
        page = read_time_page(request, "artifacts")
        where = parse_filter(request.filter, ARTIFACT_FIELDS)
        rows = await leader.store.list_artifacts(
            current_identity().tenant, where, page.after, page.size + 1, newest_first=page.newest_first
        )
        return pb.ListArtifactsResponse(
            artifacts=map(artifact_message, rows[: page.size]), next_page_token=page.next_token(rows, ARTIFACT_COLUMNS)
        )

    async def DeleteArtifact(self, request: pb.DeleteArtifactRequest, context: Any) -> pb.DeleteArtifactResponse:
        require_artifact(request.artifact_id)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.DeleteArtifactResponse)
        if first is not None:
            return first
        row = await stored_artifact(leader, tenant, request.artifact_id)
        await _check_unused(leader, row)
        try:
            await remove(leader, self._store, [Key(row[0], row[1])])
        except ArtifactStoreUnavailable as error:  # nobody sees them any more; they go with what has no row
            self._scheduler.log.warning("bytes of a deleted artifact are left for now", error=str(error))
        await _check_unused(leader, row)  # one that came into use meanwhile was not deleted
        return await kept_answer(leader, tenant, request.request_id, request, pb.DeleteArtifactResponse())

    def _attempt(self, said: pb.ArtifactHead | pb.DownloadArtifactRequest, path: str = "") -> pb.ArtifactAttempt | None:
        """Returns the attempt that is named; a worker must name one."""
        if said.HasField("attempt"):
            return said.attempt
        if current_identity().role == Role.WORKER:
            text = "absent: a worker must name the attempt that it acts for"
            raise InvalidArgument([FieldViolation(f"{path}attempt", text)])
        return None


async def _data_of(requests: AsyncIterator[pb.UploadArtifactRequest]) -> AsyncIterator[bytes]:
    async for request in requests:
        if request.WhichOneof("content") == "head":
            raise InvalidArgument([FieldViolation("head", "only the first message of an upload carries it")])
        yield request.data


async def stored_artifact(leader: Leader, tenant: str, artifact_id: str) -> Row:
    """Returns the row of an artifact.

    Raises:
        NotFound: There is none of that id.
    """
    row = await leader.store.get_artifact(tenant, artifact_id)
    if row is None:
        raise NotFound(
            "ARTIFACT_NOT_FOUND",
            f"there is no artifact {artifact_id!r}; one that nothing refers to is removed after a while",
            metadata={"artifact_id": artifact_id},
        )
    return row


async def _check_unused(leader: Leader, row: Row) -> None:
    holders = await leader.store.artifact_holders(row[0], row[1], HOLDERS_SHOWN + 1)
    if holders:
        shown = ", ".join(f"{kind} {name}" for kind, name in holders[:HOLDERS_SHOWN])
        more = " and others" if len(holders) > HOLDERS_SHOWN else ""
        raise FailedPrecondition(
            "IN_USE",
            f"{shown}{more} refer{'' if len(holders) > 1 else 's'} to artifact {row[1]}, so it is kept; "
            "when nothing does, it is removed by itself",
            metadata={"artifact_id": row[1], "holders": shown},
        )
