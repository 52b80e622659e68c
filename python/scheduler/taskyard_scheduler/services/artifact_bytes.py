"""The bytes of artifacts over HTTP: the one route that is written by hand, since no JSON carries them.

Who may call is judged by the interceptors, as for the RPCs that do the same.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_core.records import ARTIFACT_COLUMNS, Row
from taskyard_core.violations import cut
from taskyard_scheduler.artifacts.port import CHUNK_BYTES
from taskyard_scheduler.grpc_errors import translate
from taskyard_scheduler.ingress.artifacts import Head, read_head
from taskyard_scheduler.services.artifacts import ArtifactService
from taskyard_service.errors import FieldViolation, InvalidArgument, OutOfRange, PermissionDenied, ServiceError
from taskyard_service.gateway.answers import ALWAYS, Answer, answer, failure
from taskyard_service.gateway.bodies import UnknownEncoding
from taskyard_service.gateway.gateway import metadata_of
from taskyard_service.gateway.table import MethodTable
from taskyard_service.identity import Role, current_identity

BYTES_PATH: Final = "/api/v1/artifacts/{artifact_id}/bytes"
UPLOAD_PATH: Final = "/api/v1/artifacts/bytes"
_DOWNLOAD: Final = "/taskyard.v1.ArtifactService/DownloadArtifact"
_UPLOAD: Final = "/taskyard.v1.ArtifactService/UploadArtifact"
_GONE: Final = 499  # nobody is there to read it
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_SAFE: Final = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox",  # what people store must not act as a page of this server
    "cache-control": "private, no-cache",  # a cache asks with the ETag, and so is asked for the token
}
_NAMES: Final = {"name": "name", "mediaType": "media_type", "requestId": "request_id", "sha256": "sha256"}


class RangeNotSatisfiable(OutOfRange):
    """The artifact has none of the bytes that are asked for."""

    http_status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


def bytes_routes(service: ArtifactService, table: MethodTable) -> APIRouter:
    """Returns the routes.

    Args:
        service: Has the artifacts.
        table: Judges who may call.
    """

    async def download(request: Request) -> Response:
        try:
            await table.permit(_DOWNLOAD, metadata_of(request.scope))
            _refuse_workers()
            row = await service.artifact(request.path_params["artifact_id"])
            return _answer(request, row, service)
        except RangeNotSatisfiable as error:
            return _response(failure(error), {"content-range": f"bytes */{error.metadata['size']}"})
        except Exception as error:
            raise _known(error) from error

    async def upload(request: Request) -> Response:
        try:
            await table.permit(_UPLOAD, metadata_of(request.scope))
            _refuse_workers()
            artifact = await service.take(_head_of(request), _pieces(request), None)
        except ClientDisconnect:
            return Response(status_code=_GONE)
        except Exception as error:
            raise _known(error) from error
        return _response(answer(pb.UploadArtifactResponse(artifact=artifact)))

    router = APIRouter()
    router.add_api_route(UPLOAD_PATH, upload, methods=["PUT"])
    router.add_api_route(BYTES_PATH, download, methods=["GET", "HEAD"])
    return router


def _response(told: Answer, more: Mapping[str, str] = MappingProxyType({})) -> Response:
    headers = {name.decode(): value.decode() for name, value in (*ALWAYS, *told.headers)}
    return Response(told.body, told.status, headers | dict(more))


def _known(error: Exception) -> Exception:
    return error if isinstance(error, ServiceError) else translate(error) or error


def _refuse_workers() -> None:
    if current_identity().role == Role.WORKER:
        raise PermissionDenied("ROLE_NOT_ALLOWED", "a worker names its attempt, which it does over gRPC alone")


# Downloads.


def _answer(request: Request, row: Row, service: ArtifactService) -> Response:
    stored = dict(zip(ARTIFACT_COLUMNS, row, strict=True))
    size, etag = int(stored["size"]), f'"{stored["sha256"]}"'
    headers = {
        **_SAFE,
        "etag": etag,
        "accept-ranges": "bytes",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(stored['name'] or stored['id'], safe='')}",
    }
    if etag in map(str.strip, request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    first, length, status = 0, size, HTTPStatus.OK
    if request.headers.get("if-range", etag) == etag:
        wanted = read_range(request.headers.get("range", ""), size)
        if wanted is not None:
            first, length = wanted
            status = HTTPStatus.PARTIAL_CONTENT
            headers["content-range"] = f"bytes {first}-{first + length - 1}/{size}"
    headers["content-length"] = str(length)
    if request.method == "HEAD" or not length:
        return Response(status_code=status, headers=headers, media_type=stored["media_type"])
    body = _bytes(service.bytes_of(row, first, length))
    return StreamingResponse(body, status, headers, media_type=stored["media_type"])


async def _bytes(chunks: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


def read_range(text: str, size: int) -> tuple[int, int] | None:
    """Returns the first byte and the number of bytes of a Range header (RFC 9110); None for all.

    What is no range of bytes, or several, is passed over, as that standard lets a server do.

    Raises:
        RangeNotSatisfiable: There is none of these bytes.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        first, last = max(0, size - int(found[2])), size - 1
    else:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if found[1] and found[2] and int(found[2]) < first:
        return None
    if first > last:
        raise RangeNotSatisfiable(
            "RANGE_NOT_SATISFIABLE",
            f"the artifact has {size} bytes, and none of {cut(text)}",
            metadata={"size": str(size)},
        )
    return first, last - first + 1


# Uploads.


def _head_of(request: Request) -> Head:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        said = f"{encoding[:40]!r}: send the body as it is, or compress the file itself and name it so"
        raise UnknownEncoding([FieldViolation("Content-Encoding", said)])
    head = pb.ArtifactHead(media_type=_media_type(request))
    for name, value in request.query_params.multi_items():
        field = _NAMES.get(name, name)
        if field not in _NAMES.values():
            known = ", ".join(_NAMES)
            raise InvalidArgument([FieldViolation(cut(name), f"there is no such parameter; there are {known}")])
        setattr(head, field, value)
    length = request.headers.get("content-length", "")
    if length.isdigit() and len(length) < 19:
        head.size = int(length)
    return read_head(head, "")


def _media_type(request: Request) -> str:
    """Returns what the header says, unless it is what curl says of any body."""
    said = request.headers.get("content-type", "")
    return "" if said == "application/x-www-form-urlencoded" else said


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    async for piece in request.stream():
        for start in range(0, len(piece), CHUNK_BYTES):
            yield piece[start : start + CHUNK_BYTES]
