"""The client for code without asyncio: the same calls, made on an event loop in a thread of its own.

Every method is one of AsyncClient, so neither its arguments nor its meaning are written down twice.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args, get_type_hints

from taskyard.v1.tasks_pb2 import ExplainTaskResponse, StoredLogLine, TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import Run, RunState, WatchRunResponse
from taskyard_client.blocking_artifacts import BlockingArtifacts
from taskyard_client.client import AsyncClient
from taskyard_client.handles import Outcome, RunHandle, TaskHandle, run_output, task_output
from taskyard_client.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class BlockingTask:
    """A task that was accepted; see TaskHandle.

    Attributes:
        id: Its id.
        repeated: True: an earlier submission with the same request id or idempotency key made it.
    """

    __slots__ = ("_client", "id", "repeated")

    def __init__(self, client: Client, task_id: str, *, repeated: bool = False) -> None:
        self._client = client
        self.id = task_id
        self.repeated = repeated

    def wait(self, timeout: float | None = None) -> TaskInstance:
        """Waits for the end, good or bad; see TaskHandle.wait."""
        return self._client.wait_task(self.id, timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the output; see TaskHandle.result."""
        return self._client.artifacts.resolve(task_output(self.wait(timeout)))

    def status(self) -> TaskInstance:
        """Returns how it stands now."""
        return self._client.get_task(self.id).task

    def cancel(self, reason: str = "") -> TaskStatus.ValueType:
        """Cancels it; see TaskCalls.cancel_task."""
        return self._client.cancel_task(self.id, reason)

    def retry(self) -> TaskStatus.ValueType:
        """Runs it again; see TaskCalls.retry_task."""
        return self._client.retry_task(self.id)

    def explain(self) -> ExplainTaskResponse:
        """Says why it is where it is."""
        return self._client.explain(self.id)

    def logs(
        self,
        *,
        attempt: int = 0,
        follow: bool = False,
        contains: str = "",
        since: datetime | None = None,
        streams: Iterable[str] = (),
    ) -> Iterator[StoredLogLine]:
        """Yields its log lines; see TaskCalls.logs."""
        return self._client.logs(
            self.id, attempt=attempt, follow=follow, contains=contains, since=since, streams=streams
        )


class BlockingRun:
    """A run that was accepted; see RunHandle.

    Attributes:
        id: Its id.
        repeated: True: an earlier start with the same request id or idempotency key made it.
    """

    __slots__ = ("_client", "id", "repeated")

    def __init__(self, client: Client, run_id: str, *, repeated: bool = False) -> None:
        self._client = client
        self.id = run_id
        self.repeated = repeated

    def wait(self, timeout: float | None = None) -> Run:
        """Waits for the end, good or bad; see RunHandle.wait."""
        return self._client.wait_run(self.id, timeout)

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the output; see RunHandle.result."""
        return self._client.artifacts.resolve(run_output(self.wait(timeout)))

    def status(self) -> Run:
        """Returns how it stands now."""
        return self._client.get_run(self.id).run

    def cancel(self, reason: str = "") -> RunState.ValueType:
        """Cancels it and what has not ended of its steps; see WorkflowCalls.cancel_run."""
        return self._client.cancel_run(self.id, reason)

    def watch(self) -> Iterator[WatchRunResponse]:
        """Yields its changes until it has ended; see WorkflowCalls.watch_run."""
        return self._client.watch_run(self.id)


def _with_signature(blocking: Any, method: Callable[..., Any], returns: object) -> None:
    """Lets a method say what it returns itself, where that is not what the method of AsyncClient returns."""
    blocking.__signature__ = inspect.signature(method).replace(return_annotation=returns)
    blocking.__annotations__ = {**method.__annotations__, "return": returns}


def _call(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._client, *args, **kwargs))

    return blocking


def _each(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Client, P], Iterator[T]]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._client, *args, **kwargs))

    item: Any = get_args(get_type_hints(method)["return"])[0]
    _with_signature(blocking, method, Iterator[item])
    return blocking


def _task(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, TaskHandle]],
) -> Callable[Concatenate[Client, P], BlockingTask]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> BlockingTask:
        handle = self._thread.run(method(self._client, *args, **kwargs))
        return BlockingTask(self, handle.id, repeated=handle.repeated)

    _with_signature(blocking, method, BlockingTask)
    return blocking


def _run(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, RunHandle]],
) -> Callable[Concatenate[Client, P], BlockingRun]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> BlockingRun:
        handle = self._thread.run(method(self._client, *args, **kwargs))
        return BlockingRun(self, handle.id, repeated=handle.repeated)

    _with_signature(blocking, method, BlockingRun)
    return blocking


def _tasks(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, list[Outcome[TaskHandle]]]],
) -> Callable[Concatenate[Client, P], list[Outcome[BlockingTask]]]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> list[Outcome[BlockingTask]]:
        outcomes = self._thread.run(method(self._client, *args, **kwargs))
        return [
            Outcome(BlockingTask(self, handle.id, repeated=handle.repeated) if handle else None, error)
            for handle, error in outcomes
        ]

    _with_signature(blocking, method, list[Outcome[BlockingTask]])
    return blocking


def _runs(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, list[Outcome[RunHandle]]]],
) -> Callable[Concatenate[Client, P], list[Outcome[BlockingRun]]]:
    @functools.wraps(method)
    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> list[Outcome[BlockingRun]]:
        outcomes = self._thread.run(method(self._client, *args, **kwargs))
        return [
            Outcome(BlockingRun(self, handle.id, repeated=handle.repeated) if handle else None, error)
            for handle, error in outcomes
        ]

    _with_signature(blocking, method, list[Outcome[BlockingRun]])
    return blocking


class Client:
    """The client of Taskyard for code without asyncio. Any thread may use it; close it, best with `with`.

    Args:
        address: The scheduler's `host:port`.
        token: JWT that says who you are; None where none is needed.
        ca: File with certificates to trust, or its content; makes the channel encrypted.
        timeout: Seconds that one call may take, all its attempts included. Waiting for a task has its own.
        rng: Draws request ids and the jitter of repeats. None: a new one, seeded by the system.

    Attributes:
        artifacts: The calls about artifacts.

    Raises:
        InvalidInput: The address is not `host:port`, the token has a character that no call can carry, or `ca` cannot
            be read or has no certificate.
    """

    def __init__(
        self,
        address: str,
        token: str | None,
        *,
        ca: str | Path | bytes | None = None,
        timeout: float = 30.0,
        rng: random.Random | None = None,
    ) -> None:
        self._client = AsyncClient(address, token, ca=ca, timeout=timeout, rng=rng)
        self._thread = LoopThread("taskyard-client")
        self.artifacts = BlockingArtifacts(self._client.artifacts, self._thread)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Fails what waits with ClientClosed and ends every call and the thread. Harmless when repeated."""
        if self._thread.alive:
            self._thread.run(self._client.close())
            self._thread.close()

    submit = _task(AsyncClient.submit)
    submit_task = _task(AsyncClient.submit_task)
    submit_many = _tasks(AsyncClient.submit_many)
    check_tasks = _call(AsyncClient.check_tasks)
    trigger = _task(AsyncClient.trigger)
    get_task = _call(AsyncClient.get_task)
    list_tasks = _each(AsyncClient.list_tasks)
    count_tasks = _call(AsyncClient.count_tasks)
    cancel_task = _call(AsyncClient.cancel_task)
    requeue_task = _call(AsyncClient.requeue_task)
    prioritize_task = _call(AsyncClient.prioritize_task)
    retry_task = _call(AsyncClient.retry_task)
    watch_tasks = _each(AsyncClient.watch_tasks)
    wait_task = _call(AsyncClient.wait_task)
    wait_tasks = _call(AsyncClient.wait_tasks)
    logs = _each(AsyncClient.logs)
    explain = _call(AsyncClient.explain)
    create_definition = _call(AsyncClient.create_definition)
    get_definition = _call(AsyncClient.get_definition)
    list_definitions = _each(AsyncClient.list_definitions)
    update_definition = _call(AsyncClient.update_definition)
    delete_definition = _call(AsyncClient.delete_definition)

    apply_workflow = _call(AsyncClient.apply_workflow)
    check_workflow = _call(AsyncClient.check_workflow)
    get_workflow = _call(AsyncClient.get_workflow)
    delete_workflow = _call(AsyncClient.delete_workflow)
    list_workflows = _each(AsyncClient.list_workflows)
    start_run = _run(AsyncClient.start_run)
    start_runs = _runs(AsyncClient.start_runs)
    check_runs = _call(AsyncClient.check_runs)
    get_run = _call(AsyncClient.get_run)
    list_runs = _each(AsyncClient.list_runs)
    count_runs = _call(AsyncClient.count_runs)
    cancel_run = _call(AsyncClient.cancel_run)
    retry_run = _call(AsyncClient.retry_run)
    watch_run = _each(AsyncClient.watch_run)
    wait_run = _call(AsyncClient.wait_run)

    check_bulk_tasks = _call(AsyncClient.check_bulk_tasks)
    bulk_tasks = _each(AsyncClient.bulk_tasks)
    check_bulk_runs = _call(AsyncClient.check_bulk_runs)
    bulk_runs = _each(AsyncClient.bulk_runs)

    mark_task = _call(AsyncClient.mark_task)
    mark_step = _call(AsyncClient.mark_step)
    complete_task = _call(AsyncClient.complete_task)
    fail_task = _call(AsyncClient.fail_task)
    broadcast_task = _call(AsyncClient.broadcast_task)

    pause_work = _call(AsyncClient.pause_work)
    resume_work = _call(AsyncClient.resume_work)
    pauses = _each(AsyncClient.pauses)
    pause_run = _call(AsyncClient.pause_run)
    resume_run = _call(AsyncClient.resume_run)

    set_variable = _call(AsyncClient.set_variable)
    get_variable = _call(AsyncClient.get_variable)
    list_variables = _each(AsyncClient.list_variables)
    delete_variable = _call(AsyncClient.delete_variable)

    workers = _each(AsyncClient.workers)
    get_worker = _call(AsyncClient.get_worker)
    drain_worker = _call(AsyncClient.drain_worker)
    forget_worker = _call(AsyncClient.forget_worker)
    queues = _each(AsyncClient.queues)
    cluster_status = _call(AsyncClient.cluster_status)

    def task(self, task_id: str) -> BlockingTask:
        """Returns a handle for a task that exists; nothing is asked."""
        return BlockingTask(self, task_id)

    def run(self, run_id: str) -> BlockingRun:
        """Returns a handle for a run that exists; nothing is asked."""
        return BlockingRun(self, run_id)
