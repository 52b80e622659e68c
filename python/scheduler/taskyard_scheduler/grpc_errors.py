"""Which errors of core and store mean what to a caller. The mapping to gRPC itself is the service's."""

from __future__ import annotations

from taskyard_core.violations import InvalidInput
from taskyard_scheduler.artifacts.port import ArtifactStoreUnavailable, BytesMissing
from taskyard_scheduler.logs.port import LogStoreUnavailable
from taskyard_scheduler.store.port import Deposed, StoreUnavailable
from taskyard_service.errors import InvalidArgument, NotFound, ResourceExhausted, ServiceError, Unavailable


def translate(error: Exception) -> ServiceError | None:
    """Returns what a caller is told for an error, or None for a defect."""
    if isinstance(error, InvalidInput):
        return InvalidArgument(error.violations)
    if isinstance(error, StoreUnavailable):
        return Unavailable("DATABASE_UNAVAILABLE", f"{error.sentence}: try again", retry_after_s=1.0)
    if isinstance(error, LogStoreUnavailable):
        return Unavailable("LOGS_UNAVAILABLE", f"the log store cannot do this now: {error}", retry_after_s=1.0)
    if isinstance(error, ArtifactStoreUnavailable):
        return _without_artifacts(error)
    if isinstance(error, BytesMissing):
        return NotFound("ARTIFACT_BYTES_MISSING", f"{error}: the files that the scheduler keeps are not what it knows")
    if isinstance(error, Deposed):
        return Unavailable("NOT_LEADER", "this scheduler does not lead any more: try again")
    return None


def _without_artifacts(error: ArtifactStoreUnavailable) -> ServiceError:
    if error.full:
        return ResourceExhausted(
            "STORAGE_FULL", f"no room for the bytes ({error}): nothing of them is kept; make room, and repeat it"
        )
    return Unavailable("ARTIFACTS_UNAVAILABLE", f"the artifact store cannot do this now: {error}", retry_after_s=1.0)
