"""One attempt while this worker has it: what was assigned, how it is stopped, what it reports meanwhile.

Not the running of it (`runner`) nor the frames that carry its reports (`outbox`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from taskyard.v1.tasks_pb2 import (
    TASK_STATUS_CANCELLED,
    TASK_STATUS_INTERRUPTED,
    TASK_STATUS_TIMEOUT,
    TASK_STATUS_UNSPECIFIED,
    TaskStatus,
)
from taskyard.v1.workers_pb2 import TaskAssignment, TaskProgress
from taskyard_worker.deferral import Deferral
from taskyard_worker.errors import InvalidInput, NonRetryable, TaskStopped
from taskyard_worker.live_output import LiveOutput
from taskyard_worker.registry import Handler
from taskyard_worker.transfers import AttemptArtifacts, Transfers

_decode = json.JSONDecoder().raw_decode

Waiter = asyncio.Future[None] | concurrent.futures.Future[None]


class StopCause(enum.Enum):
    """Why an attempt is stopped. Each gives the status that its result will have."""

    CANCELLED = "cancelled"
    """Somebody cancelled the task."""
    TIMEOUT = "timeout"
    """It ran longer than its run timeout, or than the scheduler allows."""
    FENCED = "fenced"
    """Another attempt takes its place: no result is wanted."""
    DRAINED = "drained"
    """The worker stops: the task is to be requeued."""

    @property
    def status(self) -> TaskStatus.ValueType:
        """The result's status; UNSPECIFIED when there is to be no result."""
        return _STATUS[self]


_STATUS: dict[StopCause, TaskStatus.ValueType] = {
    StopCause.CANCELLED: TASK_STATUS_CANCELLED,
    StopCause.TIMEOUT: TASK_STATUS_TIMEOUT,
    StopCause.FENCED: TASK_STATUS_UNSPECIFIED,
    StopCause.DRAINED: TASK_STATUS_INTERRUPTED,
}


@dataclass(frozen=True, slots=True)
class Stop:
    """An order to stop. `grace_s`: seconds between the polite request and the kill."""

    cause: StopCause
    message: str
    grace_s: float


@dataclass(slots=True)
class Reports:
    """What a running attempt has told: its progress, and its checkpoints with those who wait for them."""

    percent: float | None = None
    message: str = ""
    checkpoint: str | None = None
    number: int = 0
    acknowledged: int = 0
    unconfirmed: bool = False

    def frame_part(self, attempt: Attempt) -> TaskProgress:
        """Return what has to be sent now; a checkpoint stays in it until it is acknowledged."""
        part = TaskProgress(
            task_id=attempt.task_id,
            attempt_token=attempt.token,
            percent=self.percent,
            message=self.message,
            cancel_unconfirmed=self.unconfirmed,
        )
        if self.number > self.acknowledged and self.checkpoint is not None:
            part.checkpoint = self.checkpoint
            part.checkpoint_number = self.number
        return part


class AttemptHost(Protocol):
    """What an attempt asks of the worker around it."""

    @property
    def worker_id(self) -> str:
        """Id of the worker."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The worker's event loop."""
        ...

    @property
    def transfers(self) -> Transfers | None:
        """Brings artifacts to and fro; None where that cannot be done."""
        ...

    def write_log(self, attempt: Attempt, stream: str, level: str, lines: Sequence[str]) -> None:
        """Append to an attempt's log. From any thread."""
        ...

    def write_text(self, attempt: Attempt, text: str) -> None:
        """Append a piece of what an attempt gives out. From any thread."""
        ...

    def reports_changed(self, attempt: Attempt) -> None:
        """Send the attempt's reports with the next frame. On the loop only."""
        ...


_NONE: set[concurrent.futures.Future[Any]] = set()
"""Never added to: most attempts have no transfers."""


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object of a task's input. Raises InvalidInput."""
    try:
        typed, end = _decode(text)
        if end != len(text):
            typed = json.loads(text)
    except ValueError:
        try:
            typed = json.loads(text)  # also takes space around it, and says better what is wrong
        except ValueError as error:
            raise InvalidInput(f"the task's input is no JSON: {error}") from error
    if not isinstance(typed, dict):
        raise InvalidInput(f"the task's input is a JSON {type(typed).__name__}, but must be an object")
    return typed


class Attempt:
    """An attempt that runs here. Implements the `CallPort` that handlers are called with."""

    __slots__ = (
        "_waiters", "assignment", "deferral", "ended", "handler", "host", "lane", "live", "logged", "reports",
        "resolved", "stop", "stop_event", "stream", "timer", "token", "transfers",
    )  # fmt: skip

    def __init__(
        self, assignment: TaskAssignment, token: str, handler: Handler, host: AttemptHost, stream: int
    ) -> None:
        self.assignment = assignment
        self.token = token
        self.handler = handler
        self.host = host
        self.stream = stream  # number of the stream that brought it last
        self.lane: asyncio.Task[None] | None = None  # the task that runs it, once it has started
        self.timer: asyncio.TimerHandle | None = None  # of its run timeout, then of its grace
        self.stop: Stop | None = None
        self.stop_event: threading.Event | None = None  # only for handlers in threads
        self.reports: Reports | None = None
        self.deferral: Deferral | None = None
        self.ended = False
        self.logged = False
        self.live: LiveOutput | None = None  # what it gives out as it comes
        self.resolved: dict[str, Any] | None = None  # its input, where that had values in artifacts
        self.transfers: set[concurrent.futures.Future[Any]] = _NONE  # what its thread waits for
        self._waiters: list[tuple[int, Waiter]] | None = None

    @property
    def task_id(self) -> str:
        """Id of the task instance."""
        return self.assignment.task_id

    @property
    def number(self) -> int:
        """Number of the attempt, from 1."""
        return self.assignment.attempt

    @property
    def tenant(self) -> str:
        """The task's tenant."""
        return self.assignment.tenant

    @property
    def run_id(self) -> str:
        """Id of the workflow run, or the empty string."""
        return self.assignment.run_id

    @property
    def step_id(self) -> str:
        """Id of the step in the run, or the empty string."""
        return self.assignment.step_id

    @property
    def worker_id(self) -> str:
        """Id of the worker that runs the attempt."""
        return self.host.worker_id

    @property
    def run_timeout_s(self) -> float | None:
        """How long the attempt may run, in seconds; None: no bound."""
        limit_ms = self.assignment.timeout_ms
        return limit_ms / 1000 if limit_ms > 0 else None

    @property
    def artifacts(self) -> AttemptArtifacts:
        """The way to artifacts. Raises NonRetryable where there is none."""
        if self.host.transfers is None:
            raise NonRetryable("this worker has no way to artifacts")
        return AttemptArtifacts(self, self.host.transfers)

    @property
    def stored_checkpoint(self) -> str | None:
        """The newest checkpoint as JSON text, of this attempt or else of an earlier one."""
        if self.reports is not None and self.reports.checkpoint is not None:
            return self.reports.checkpoint
        return self.assignment.checkpoint if self.assignment.HasField("checkpoint") else None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The worker's event loop."""
        return self.host.loop

    @property
    def stopping(self) -> bool:
        """Whether the attempt was told to stop."""
        return self.stop is not None

    def wait_stopping(self, timeout: float | None) -> bool:
        """Block the calling thread until the attempt is told to stop, at most `timeout` seconds."""
        if self.stop_event is None:
            raise RuntimeError("waiting would block the event loop; an async handler awaits asyncio.sleep instead")
        return self.stop_event.wait(timeout)

    def input(self) -> dict[str, Any]:
        """Return the task's input: typed input over flat parameters. Raises InvalidInput."""
        if self.resolved is not None:
            return dict(self.resolved)
        assignment = self.assignment
        text = assignment.input_json
        params = assignment.params
        values: dict[str, Any] = dict(params) if params else {}
        if not text:
            return values
        typed = read_object(text)
        if not values:
            return typed
        values.update(typed)
        return values

    def texts(self) -> Iterator[str]:
        """Iterate over the texts that its input is made of."""
        yield self.assignment.input_json
        yield from self.assignment.params.values()

    def is_flat(self, name: str) -> bool:
        """Tell whether the input's value of this name is a flat parameter and no typed input."""
        assignment = self.assignment
        return name in assignment.params and not (assignment.input_json and name in read_object(assignment.input_json))

    def flat_names(self) -> list[str]:
        """Return the names of the input's values that are flat parameters. Raises InvalidInput."""
        typed = read_object(self.assignment.input_json) if self.assignment.input_json else {}
        return [name for name in self.assignment.params if name not in typed]

    def write_log(self, level: str, text: str) -> None:
        """Append to the attempt's log, after what was given out before. From any thread."""
        if self.live is not None:
            self.live.flush()
        self.host.write_log(self, "log", level, (text,))

    def write_text(self, text: str) -> None:
        """Give out text as it comes. From any thread."""
        if self.live is None:
            self.live = LiveOutput(self.host.loop, partial(self.host.write_text, self))
        self.live.write(text)

    def write_output(self, stream: str, lines: Sequence[str]) -> None:
        """Append lines of a child's `stdout` or `stderr` to the attempt's log."""
        self.host.write_log(self, stream, "", lines)

    def report_progress(self, percent: float | None, message: str) -> None:
        """Tell the progress. From any thread."""
        self._on_loop(self._progress, percent, message)

    async def store_checkpoint(self, text: str) -> None:
        """Return when the scheduler has committed the checkpoint."""
        if self.stop_event is not None:
            raise NonRetryable("ctx.checkpoint is for `async def` handlers; this one calls ctx.checkpoint_sync(value)")
        waiter: asyncio.Future[None] = self.host.loop.create_future()
        self._checkpoint(text, waiter)
        await waiter

    def store_checkpoint_sync(self, text: str) -> None:
        """Block the calling thread until the checkpoint is committed. Raises TaskStopped."""
        if self.stop_event is None:
            raise RuntimeError("checkpoint_sync would block the event loop; an async handler awaits ctx.checkpoint")
        waiter: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._on_loop(self._checkpoint, text, waiter)
        waiter.result()

    def checkpoint_acknowledged(self, number: int) -> None:
        """Let those go on who wait for this checkpoint or an earlier one."""
        if self.reports is None or self._waiters is None:
            return
        self.reports.acknowledged = max(self.reports.acknowledged, number)
        waiting = []
        for wanted, waiter in self._waiters:
            if wanted > number:
                waiting.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiters = waiting

    def release_waiters(self) -> None:
        """Raise TaskStopped in everyone who waits for a checkpoint: the attempt stops or has ended."""
        for _, waiter in self._waiters or ():
            if not waiter.done():
                waiter.set_exception(TaskStopped("the attempt stopped before its checkpoint was committed"))
        self._waiters = None
        for transfer in tuple(self.transfers):
            transfer.cancel()

    def cannot_be_stopped(self) -> None:
        """Tell that the handler ignores the order to stop."""
        self._ensure_reports().unconfirmed = True
        self.host.reports_changed(self)

    def disarm(self) -> None:
        """Cancel the attempt's timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _progress(self, percent: float | None, message: str) -> None:
        reports = self._ensure_reports()
        reports.percent, reports.message = percent, message
        self.host.reports_changed(self)

    def _checkpoint(self, text: str, waiter: Waiter) -> None:
        if self.ended or (self.stop is not None and self.stop_event is not None):
            waiter.set_exception(TaskStopped("the attempt was told to stop"))
            return
        reports = self._ensure_reports()
        reports.checkpoint = text
        reports.number += 1
        if self._waiters is None:
            self._waiters = []
        self._waiters.append((reports.number, waiter))
        self.host.reports_changed(self)

    def _ensure_reports(self) -> Reports:
        if self.reports is None:
            self.reports = Reports()
        return self.reports

    def _on_loop(self, call: Any, *args: Any) -> None:
        if self.stop_event is None:
            call(*args)
        else:
            self.host.loop.call_soon_threadsafe(call, *args)
