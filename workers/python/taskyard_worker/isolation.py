"""Runs isolated handlers, each attempt in a process of its own that can be killed. The worker's side.

The child's side is `isolated`; both speak in JSON lines over a socket pair.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED, TASK_STATUS_SUCCESS
from taskyard_worker.artifacts import Outgoing
from taskyard_worker.attempts import Attempt
from taskyard_worker.errors import TaskStopped, WorkerError
from taskyard_worker.loader import source_of
from taskyard_worker.outcome import STOPPED, Outcome, deferred
from taskyard_worker.output import OutputReader
from taskyard_worker.processes import Child, ProcessHost
from taskyard_worker.supervisor import boot_ms
from taskyard_worker.verdict import HANDLER_ERROR, cut, failure_text, own_text

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
EXIT_S = 5.0
"""How long a child may take to exit once it has told its result."""
OUTPUT_LEFT_S = 1.0

HIDDEN = ("TASKYARD_TOKEN", "TASKYARD_SECRET", "TASKYARD_LLM_API_KEY")
"""Of the worker's environment, what no process of an attempt gets."""


class ProcessIsolation:
    """Runs handlers in processes.

    Args:
        host: Starts the processes.
        environ: The worker's environment; handlers see it without the worker's token.
    """

    def __init__(self, host: ProcessHost, environ: Mapping[str, str]) -> None:
        self._host = host
        self._env = {name: value for name, value in environ.items() if name not in HIDDEN}
        self._env["PYTHONUNBUFFERED"] = "1"

    def renew(self, token: str, left_s: float) -> None:
        """Kill the exclusive attempt 5 s before its lease ends, which is in `left_s` seconds."""
        self._host.leases.renew(token, boot_ms() + int(left_s * 1000))

    async def run(self, attempt: Attempt) -> Outcome:
        """Run the attempt's handler in a process of its own; when cancelled, end the process first.

        Raises:
            InvalidInput: The task's input is no JSON object.
        """
        order = order_for(attempt)
        ours, theirs = socket.socketpair()
        try:
            child = await self._host.start(
                (sys.executable, "-m", "taskyard_worker.isolated", str(theirs.fileno())),
                token=attempt.token,
                env=self._env,
                pass_fds=(theirs.fileno(),),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            async with connected(ours) as (reader, writer):
                return await attend(attempt, child, Conversation(attempt, child, reader, writer), order)
        finally:
            child.kill()
            child.forget()
            if order["scratch"]:
                shutil.rmtree(order["scratch"], ignore_errors=True)
            self._host.leases.forget(attempt.token)


@asynccontextmanager
async def connected(ours: socket.socket) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Read and write the socket as streams; closed at the end."""
    try:
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
    except BaseException:
        ours.close()
        raise
    try:
        yield reader, writer
    finally:
        writer.close()


async def attend(attempt: Attempt, child: Child, talk: Conversation, order: dict[str, Any]) -> Outcome:
    """Hold the conversation to its end, also while the child is being stopped."""
    task = asyncio.create_task(talk.hold(order), name=f"process of {attempt.task_id}")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if attempt.stop is None:
            raise
        child.terminate()
        await asyncio.wait((task,), timeout=attempt.stop.grace_s)
        child.kill()
        return await task
    finally:
        if not task.done():
            child.kill()
            task.cancel()
            await asyncio.wait((task,), timeout=EXIT_S)


class Conversation:
    """What is said with one child."""

    def __init__(
        self, attempt: Attempt, child: Child, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._attempt = attempt
        self._child = child
        self._reader = reader
        self._writer = writer
        self._outcome: Outcome | None = None
        self._output_file: Path | None = None
        self._transfers: list[asyncio.Task[None]] = []

    async def hold(self, order: dict[str, Any]) -> Outcome:
        """Tell the child its work, serve it, and return how it ended."""
        async with asyncio.TaskGroup() as group:
            output = [
                group.create_task(OutputReader(partial(self._attempt.write_output, name)).read(pipe), name=name)
                for name, pipe in (("stdout", self._child.stdout), ("stderr", self._child.stderr))
            ]
            self._say(order)
            while line := await self._reader.readline():
                self._hear(json.loads(line), group)
            code = await self._exit_code()
            await asyncio.wait(output, timeout=OUTPUT_LEFT_S)
            for task in (*output, *self._transfers):
                task.cancel()
        if self._output_file is not None and self._attempt.host.transfers is not None:
            return await self._attempt.host.transfers.stored_output(self._attempt, self._output_file)
        return self._outcome or died(code)

    async def _exit_code(self) -> int:
        try:
            async with asyncio.timeout(EXIT_S):
                await self._child.exited()
        except TimeoutError:
            self._child.kill()
        return await self._child.wait()

    def _hear(self, message: dict[str, Any], group: asyncio.TaskGroup) -> None:
        attempt = self._attempt
        if "log" in message:
            attempt.write_log(*message["log"])
        elif "text" in message:
            attempt.write_text(message["text"])
        elif "progress" in message:
            attempt.report_progress(*message["progress"])
        elif "checkpoint" in message:
            group.create_task(self._checkpoint(message["checkpoint"]), name="checkpoint")
        elif "artifact" in message:
            task = group.create_task(self._transfer(**message["artifact"]), name="artifact")
            self._transfers.append(task)
            task.add_done_callback(self._transfers.remove)
        elif "output_file" in message:
            self._output_file = Path(message["output_file"])
        else:
            self._outcome = outcome_in(message)

    async def _checkpoint(self, text: str) -> None:
        await self._attempt.store_checkpoint(text)
        self._say({"stored": True})

    async def _transfer(self, number: int, path: str, id: str = "", name: str = "", media_type: str = "") -> None:
        """Upload the file, or download the artifact `id` to it."""
        try:
            if id:
                await self._fetch(id, Path(path))
            else:
                id = await self._attempt.artifacts.upload(Outgoing(Path(path), name, media_type))
            self._say({"answer": number, "id": id})
        except (WorkerError, OSError) as error:
            kind = "STOPPED" if isinstance(error, TaskStopped) else failure_text(error)[1]
            self._say({"answer": number, "error": own_text(error), "kind": kind})

    async def _fetch(self, id: str, path: Path) -> None:
        with path.open("wb") as file:
            async with aclosing(self._attempt.artifacts.download(id)) as chunks:
                async for chunk in chunks:
                    await asyncio.to_thread(file.write, chunk)

    def _say(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")


def order_for(attempt: Attempt) -> dict[str, Any]:
    """Return what a child is told to do."""
    return {
        "path": sys.path,
        "directory": os.getcwd(),
        "source": source_of(attempt.handler.function),
        "task_type": attempt.handler.name,
        "task_id": attempt.task_id,
        "token": attempt.token,
        "attempt": attempt.number,
        "tenant": attempt.tenant,
        "run_id": attempt.run_id,
        "step_id": attempt.step_id,
        "worker_id": attempt.worker_id,
        "run_timeout_s": attempt.run_timeout_s,
        "checkpoint": attempt.stored_checkpoint,
        "scratch": scratch_of(attempt),
        "input": attempt.input(),
        "flat": attempt.flat_names(),
    }


def scratch_of(attempt: Attempt) -> str:
    """Make a folder for the files of one attempt; empty where there are no artifacts."""
    transfers = attempt.host.transfers
    return tempfile.mkdtemp(dir=transfers.scratch) if transfers is not None else ""


def outcome_in(message: dict[str, Any]) -> Outcome:
    """Return how the handler ended, as the child's last message says."""
    if "output" in message:
        return Outcome(TASK_STATUS_SUCCESS, message["output"])
    if "deferred" in message:
        return deferred(message["deferred"])
    if "error" in message:
        return Outcome(TASK_STATUS_FAILED, error=cut(message["error"]), kind=message["kind"])
    return STOPPED


def died(code: int) -> Outcome:
    """Return the outcome of a process that ended without a word."""
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by signal {-code}"
    return Outcome(
        TASK_STATUS_FAILED, error=f"the handler's process {how} before the handler returned", kind=HANDLER_ERROR
    )
