"""The Python worker of Taskyard: write handlers with `@task`, run them with `Worker` or `taskyard worker`.

Importing it is cheap (an isolated handler's process does): what talks to the scheduler loads when `Worker` is
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskyard_worker.context import Context, TaskLog
from taskyard_worker.deferral import Deferral
from taskyard_worker.errors import (
    ArtifactsUnavailable,
    InvalidInput,
    NonRetryable,
    PermissionDenied,
    Retryable,
    TaskStopped,
    WorkerError,
)
from taskyard_worker.registry import TaskRegistry, default_registry, task

if TYPE_CHECKING:
    from taskyard_worker.settings import WorkerSettings
    from taskyard_worker.worker import Offer, Worker

__all__ = [
    "ArtifactsUnavailable",
    "Context",
    "Deferral",
    "InvalidInput",
    "NonRetryable",
    "Offer",
    "PermissionDenied",
    "Retryable",
    "TaskLog",
    "TaskRegistry",
    "TaskStopped",
    "Worker",
    "WorkerError",
    "WorkerSettings",
    "default_registry",
    "task",
]


def __getattr__(name: str) -> object:
    if name in ("Offer", "Worker"):
        from taskyard_worker import worker

        return getattr(worker, name)
    if name == "WorkerSettings":
        from taskyard_worker.settings import WorkerSettings

        return WorkerSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
