"""What the OpenAPI document says of the bytes of artifacts, which `artifact_bytes` serves: no binding has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_scheduler.services.artifact_bytes import BYTES_PATH, UPLOAD_PATH
from taskyard_service.access import Access
from taskyard_service.identity import Role

Schema = dict[str, Any]

_SERVICE: Final = "ArtifactService"
_ERROR: Final = {"$ref": "#/components/responses/Error"}
_BYTES: Final[Schema] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_TAGS: Final = [_SERVICE]


def artifact_paths(access: Access) -> Mapping[str, Schema]:
    """Returns the path items. `access`: who may make the calls that do the same over gRPC."""
    return {
        UPLOAD_PATH: {"put": _upload(_roles(access, "UploadArtifact"))},
        BYTES_PATH: {"get": _download("", _roles(access, "DownloadArtifact"))}
        | {"head": _download("Head", _roles(access, "DownloadArtifact"))},
    }


def _roles(access: Access, method: str) -> list[str]:
    """Returns who may; workers name their attempt, which they do over gRPC alone."""
    return sorted(str(role) for role in access[f"/taskyard.v1.{_SERVICE}/{method}"] - {Role.WORKER})


def _upload(roles: list[str]) -> Schema:
    return {
        "operationId": f"{_SERVICE}_UploadArtifactBytes",
        "tags": _TAGS,
        "summary": "Uploads an artifact: the body is its bytes, as they are.",
        "description": "The body may have any media type. A repeat with the same `requestId` has the first's answer.",
        "parameters": [
            _parameter("query", "name", "For people. Empty: none."),
            _parameter("query", "mediaType", "What it is. Empty: the body's Content-Type."),
            _parameter("query", "requestId", "Makes a repeat harmless."),
            _parameter("query", "sha256", "What the bytes must come to, in hexadecimal; else nothing is stored."),
        ],
        "requestBody": {"required": True, "content": _BYTES},
        "responses": {
            "200": {
                "description": "It is durable.",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {"artifact": {"$ref": f"#/components/schemas/{pb.Artifact.DESCRIPTOR.name}"}},
                        }
                    }
                },
            },
            "400": _ERROR,
            "413": _ERROR,
            "default": _ERROR,
        },
        "x-roles": roles,
    }


def _download(suffix: str, roles: list[str]) -> Schema:
    whole = {
        "description": "The bytes; none for HEAD. Content-Type is the media type, ETag the SHA-256 in quotes.",
        "headers": {name: {"schema": {"type": "string"}} for name in ("ETag", "Accept-Ranges", "Content-Disposition")},
    } | ({} if suffix else {"content": _BYTES})
    part = whole | {"description": "The bytes of the range; `Content-Range` says which of how many."}
    return {
        "operationId": f"{_SERVICE}_DownloadArtifactBytes{suffix}",
        "tags": _TAGS,
        "summary": "Reads an artifact's bytes, all or a range." if not suffix else "Reads what is said of the bytes.",
        "parameters": [
            {
                "name": "artifact_id", "in": "path", "required": True, "description": "Its id.",
                "schema": {"type": "string", "minLength": 1},
            },
            _parameter("header", "Range", "One range, as in `bytes=0-1023` (RFC 9110). Others are passed over."),
            _parameter("header", "If-Range", "An ETag: the range is of that, else all bytes are sent."),
            _parameter("header", "If-None-Match", "ETags: of one that is still right nothing is sent."),
        ],
        "responses": {
            "200": whole,
            "206": part,
            "304": {"description": "The bytes are those of the ETag that was given."},
            "404": _ERROR,
            "416": _ERROR,
            "default": _ERROR,
        },
        "x-roles": roles,
    }  # fmt: skip


def _parameter(place: str, name: str, description: str) -> Schema:
    return {"name": name, "in": place, "schema": {"type": "string"}, "description": description}
