"""The process of one isolated attempt: `python -m taskyard_worker.isolated FD`. The child's side.

Gets its order as a JSON line on the socket FD, runs the handler in its main thread, and tells progress,
checkpoints and the result as JSON lines. What it prints goes to the attempt's log through its pipes. It ends
when the worker does.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from taskyard_worker.deferral import Deferral, returned
from taskyard_worker.errors import LoadError, NonRetryable, TaskStopped
from taskyard_worker.loader import function_from
from taskyard_worker.pipe_artifacts import PipeArtifacts
from taskyard_worker.registry import make_handler
from taskyard_worker.verdict import failure_text, handler_traceback, is_large, output_text, says_all

MAX_LOG_CHARACTERS = 1024 * 1024
"""A longer text is cut here already: a message has its limit too."""


class IsolatedAttempt:
    """The attempt as its handler sees it here: what it says goes through the socket. Implements `CallPort`."""

    def __init__(self, order: dict[str, Any], connection: socket.socket) -> None:
        self.task_id: str = order["task_id"]
        self.token: str = order["token"]
        self.number: int = order["attempt"]
        self.tenant: str = order["tenant"]
        self.run_id: str = order["run_id"]
        self.step_id: str = order["step_id"]
        self.worker_id: str = order["worker_id"]
        self.run_timeout_s: float | None = order["run_timeout_s"]
        self.stored_checkpoint: str | None = order["checkpoint"]
        self.deferral: Deferral | None = None
        self._input: dict[str, Any] = order["input"]
        self._flat = frozenset(order["flat"])
        self._connection = connection
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._waiting: deque[Callable[[], object]] = deque()
        self._answers: dict[int, Callable[[dict[str, Any]], object]] = {}
        self._asked = 0
        self.scratch = Path(order["scratch"]) if order["scratch"] else None

    @property
    def stopping(self) -> bool:
        """Whether SIGTERM has come."""
        return self._stopping.is_set()

    @property
    def artifacts(self) -> PipeArtifacts:
        """The way to artifacts. Raises NonRetryable where there is none."""
        if self.scratch is None:
            raise NonRetryable("this worker has no way to artifacts")
        return PipeArtifacts(self.ask, self.scratch)

    def stop(self) -> None:
        """Note that SIGTERM has come."""
        self._stopping.set()

    def wait_stopping(self, timeout: float | None) -> bool:
        """Block until SIGTERM comes, at most `timeout` seconds."""
        return self._stopping.wait(timeout)

    def input(self) -> dict[str, Any]:
        """Return the task's input."""
        return self._input

    def is_flat(self, name: str) -> bool:
        """Tell whether the input's value of this name is a flat parameter and no typed input."""
        return name in self._flat

    def write_log(self, level: str, text: str) -> None:
        """Append to the attempt's log."""
        self.say({"log": [level, text[:MAX_LOG_CHARACTERS]]})

    def write_text(self, text: str) -> None:
        """Give out text as it comes; a long one in parts, since a message has its limit."""
        for start in range(0, len(text), MAX_LOG_CHARACTERS):
            self.say({"text": text[start : start + MAX_LOG_CHARACTERS]})

    def report_progress(self, percent: float | None, message: str) -> None:
        """Tell the progress."""
        self.say({"progress": [percent, message]})

    async def store_checkpoint(self, text: str) -> None:
        """Return when the scheduler has committed the checkpoint."""
        loop = asyncio.get_running_loop()
        stored = asyncio.Event()
        self._checkpoint(text, lambda: loop.call_soon_threadsafe(stored.set))
        await stored.wait()

    def store_checkpoint_sync(self, text: str) -> None:
        """Block until the scheduler has committed the checkpoint."""
        stored = threading.Event()
        self._checkpoint(text, stored.set)
        stored.wait()

    def _checkpoint(self, text: str, stored: Callable[[], object]) -> None:
        with self._lock:
            self.stored_checkpoint = text
            self._waiting.append(stored)
            self._send({"checkpoint": text})

    def say(self, message: dict[str, Any]) -> None:
        """Send one message."""
        with self._lock:
            self._send(message)

    def listen(self, lines: Iterable[str]) -> None:
        """Let those go on whose checkpoint is stored, in order, or whose question is answered; end with the worker."""
        for line in lines:
            message = json.loads(line)
            if "answer" in message:
                self._answers.pop(message["answer"])(message)
            else:
                self._waiting.popleft()()
        os.killpg(0, signal.SIGKILL)

    def ask(self, question: dict[str, Any], answered: Callable[[dict[str, Any]], object]) -> None:
        """Have the worker carry an artifact. `answered` is called in the thread that listens."""
        with self._lock:
            self._asked += 1
            self._answers[self._asked] = answered
            self._send({"artifact": {"number": self._asked, **question}})

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")


def run_handler(order: dict[str, Any], attempt: IsolatedAttempt) -> dict[str, Any]:
    """Run the handler and return the last message."""
    try:
        handler = make_handler(order["task_type"], function_from(order["source"]))
        value = call(handler.invoke, attempt)
        deferral = returned(value, attempt.deferral)
        return told(output_text(value), attempt) if deferral is None else {"deferred": deferral.timeout_ms}
    except LoadError as error:
        return {"error": str(error), "kind": NonRetryable.kind}
    except BaseException as error:  # whatever it is, the worker is told
        if attempt.stopping:
            return {"stopped": True}
        if not says_all(error):
            attempt.write_log("ERROR", handler_traceback(error))
        text, kind = failure_text(error)
        return {"error": text, "kind": kind}


def told(output: str, attempt: IsolatedAttempt) -> dict[str, Any]:
    """Return the last message of a handler that returned: a large output goes into a file."""
    if attempt.scratch is None or not is_large(output):
        return {"output": output}
    path = attempt.scratch / "output.json"
    path.write_text(output, encoding="utf-8")
    return {"output_file": str(path)}


def call(invoke: Any, attempt: IsolatedAttempt) -> Any:
    """Call the handler, and run what it returns when that is a coroutine. SIGTERM stops it politely."""

    def raise_stopped(number: int, frame: FrameType | None) -> None:
        attempt.stop()
        raise TaskStopped("the attempt was told to stop")

    signal.signal(signal.SIGTERM, raise_stopped)
    try:
        result = invoke(attempt)
        if asyncio.iscoroutine(result):
            return asyncio.run(run_async(result, attempt))
        return result
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def run_async(coroutine: Any, attempt: IsolatedAttempt) -> Any:
    """Await the handler as a task that SIGTERM cancels."""
    task = asyncio.ensure_future(coroutine)

    def stop() -> None:
        attempt.stop()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    return await task


def main() -> None:
    """Do what the order says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's interrupt is the worker's to handle
    connection = socket.socket(fileno=int(sys.argv[1]))
    lines = connection.makefile("r", encoding="utf-8")
    first = lines.readline()
    if not first:
        return  # the worker died before it could say anything
    order = json.loads(first)
    sys.path[:] = order["path"]
    attempt = IsolatedAttempt(order, connection)
    threading.Thread(target=attempt.listen, args=(lines,), name="listener", daemon=True).start()
    last = run_handler(order, attempt)
    sys.stdout.flush()
    sys.stderr.flush()
    attempt.say(last)
    os._exit(0)


if __name__ == "__main__":
    main()
