"""The Python client of Taskyard, async and sync."""

from taskyard_client.blocking import BlockingRun, BlockingTask, Client
from taskyard_client.client import AsyncClient
from taskyard_client.errors import (
    AlreadyEnded,
    AlreadyExists,
    ClientClosed,
    DeadlineExceeded,
    Gone,
    InvalidInput,
    NotFound,
    Overloaded,
    PermissionDenied,
    RequestIdReused,
    RunFailed,
    ServerError,
    TaskFailed,
    TaskyardError,
    Unauthenticated,
    Unavailable,
    Violation,
    WrongState,
)
from taskyard_client.handles import Checked, Outcome, RunHandle, TaskHandle, run_output, task_output
from taskyard_client.policies import Placement, Resources, Retry, Timeouts
from taskyard_client.submissions import new_run, new_task

__all__ = [
    "AlreadyEnded",
    "AlreadyExists",
    "AsyncClient",
    "BlockingRun",
    "BlockingTask",
    "Checked",
    "Client",
    "ClientClosed",
    "DeadlineExceeded",
    "Gone",
    "InvalidInput",
    "NotFound",
    "Outcome",
    "Overloaded",
    "PermissionDenied",
    "Placement",
    "RequestIdReused",
    "Resources",
    "Retry",
    "RunFailed",
    "RunHandle",
    "ServerError",
    "TaskFailed",
    "TaskHandle",
    "TaskyardError",
    "Timeouts",
    "Unauthenticated",
    "Unavailable",
    "Violation",
    "WrongState",
    "new_run",
    "new_task",
    "run_output",
    "task_output",
]
