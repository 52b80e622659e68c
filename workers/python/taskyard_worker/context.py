"""What a handler sees of its attempt: who it is, its log, progress, checkpoints and whether it must stop.

Not the attempt itself: a Context looks through an `AttemptPort`, in the worker or in an isolated process.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Protocol

from taskyard_worker.artifacts import ArtifactPort, Artifacts
from taskyard_worker.awaiting import needs_await
from taskyard_worker.deferral import Deferral, deferral
from taskyard_worker.errors import InvalidInput, TaskStopped

MAX_CHECKPOINT_BYTES = 256 * 1024
MAX_PROGRESS_CHARACTERS = 1000

to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""Turns a value into JSON text; raises TypeError or ValueError for what JSON cannot hold (NaN, cycles, objects)."""


class AttemptPort(Protocol):
    """What a Context asks of the attempt behind it. What reports or writes works from any thread.

    Attributes:
        deferral: What the handler's last call of `ctx.defer` gave it; None before.
    """

    deferral: Deferral | None

    @property
    def task_id(self) -> str:
        """Id of the task instance."""
        ...

    @property
    def token(self) -> str:
        """The attempt's token."""
        ...

    @property
    def number(self) -> int:
        """Number of the attempt, from 1."""
        ...

    @property
    def tenant(self) -> str:
        """The task's tenant."""
        ...

    @property
    def run_id(self) -> str:
        """Id of the workflow run, or the empty string."""
        ...

    @property
    def step_id(self) -> str:
        """Id of the step in the run, or the empty string."""
        ...

    @property
    def worker_id(self) -> str:
        """Id of the worker that runs the attempt."""
        ...

    @property
    def run_timeout_s(self) -> float | None:
        """How long the attempt may run, in seconds; None: no bound."""
        ...

    @property
    def artifacts(self) -> ArtifactPort:
        """The way to artifacts."""
        ...

    @property
    def stored_checkpoint(self) -> str | None:
        """The newest checkpoint as JSON text, of this attempt or else of an earlier one."""
        ...

    @property
    def stopping(self) -> bool:
        """Whether the attempt was told to stop."""
        ...

    def wait_stopping(self, timeout: float | None) -> bool:
        """Block the calling thread until the attempt is told to stop, at most `timeout` seconds."""
        ...

    def write_log(self, level: str, text: str) -> None:
        """Append to the attempt's log. Never blocks on the network."""
        ...

    def write_text(self, text: str) -> None:
        """Give out text as it comes. Never blocks on the network."""
        ...

    def report_progress(self, percent: float | None, message: str) -> None:
        """Tell the progress; only the newest is sent when they come faster than they can be sent."""
        ...

    async def store_checkpoint(self, text: str) -> None:
        """Return when the scheduler has committed the checkpoint."""
        ...

    def store_checkpoint_sync(self, text: str) -> None:
        """Block the calling thread until the scheduler has committed the checkpoint, or raise TaskStopped."""
        ...


class TaskLog:
    """The attempt's log, used like a `logging.Logger`: lines go to the scheduler, where `taskyard logs` shows them."""

    __slots__ = ("_port",)

    def __init__(self, port: AttemptPort) -> None:
        self._port = port

    def debug(self, message: object, *args: object) -> None:
        """Log what only helps to find a fault; `args` fill the message's % fields."""
        self._write("DEBUG", message, args)

    def info(self, message: object, *args: object) -> None:
        """Log what happened."""
        self._write("INFO", message, args)

    def warning(self, message: object, *args: object) -> None:
        """Log what may need a look."""
        self._write("WARNING", message, args)

    def error(self, message: object, *args: object) -> None:
        """Log what went wrong."""
        self._write("ERROR", message, args)

    def _write(self, level: str, message: object, args: tuple[object, ...]) -> None:
        text = str(message)
        self._port.write_log(level, text % args if args else text)


class Context:
    """One attempt, as its handler sees it.

    The `async` methods are for handlers written with `async def`; those that end in `_sync` do the same for
    handlers in threads and in isolated processes.
    """

    __slots__ = ("_port",)

    def __init__(self, port: AttemptPort) -> None:
        self._port = port

    @property
    def task_id(self) -> str:
        """Id of the task instance: a UUIDv7 in text; the same in every attempt."""
        return self._port.task_id

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._port.number

    @property
    def tenant(self) -> str:
        """The tenant that the task belongs to."""
        return self._port.tenant

    @property
    def run_id(self) -> str:
        """Id of the workflow run that the task is a step of; empty when it stands alone."""
        return self._port.run_id

    @property
    def step_id(self) -> str:
        """Id of the step within its run; empty when the task stands alone."""
        return self._port.step_id

    @property
    def worker_id(self) -> str:
        """Id of the worker that runs this attempt."""
        return self._port.worker_id

    @property
    def run_timeout(self) -> float | None:
        """How long this attempt may run, in seconds from its start; None: no bound."""
        return self._port.run_timeout_s

    @property
    def completion_token(self) -> str:
        """What this attempt is completed with from outside, once its handler has returned `defer`.

        Give it to whoever brings the result. It is good for this attempt alone: the next one has another. It is no
        secret that opens anything: who completes needs a token of the tenant with the role operator all the same.
        """
        return f"{self._port.task_id}.{self._port.token}"

    @property
    def log(self) -> TaskLog:
        """The attempt's log."""
        return TaskLog(self._port)

    @property
    def artifacts(self) -> Artifacts:
        """Artifacts: bytes that are too large for an input or an output."""
        return Artifacts(self._port.artifacts)

    @property
    def last_checkpoint(self) -> Any:
        """What `checkpoint` stored last, in this attempt or else in an earlier one; None when nothing was stored."""
        text = self._port.stored_checkpoint
        return None if text is None else json.loads(text)

    @property
    def cancelled(self) -> bool:
        """True once the attempt must stop: cancelled, timed out, or the worker stops. For handlers in threads.

        An `async def` handler need not ask: `asyncio.CancelledError` is raised where it awaits.
        """
        return self._port.stopping

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Block the thread until the attempt must stop, at most `timeout` seconds; return whether it must.

        A handler in a thread uses it in place of `time.sleep`.
        """
        return self._port.wait_stopping(timeout)

    def raise_if_cancelled(self) -> None:
        """Raise TaskStopped once the attempt must stop. For handlers in threads, between two pieces of work."""
        if self._port.stopping:
            raise TaskStopped("the attempt was told to stop")

    def stream(self, text: str) -> Coroutine[Any, Any, None]:
        """Give out text as it comes, line ends or none: whoever watches the task sees it within a tenth of a second.

        `taskyard logs -f --stream output` prints it as it came. It counts as the attempt's log does, 10 MiB in all, and
        is not the task's output, which is what the handler returns.

        Args:
            text: What comes next; what belongs to a line may be given in pieces.

        Raises:
            NonRetryable: The handler is no `async def`: it calls `stream_sync`.
            TypeError: `text` is no text.
        """
        needs_await("stream")
        return self._stream(text)

    def stream_sync(self, text: str) -> None:
        """Do what `stream` does, from a thread."""
        given: object = text  # whatever its type says: it is joined with others where nobody could be told
        if not isinstance(given, str):
            raise TypeError(f"ctx.stream takes text, not {type(given).__name__}")
        if text:
            self._port.write_text(text)

    def progress(self, percent: float | None = None, message: str = "") -> Coroutine[Any, Any, None]:
        """Tell how far the work is. When told faster than it can be sent, the newest wins.

        Args:
            percent: 0 to 100, or None to say nothing about it.
            message: A line for people, cut at 1,000 characters.

        Raises:
            ValueError: `percent` is out of range.
            NonRetryable: The handler is no `async def`: it calls `progress_sync`.
        """
        needs_await("progress")
        return self._progress(percent, message)

    def progress_sync(self, percent: float | None = None, message: str = "") -> None:
        """Do what `progress` does, from a thread."""
        if percent is not None and not 0 <= percent <= 100:
            raise ValueError(f"progress is {percent!r}, but a percentage lies between 0 and 100")
        self._port.report_progress(percent, clean_text(message)[:MAX_PROGRESS_CHARACTERS])

    def checkpoint(self, value: Any) -> Coroutine[Any, Any, None]:
        """Store state that the next attempt finds in `last_checkpoint`; return once the scheduler has committed it.

        Args:
            value: Anything that JSON can hold, at most 256 KiB of it.

        Raises:
            InvalidInput: `value` is no JSON, or too large.
            NonRetryable: The handler is no `async def`: it calls `checkpoint_sync`.
        """
        needs_await("checkpoint")
        return self._checkpoint(value)

    def checkpoint_sync(self, value: Any) -> None:
        """Do what `checkpoint` does, from a thread.

        Raises:
            InvalidInput: `value` is no JSON, or too large.
            TaskStopped: The attempt was told to stop before the checkpoint was committed.
        """
        self._port.store_checkpoint_sync(checkpoint_text(value))

    def defer(self, timeout: float | timedelta | None = None) -> Deferral:
        """End the handler, and let the attempt's result come from outside: `return ctx.defer(timeout=3600)`.

        The task is DEFERRED then: it holds no slot, survives restarts of worker and scheduler, and ends when somebody
        completes it with `completion_token`. Works in every kind of handler. What it gives must be returned: a handler
        that returns something else fails, without a retry; one that raises fails as any other.

        Args:
            timeout: How long the result is waited for, in seconds or as a timedelta; then the attempt ends as TIMEOUT.
                None: 7 days. At most 30 days.

        Raises:
            ValueError: `timeout` is out of range.
        """
        self._port.deferral = deferral(timeout)
        return self._port.deferral

    async def _stream(self, text: str) -> None:
        self.stream_sync(text)

    async def _progress(self, percent: float | None, message: str) -> None:
        self.progress_sync(percent, message)

    async def _checkpoint(self, value: Any) -> None:
        await self._port.store_checkpoint(checkpoint_text(value))


def checkpoint_text(value: Any) -> str:
    """Return the checkpoint as JSON text, or raise InvalidInput."""
    try:
        text = to_json(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a checkpoint must be JSON: {error}") from error
    if size > MAX_CHECKPOINT_BYTES:
        raise InvalidInput(
            f"the checkpoint has {size} bytes of JSON, at most {MAX_CHECKPOINT_BYTES} fit; "
            "store the data elsewhere and keep its address here"
        )
    return text


def clean_text(text: str) -> str:
    """Return the text with what UTF-8 cannot carry (lone surrogates) replaced."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
