"""Artifacts as clients see them."""

from __future__ import annotations

from taskyard.v1 import artifacts_pb2 as pb
from taskyard_core.artifacts import uri_of
from taskyard_core.records import ARTIFACT_COLUMNS, Row


def artifact_message(row: Row) -> pb.Artifact:
    """Returns the message of a row of ARTIFACT_COLUMNS."""
    stored = dict(zip(ARTIFACT_COLUMNS, row, strict=True))
    artifact = pb.Artifact(
        uri=uri_of(stored["id"]),
        artifact_id=stored["id"],
        name=stored["name"],
        media_type=stored["media_type"],
        size=stored["size"],
        sha256=stored["sha256"],
        task_id=stored["task_id"],
    )
    artifact.create_time.FromMilliseconds(stored["created_at"])
    return artifact
