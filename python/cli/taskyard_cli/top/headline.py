"""The lines above the tables: who answers, how much is going on, and what is wrong with the connection. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from taskyard.v1.fleet_pb2 import GetClusterStatusResponse
from taskyard_client import (
    DeadlineExceeded,
    InvalidInput,
    Overloaded,
    PermissionDenied,
    TaskyardError,
    Unauthenticated,
    Unavailable,
)


def cluster_line(status: GetClusterStatusResponse, address: str) -> str:
    """Returns who answers, and from where."""
    return f"{status.scheduler_id} at {address}, term {status.term}, {status.database}, version {status.version}"


def rate_line(now: Mapping[str, float] | None, line: str) -> str:
    """Returns how many tasks end a second, by status, and how that went lately."""
    if now is None:
        return f"ended   measuring …  {line}"
    parts = ", ".join(f"{word} {rate:,.1f}" for word, rate in now.items() if rate)
    return f"ended   {sum(now.values()):,.1f}/s {line}  {parts}".rstrip()


def work_line(status: GetClusterStatusResponse) -> str:
    """Returns how much is going on."""
    return (
        f"tasks   {status.tasks_live:,} live: {status.tasks_queued:,} queued, {status.tasks_in_flight:,} with workers"
        f"   runs {status.runs_live:,}   workers {status.workers_healthy:,}/{status.workers_known:,} healthy"
    )


def trouble(error: TaskyardError, since: datetime) -> str:
    """Returns what a reading that failed means for whoever looks at the screen.

    Args:
        error: Why it failed.
        since: When the first of the readings in a row failed that did.
    """
    if isinstance(error, Unavailable | DeadlineExceeded | Overloaded):
        return f"no connection since {since.astimezone():%H:%M:%S}, trying again: {error.message}"
    if isinstance(error, Unauthenticated | PermissionDenied):
        return f"the scheduler does not let you look since {since.astimezone():%H:%M:%S}, trying again: {error.message}"
    if isinstance(error, InvalidInput):
        return f"the filter is refused: {error.message}"
    return f"failed at {since.astimezone():%H:%M:%S}, trying again: {error.message}"
