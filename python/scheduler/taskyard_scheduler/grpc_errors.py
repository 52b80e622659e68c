"""Which errors of core and store mean what to a caller. The mapping to gRPC itself is the service's."""

from __future__ import annotations

from taskyard_core.violations import InvalidInput
from taskyard_scheduler.logs.port import LogStoreUnavailable
from taskyard_scheduler.store.port import Deposed, StoreUnavailable
from taskyard_service.errors import InvalidArgument, ServiceError, Unavailable


def translate(error: Exception) -> ServiceError | None:
    """Returns what a caller is told for an error, or None for a defect."""
    if isinstance(error, InvalidInput):
        return InvalidArgument(error.violations)
    if isinstance(error, StoreUnavailable):
        return Unavailable("DATABASE_UNAVAILABLE", f"{error.sentence}: try again", retry_after_s=1.0)
    if isinstance(error, LogStoreUnavailable):
        return Unavailable("LOGS_UNAVAILABLE", f"the log store cannot do this now: {error}", retry_after_s=1.0)
    if isinstance(error, Deposed):
        return Unavailable("NOT_LEADER", "this scheduler does not lead any more: try again")
    return None
