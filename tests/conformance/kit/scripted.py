"""A scheduler that does what a scenario says: plays WorkerService on a real port and keeps what the worker said.

Checks at any moment what holds in every scenario: credits, frames, tokens, sessions. Not the steps: those are `steps`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from conformance.kit.answers import abort
from conformance.kit.artifact_store import ArtifactStore
from conformance.kit.seen import Seen, breach_of_frame, breach_of_progress, breach_of_result, status_name
from conformance.kit.unmet import Changes
from taskyard.v1.artifacts_pb2_grpc import add_ArtifactServiceServicer_to_server
from taskyard.v1.workers_pb2 import (
    RESULT_OUTCOME_RECORDED,
    AppendLogsRequest,
    AppendLogsResponse,
    AssignTaskRequest,
    AssignTaskResponse,
    DeregisterRequest,
    DeregisterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LogChunk,
    LogChunkAck,
    RegisterRequest,
    RegisterResponse,
    ReportResultsResponse,
    ResultAck,
    ResultOutcome,
    TaskResult,
)
from taskyard.v1.workers_pb2_grpc import WorkerServiceServicer, add_WorkerServiceServicer_to_server
from taskyard_service.health import Health

LIMIT = 16 * 1024 * 1024
LATE_S = 60.0
"""How long a late answer is kept back at most: longer than any worker waits for it."""
UNKNOWN_FIELD = b"\xa2\xe4\x03\x05later"
"""Field 7,748 of any message, a text: what a later version of the contract may send."""


@dataclass(slots=True)
class Refusal:
    """How a call is refused. `times`: how often; below 0: until told otherwise."""

    code: str
    reason: str
    times: int


@dataclass(slots=True)
class Settings:
    """How the scheduler behaves until a scenario changes it."""

    heartbeat_s: int = 1
    accepted: bool = True
    message: str = ""
    acks: bool = True
    checkpoint_acks: bool = True
    ok: bool = True
    deaf: bool = False
    late_heartbeats: bool = False
    unknown_fields: bool = False
    clock_skew_s: int = 0
    log_room: int = -1
    log_forgets: int = 0


@dataclass(slots=True)
class Stream:
    """One stream of the worker: what it may be sent, and what was."""

    number: int
    outgoing: asyncio.Queue[AssignTaskResponse | tuple[str, str] | None] = field(default_factory=asyncio.Queue)
    credits: int = 0
    sent: int = 0
    held: tuple[str, ...] = ()
    open: bool = True


class ScriptedScheduler(WorkerServiceServicer):
    """Keeps what the worker says in the order in which it came.

    Args:
        changed: Told of everything that comes.
        token: The bearer token that every call must carry.
    """

    def __init__(self, changed: Changes, token: str) -> None:
        self.changed = changed
        self.settings = Settings()
        self.refusals: dict[str, Refusal] = {}
        self.registrations: list[RegisterRequest] = []
        self.heartbeats: list[HeartbeatRequest] = []
        self.deregistrations: list[DeregisterRequest] = []
        self.streams: list[Stream] = []
        self.attempts: dict[str, Seen] = {}
        self.lost: set[str] = set()
        self.draining = False
        self.breaches: list[str] = []
        self.story: list[str] = []
        self.artifacts = ArtifactStore(self)
        self._began = time.monotonic()
        self._token = token
        self._server: grpc.aio.Server | None = None

    # --- its life --------------------------------------------------------------------------------

    async def start(self) -> int:
        """Serves on a free port of loopback; returns it."""
        self._server = grpc.aio.server(
            options=[("grpc.max_receive_message_length", LIMIT), ("grpc.max_send_message_length", LIMIT),
                     ("grpc.http2.min_ping_interval_without_data_ms", 1000)]
        )  # fmt: skip
        add_WorkerServiceServicer_to_server(self, self._server)
        add_ArtifactServiceServicer_to_server(self.artifacts, self._server)
        health = Health(("taskyard.v1.WorkerService", "taskyard.v1.ArtifactService"))
        health.register(self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return port

    async def close(self) -> None:
        """Ends every call."""
        for stream in self.streams:
            stream.outgoing.put_nowait(None)
        if self._server is not None:
            await self._server.stop(0)

    def note(self, text: str) -> None:
        """Adds to the story that is printed with -v, and wakes who waits."""
        self.story.append(f"{time.monotonic() - self._began:7.2f}  {text}")
        self.changed()

    def breach(self, text: str) -> None:
        """Notes that the worker broke a rule."""
        if text:
            self.breaches.append(text)
            self.note(f"RULE BROKEN: {text}")

    # --- what scenarios tell it ------------------------------------------------------------------

    @property
    def stream(self) -> Stream | None:
        """The open stream."""
        return self.streams[-1] if self.streams and self.streams[-1].open else None

    @property
    def epoch(self) -> int:
        """Number of the newest session."""
        return len(self.registrations)

    def push(self, **parts: Any) -> None:
        """Sends a frame on the open stream; without one it is lost, as with a real scheduler."""
        stream = self.stream
        if stream is not None:
            frame = AssignTaskResponse(**parts)
            stream.sent += len(frame.assignments)
            stream.outgoing.put_nowait(frame)

    def assign(self, attempts: Iterable[Seen], again: bool = False) -> None:
        """Sends assignments in one frame. `again`: they were sent before, and take no new credit."""
        given = list(attempts)
        for each in given:
            self.attempts[each.token] = each
        self.push(assignments=[each.assignment for each in given])
        if again and self.stream is not None:
            self.stream.sent -= len(given)
        self.note(f"assigned {names(each.name for each in given)}")

    def now_ms(self) -> int:
        """The scheduler's clock, which may be wrong."""
        return int((time.time() + self.settings.clock_skew_s) * 1000)

    def ack(self, results: Iterable[TaskResult], outcome: ResultOutcome.ValueType = RESULT_OUTCOME_RECORDED) -> None:
        """Acknowledges results."""
        self.push(result_acks=acks_of(results, outcome))

    def name_of(self, token: str) -> str:
        """Returns the scenario's name of an attempt."""
        seen = self.attempts.get(token)
        return seen.name if seen else f"an attempt that was never assigned ({token[:40]!r})"

    # --- calls -----------------------------------------------------------------------------------

    async def _enter(self, method: str, context: Any) -> None:
        shown = dict(context.invocation_metadata()).get("authorization")
        if shown != f"Bearer {self._token}":
            self.breach(f"{method} came without the token: `authorization` must be `Bearer` and $TASKYARD_TOKEN")
        refusal = self.refusals.get(method) or self.refusals.get("all")
        if refusal is not None and refusal.times:
            refusal.times -= 1
            self.note(f"{method} was answered {refusal.code} {refusal.reason}")
            await abort(context, refusal.code, refusal.reason)

    def _same_session(self, method: str, request: Any) -> None:
        if request.session_epoch != self.epoch:
            self.breach(f"{method} named session {request.session_epoch}, but the newest is {self.epoch}")

    def _answer(self, message: Any) -> Any:
        if self.settings.unknown_fields:
            message.MergeFromString(UNKNOWN_FIELD)
        return message

    async def Register(self, request: RegisterRequest, context: Any) -> RegisterResponse:
        await self._enter("Register", context)
        self.registrations.append(request)
        self.note(f"registered for the {len(self.registrations)}. time, {request.max_concurrency} slots")
        settings = self.settings
        answer = RegisterResponse(
            accepted=settings.accepted,
            message=settings.message,
            heartbeat_interval_sec=settings.heartbeat_s,
            session_epoch=self.epoch,
        )
        return self._answer(answer)  # type: ignore[no-any-return]

    async def Heartbeat(self, request: HeartbeatRequest, context: Any) -> HeartbeatResponse:
        await self._enter("Heartbeat", context)
        self._same_session("Heartbeat", request)
        self.heartbeats.append(request)
        self.note(f"heartbeat with {names(map(self.name_of, request.attempt_tokens)) or 'nothing'}")
        if self.settings.deaf:
            await asyncio.Event().wait()
        if self.settings.late_heartbeats:
            await self._superseded(request.session_epoch, context)
        lost = [token for token in request.attempt_tokens if token in self.lost]
        return self._answer(HeartbeatResponse(ok=self.settings.ok, lost_tokens=lost))  # type: ignore[no-any-return]

    async def _superseded(self, epoch: int, context: Any) -> None:
        await self.changed.until(lambda: self.epoch > epoch, LATE_S, lambda: "no newer session was made")
        self.note(f"a heartbeat of session {epoch} was answered SESSION_SUPERSEDED, late")
        await abort(context, "ABORTED", "SESSION_SUPERSEDED")

    async def Deregister(self, request: DeregisterRequest, context: Any) -> DeregisterResponse:
        await self._enter("Deregister", context)
        self._same_session("Deregister", request)
        self.deregistrations.append(request)
        self.note("deregistered")
        return DeregisterResponse()

    async def ReportResults(self, request: Any, context: Any) -> ReportResultsResponse:
        await self._enter("ReportResults", context)
        self._results(request.results)
        return ReportResultsResponse(result_acks=acks_of(request.results))

    async def AppendLogs(self, request: AppendLogsRequest, context: Any) -> AppendLogsResponse:
        await self._enter("AppendLogs", context)
        acks = [self._chunk(chunk) for chunk in request.chunks]
        if len(request.chunks) > 1000 or request.ByteSize() > 4 * 1024 * 1024:
            self.breach("AppendLogs had more than 1,000 chunks or 4 MiB")
        self.changed()
        return AppendLogsResponse(acks=acks)

    def _chunk(self, chunk: LogChunk) -> LogChunkAck:
        seen = self.attempts.get(chunk.attempt_token)
        if seen is None:
            self.breach(f"log lines came of {self.name_of(chunk.attempt_token)}")
            return LogChunkAck(attempt_token=chunk.attempt_token, closed=True)
        seen.log_calls += 1
        seen.log_deaf += seen.log_closed
        if seen.log_deaf > 1:
            self.breach(f"the worker went on sending log lines of {seen.name} after its log was closed")
        if chunk.first_line > len(seen.lines):
            self.breach(
                f"log lines of {seen.name} came from number {chunk.first_line} on, but {len(seen.lines)} comes next"
            )
        new = [line.text for line in chunk.lines[max(0, len(seen.lines) - chunk.first_line) :]]
        settings = self.settings
        if settings.log_forgets and len(seen.lines) + len(new) > settings.log_forgets:
            new = new[: settings.log_forgets - len(seen.lines)]
            settings.log_forgets = 0
        seen.lines += new
        full = seen.log_closed = 0 <= settings.log_room <= len(seen.lines)
        self.note(f"{len(chunk.lines)} log lines of {seen.name} from {chunk.first_line} on")
        return LogChunkAck(attempt_token=chunk.attempt_token, next_line=len(seen.lines), closed=full)

    # --- the stream ------------------------------------------------------------------------------

    async def AssignTask(self, request_iterator: Any, context: Any) -> AsyncIterator[AssignTaskResponse]:
        await self._enter("AssignTask", context)
        stream = Stream(len(self.streams) + 1)
        reading = asyncio.create_task(self._read(request_iterator, stream), name="frames of the worker")
        try:
            while (frame := await stream.outgoing.get()) is not None:
                if isinstance(frame, tuple):
                    stream.open = False
                    await abort(context, *frame)
                else:
                    yield self._answer(frame)
        finally:
            reading.cancel()
            await asyncio.wait((reading,))
            self._ended(stream)

    def _ended(self, stream: Stream) -> None:
        if stream.open:
            stream.open = False
            self.note(f"stream {stream.number} ended")

    async def _read(self, frames: Any, stream: Stream) -> None:
        first = True
        async for frame in frames:
            self.breach(breach_of_frame(frame, first))
            if first:
                self._hello(frame, stream)
            self._frame(frame, stream)
            first = False
        stream.outgoing.put_nowait(None)

    def _hello(self, frame: AssignTaskRequest, stream: Stream) -> None:
        for older in self.streams:
            older.outgoing.put_nowait(None)
            older.open = False
        hello = frame.hello
        self._same_session("the hello", hello)
        tokens = {each.attempt_token for each in hello.attempts}
        for seen in self.attempts.values():
            seen.released = seen.released or seen.token not in tokens
            seen.uncertain = True
        stream.held = tuple(sorted(self.name_of(token) for token in tokens))
        self.streams.append(stream)
        stream.number = len(self.streams)
        self.note(f"stream {stream.number} began, held: {names(stream.held) or 'nothing'}")

    def _frame(self, frame: AssignTaskRequest, stream: Stream) -> None:
        for ack in frame.acknowledgements:
            if (seen := self._known(ack.attempt_token, "a start")) is not None:
                seen.starts += 1
                seen.uncertain = False
                self.note(f"start of {seen.name}")
        for progress in frame.progress:
            self._progress(progress)
        self._results(frame.results)
        if frame.results and self.settings.acks:
            self.ack(frame.results)
        if frame.draining and not self.draining:
            self.draining = True
            self.note("draining")
        if frame.credits:
            self._credits(frame.credits, stream)

    def _known(self, token: str, what: str) -> Seen | None:
        seen = self.attempts.get(token)
        if seen is None:
            self.breach(f"{what} was reported of {self.name_of(token)}")
        return seen

    def _progress(self, progress: Any) -> None:
        seen = self._known(progress.attempt_token, "progress")
        if seen is None:
            return
        self.breach(breach_of_progress(seen, progress))
        seen.progress.append(progress)
        self.note(f"progress of {seen.name}: {progress.percent:g} % {progress.message!r} {progress.checkpoint[:60]}")
        if progress.HasField("checkpoint") and self.settings.checkpoint_acks:
            self.commit(seen, progress.checkpoint_number)

    def commit(self, seen: Seen, number: int) -> None:
        """Acknowledges a checkpoint."""
        self.push(
            checkpoint_acks=[
                {"task_id": seen.assignment.task_id, "attempt_token": seen.token, "checkpoint_number": number}
            ]
        )

    def _results(self, results: Iterable[TaskResult]) -> None:
        for result in results:
            if (seen := self._known(result.attempt_token, "a result")) is None:
                continue
            self.breach(breach_of_result(seen, result))
            seen.results.append(result)
            shown = f"{status_name(result.status)} {result.error_kind} {result.output_json[:60]}"
            self.note(f"result of {seen.name}: {shown}")

    def _credits(self, total: int, stream: Stream) -> None:
        if total < stream.credits:
            self.breach(f"credits fell from {stream.credits} to {total}; the total of a stream only grows")
        stream.credits = max(stream.credits, total)
        slots = self.registrations[-1].max_concurrency if self.registrations else 0
        free = slots - sum(each.held for each in self.attempts.values())
        if total - stream.sent > free:
            self.breach(f"credits allow {total - stream.sent} more tasks, but of {slots} slots only {free} are free")
        self.note(f"credits: {total} in all, {stream.sent} sent")


def acks_of(
    results: Iterable[TaskResult], outcome: ResultOutcome.ValueType = RESULT_OUTCOME_RECORDED
) -> list[ResultAck]:
    """Returns the acknowledgements of results."""
    return [ResultAck(task_id=each.task_id, attempt_token=each.attempt_token, outcome=outcome) for each in results]


def names(given: Iterable[str]) -> str:
    """Returns names in one line, shortened when they are many."""
    listed = list(given)
    return ", ".join(listed) if len(listed) <= 8 else f"{', '.join(listed[:3])} and {len(listed) - 3} more"
