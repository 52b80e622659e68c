"""A scheduler under the test's control, at the worker's `Link`; a worker that runs against it; a handler that waits."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard.v1.workers_pb2 import (
    AppendLogsRequest,
    AppendLogsResponse,
    AssignTaskRequest,
    AssignTaskResponse,
    CancelAttempt,
    DeregisterRequest,
    DeregisterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LogChunkAck,
    RegisterRequest,
    RegisterResponse,
    TaskAssignment,
    TaskProgress,
    TaskResult,
)
from taskyard_worker import Context
from taskyard_worker.attempts import Attempt
from taskyard_worker.keys import KeyMemory, MemoryKeys
from taskyard_worker.link import LinkError
from taskyard_worker.outcome import Outcome, succeeded
from taskyard_worker.registry import TaskRegistry
from taskyard_worker.results import Spool
from taskyard_worker.runtime import Runtime, Storage
from taskyard_worker.session import Identity
from taskyard_worker.spool import MemorySpool
from taskyard_worker.threads import ThreadPool
from taskyard_worker.transfers import Transfers
from taskyard_worker.unsent import MemoryLogs, UnsentLogs
from taskyard_worker.work import Places

PATIENCE_S = 30.0

T = TypeVar("T")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Signal:
    """Lets a test wait until something is true, looked at whenever something has happened."""

    def __init__(self) -> None:
        self._happened = asyncio.Event()

    def __call__(self) -> None:
        self._happened.set()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                self._happened.clear()
                await self._happened.wait()


class Silent:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, /, **facts: object) -> None:
        self.events.append(("debug", event, facts))

    def info(self, event: str, /, **facts: object) -> None:
        self.events.append(("info", event, facts))

    def warning(self, event: str, /, **facts: object) -> None:
        self.events.append(("warning", event, facts))

    def error(self, event: str, /, **facts: object) -> None:
        self.events.append(("error", event, facts))

    def said(self, text: str) -> bool:
        return any(text in event for _, event, _ in self.events)


class FakeStream:
    """One stream: keeps what the worker sends, gives it what the test pushes."""

    def __init__(self, changed: Signal, *, acknowledge: bool) -> None:
        self.changed = changed
        self.acknowledge = acknowledge
        self.frames: list[AssignTaskRequest] = []
        self.closed = False
        self.sending = 0
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self._incoming: asyncio.Queue[AssignTaskResponse | LinkError | None] = asyncio.Queue()

    async def send(self, frame: AssignTaskRequest) -> None:
        self.sending += 1
        self.changed()
        await self.open_gate.wait()
        if self.closed:
            raise LinkError("CANCELLED", "", "closed")
        copy = AssignTaskRequest()
        copy.CopyFrom(frame)
        self.frames.append(copy)
        if self.acknowledge and copy.results:
            self.ack(*copy.results)
        self.changed()

    async def receive(self) -> AssignTaskResponse | None:
        item = await self._incoming.get()
        if isinstance(item, LinkError):
            raise item
        return item

    async def close(self) -> None:
        self.closed = True
        self._incoming.put_nowait(None)
        self.changed()

    def push(self, **parts: Any) -> None:
        self._incoming.put_nowait(AssignTaskResponse(**parts))

    def assign(self, *assignments: TaskAssignment) -> None:
        self.push(assignments=assignments)

    def ack(self, *results: TaskResult) -> None:
        frame = AssignTaskResponse()
        for result in results:
            frame.result_acks.add(task_id=result.task_id, attempt_token=result.attempt_token, outcome=1)
        self._incoming.put_nowait(frame)

    def fail(self, code: str, reason: str = "") -> None:
        self._incoming.put_nowait(LinkError(code, reason, f"{code} by the test"))

    def end(self) -> None:
        self._incoming.put_nowait(None)

    @property
    def results(self) -> list[TaskResult]:
        return [result for frame in self.frames for result in frame.results]

    @property
    def started(self) -> list[str]:
        return [ack.attempt_token for frame in self.frames for ack in frame.acknowledgements]

    @property
    def progress(self) -> list[TaskProgress]:
        return [part for frame in self.frames for part in frame.progress]

    @property
    def credits(self) -> int:
        return max((frame.credits for frame in self.frames), default=0)

    async def result(self, token: str) -> TaskResult:
        await self.changed.until(lambda: any(result.attempt_token == token for result in self.results))
        return next(result for result in self.results if result.attempt_token == token)

    async def until(self, true: Callable[[FakeStream], bool]) -> None:
        await self.changed.until(lambda: true(self))


class Answers(Generic[T]):
    """Answers to calls in order; the last one for ever. An error is raised."""

    def __init__(self, *answers: T | LinkError) -> None:
        self._answers: deque[T | LinkError] = deque(answers)

    def next(self) -> T:
        answer = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, LinkError):
            raise answer
        return answer


@dataclass
class FakeLink:
    """The scheduler's calls. `acknowledge`: acknowledge every result at once."""

    acknowledge: bool = True
    register_answers: Answers[RegisterResponse] = field(
        default_factory=lambda: Answers(
            RegisterResponse(accepted=True, heartbeat_interval_sec=10, session_epoch=1),
        )
    )
    heartbeat_answers: Answers[HeartbeatResponse] = field(default_factory=lambda: Answers(HeartbeatResponse(ok=True)))
    open_answers: Answers[bool] = field(default_factory=lambda: Answers(True))
    log_answers: Answers[bool] = field(default_factory=lambda: Answers(True))

    def __post_init__(self) -> None:
        self.changed = Signal()
        self.registrations: list[RegisterRequest] = []
        self.heartbeats: list[HeartbeatRequest] = []
        self.deregistrations: list[DeregisterRequest] = []
        self.log_calls: list[AppendLogsRequest] = []
        self.log_lines: dict[str, list[str]] = {}
        self.given_out: dict[str, str] = {}
        self.streams: list[FakeStream] = []
        self.renewals = 0

    async def renew(self) -> None:
        self.renewals += 1
        self.changed()

    async def register(self, request: RegisterRequest) -> RegisterResponse:
        self.registrations.append(request)
        self.changed()
        return self.register_answers.next()

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        self.heartbeats.append(request)
        self.changed()
        return self.heartbeat_answers.next()

    async def deregister(self, request: DeregisterRequest) -> DeregisterResponse:
        self.deregistrations.append(request)
        self.changed()
        return DeregisterResponse()

    async def append_logs(self, request: AppendLogsRequest) -> AppendLogsResponse:
        self.log_calls.append(request)
        self.changed()
        self.log_answers.next()
        acks = []
        for chunk in request.chunks:
            lines = self.log_lines.setdefault(chunk.attempt_token, [])
            for number, line in enumerate(chunk.lines, chunk.first_line):
                if number == len(lines):
                    lines.append(line.text)
                    if line.stream == "output":
                        said = self.given_out.get(chunk.attempt_token, "")
                        self.given_out[chunk.attempt_token] = said + line.text + ("" if line.partial else "\n")
            acks.append(LogChunkAck(attempt_token=chunk.attempt_token, next_line=len(lines)))
        return AppendLogsResponse(acks=acks)

    async def open_stream(self) -> FakeStream:
        self.open_answers.next()
        stream = FakeStream(self.changed, acknowledge=self.acknowledge)
        self.streams.append(stream)
        self.changed()
        return stream

    async def stream(self, number: int = 1) -> FakeStream:
        """Wait for the stream of that number to have said hello, from 1."""
        await self.changed.until(
            lambda: len(self.streams) >= number and bool(self.streams[number - 1].frames),
        )
        return self.streams[number - 1]


class InlineIsolation:
    """Isolated handlers run on the loop here; keeps the renewals."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.renewed: dict[str, float] = {}

    async def run(self, attempt: Attempt) -> Outcome:
        self.ran.append(attempt.token)
        value = attempt.handler.invoke(attempt)
        return succeeded(await value if isinstance(value, Awaitable) else value, attempt.deferral)

    def renew(self, token: str, left_s: float) -> None:
        self.renewed[token] = left_s


def assignment(token: str, task_type: str = "work", **fields: Any) -> TaskAssignment:
    values: dict[str, Any] = {
        "task_id": f"task-{token}",
        "attempt_token": token,
        "task_type": task_type,
        "attempt": 1,
        "timeout_ms": 3_600_000,
        "lease_ms": 60_000,
        "tenant": "default",
    }
    return TaskAssignment(**{**values, **fields})


def order(token: str, reason: str = "cancelled", grace_ms: int = 5000) -> CancelAttempt:
    return CancelAttempt(task_id=f"task-{token}", attempt_token=token, reason=reason, grace_ms=grace_ms)


def status(result: TaskResult) -> str:
    return TaskStatus.Name(result.status).removeprefix("TASK_STATUS_")


@dataclass
class Bench:
    """A running worker and the scheduler that it talks to."""

    link: FakeLink
    runtime: Runtime
    task: asyncio.Task[None]
    log: Silent
    isolation: InlineIsolation

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.task


@asynccontextmanager
async def working(
    registry: TaskRegistry,
    link: FakeLink | None = None,
    *,
    slots: int = 10,
    spool: Spool | None = None,
    keys: KeyMemory | None = None,
    logs: UnsentLogs | None = None,
    drain_grace_s: float = 5.0,
    reach_grace_s: float = 10.0,
    transfers: Transfers | None = None,
) -> AsyncIterator[Bench]:
    """Run a worker against a fake scheduler until the block ends."""
    link = link or FakeLink()
    threads, isolation, log = ThreadPool(slots), InlineIsolation(), Silent()
    runtime = Runtime(
        link=link,
        identity=Identity("worker-1", "host", 8080, tuple(handler.name for handler in registry) or ("none",), slots),
        registry=registry,
        storage=Storage(spool or MemorySpool(), keys or MemoryKeys(wall_ms), logs or MemoryLogs()),
        places=Places(threads, isolation, transfers),
        random=Random(1),
        wall=wall_ms,
        log=log,
        drain_grace_s=drain_grace_s,
        reach_grace_s=reach_grace_s,
        load=lambda: (0.5, 64),
    )
    task = asyncio.create_task(runtime.run(), name="worker under test")
    try:
        yield Bench(link, runtime, task, log, isolation)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
        threads.close()


def gated(registry: TaskRegistry, name: str = "work") -> tuple[asyncio.Event, Signal, list[str]]:
    """Registers a handler that waits for the event; tells who has entered."""
    gate, entered, tokens = asyncio.Event(), Signal(), []

    @registry.task(name)
    async def handler(ctx: Context) -> str:
        tokens.append(ctx.task_id)
        entered()
        await gate.wait()
        asyncio.get_running_loop().call_soon(entered)
        return "done"

    return gate, entered, tokens
