"""A task or a run that was submitted, as an object to wait on. The work is done by the groups of calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from taskyard.v1.tasks_pb2 import ExplainTaskResponse, StoredLogLine, TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import Run, RunState, WatchRunResponse
from taskyard_client.errors import RunFailed, TaskFailed, TaskyardError

if TYPE_CHECKING:
    from taskyard_client.task_calls import TaskCalls
    from taskyard_client.workflow_calls import WorkflowCalls


Handle = TypeVar("Handle")


class Outcome(NamedTuple, Generic[Handle]):
    """What became of one item of a list.

    Attributes:
        handle: The task or run; None when it was refused.
        error: Why it was refused, or how the call failed that carried it; None when it was accepted.
    """

    handle: Handle | None
    error: TaskyardError | None


Check = TypeVar("Check")


class Checked(NamedTuple, Generic[Check]):
    """What would become of one item of a list.

    Attributes:
        check: What it would be and where it would go; None when it would be refused.
        error: Why it would be refused; None when it would be accepted.
    """

    check: Check | None
    error: TaskyardError | None


def output_of(text: str) -> Any:
    """Returns an output as a Python value; None where there is none."""
    return json.loads(text) if text else None


def task_output(task: TaskInstance) -> Any:
    """Returns what an ended task returned; `artifacts.resolve` fetches what is an artifact of it.

    Raises:
        TaskFailed: It did not end in SUCCESS.
    """
    if task.status != TaskStatus.TASK_STATUS_SUCCESS:
        raise TaskFailed(task)
    return output_of(task.output_json)


def run_output(run: Run) -> Any:
    """Returns the output of an ended run; `artifacts.resolve` fetches what is an artifact of it.

    Raises:
        RunFailed: It did not end in SUCCEEDED.
    """
    if run.state != RunState.RUN_STATE_SUCCEEDED:
        raise RunFailed(run)
    return output_of(run.output_json)


class TaskHandle:
    """A task that was accepted.

    Attributes:
        id: Its id.
        repeated: True: an earlier submission with the same request id or idempotency key made it.
    """

    __slots__ = ("_calls", "id", "repeated")

    def __init__(self, calls: TaskCalls, task_id: str, *, repeated: bool = False) -> None:
        self._calls = calls
        self.id = task_id
        self.repeated = repeated

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r})"

    async def wait(self, timeout: float | None = None) -> TaskInstance:
        """Waits for the end, good or bad.

        Args:
            timeout: Seconds. None: as long as it takes.

        Raises:
            DeadlineExceeded: It has not ended by then; it goes on.
        """
        return await self._calls.wait_task(self.id, timeout)

    async def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the output; one that is an artifact is fetched.

        Args:
            timeout: Seconds. None: as long as it takes.

        Raises:
            TaskFailed: It did not end in SUCCESS.
            DeadlineExceeded: It has not ended by then; it goes on.
            NotFound: The output is an artifact that is gone.
        """
        return await self._calls.artifacts.resolve(task_output(await self.wait(timeout)))

    async def status(self) -> TaskInstance:
        """Returns how it stands now."""
        return (await self._calls.get_task(self.id)).task

    async def cancel(self, reason: str = "") -> TaskStatus.ValueType:
        """Cancels it; see TaskCalls.cancel_task."""
        return await self._calls.cancel_task(self.id, reason)

    async def retry(self) -> TaskStatus.ValueType:
        """Runs it again; see TaskCalls.retry_task."""
        return await self._calls.retry_task(self.id)

    async def explain(self) -> ExplainTaskResponse:
        """Says why it is where it is."""
        return await self._calls.explain(self.id)

    def logs(
        self,
        *,
        attempt: int = 0,
        follow: bool = False,
        contains: str = "",
        since: datetime | None = None,
        streams: Iterable[str] = (),
    ) -> AsyncIterator[StoredLogLine]:
        """Yields its log lines; see TaskCalls.logs."""
        return self._calls.logs(
            self.id, attempt=attempt, follow=follow, contains=contains, since=since, streams=streams
        )


class RunHandle:
    """A run that was accepted.

    Attributes:
        id: Its id.
        repeated: True: an earlier start with the same request id or idempotency key made it.
    """

    __slots__ = ("_calls", "id", "repeated")

    def __init__(self, calls: WorkflowCalls, run_id: str, *, repeated: bool = False) -> None:
        self._calls = calls
        self.id = run_id
        self.repeated = repeated

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def wait(self, timeout: float | None = None) -> Run:
        """Waits for the end, good or bad.

        Args:
            timeout: Seconds. None: as long as it takes.

        Raises:
            DeadlineExceeded: It has not ended by then; it goes on.
        """
        return await self._calls.wait_run(self.id, timeout)

    async def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the output; one that is an artifact is fetched.

        Args:
            timeout: Seconds. None: as long as it takes.

        Raises:
            RunFailed: It did not end in SUCCEEDED.
            DeadlineExceeded: It has not ended by then; it goes on.
            NotFound: The output is an artifact that is gone.
        """
        return await self._calls.artifacts.resolve(run_output(await self.wait(timeout)))

    async def status(self) -> Run:
        """Returns how it stands now."""
        return (await self._calls.get_run(self.id)).run

    async def cancel(self, reason: str = "") -> RunState.ValueType:
        """Cancels it and what has not ended of its steps; see WorkflowCalls.cancel_run."""
        return await self._calls.cancel_run(self.id, reason)

    def watch(self) -> AsyncIterator[WatchRunResponse]:
        """Yields its changes until it has ended; see WorkflowCalls.watch_run."""
        return self._calls.watch_run(self.id)
