"""Who is cancelled ends, also when what it awaits takes the cancellation for its own; and the worker ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from worker_fakes import PATIENCE_S, FakeLink, FakeStream, assignment, gated, working
from worker_grpc_scheduler import GrpcScheduler, serving

from taskyard.v1.workers_pb2 import (
    AppendLogsRequest,
    AppendLogsResponse,
    AssignTaskRequest,
    AssignTaskResponse,
    DeregisterRequest,
    DeregisterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    Hello,
    RegisterRequest,
    RegisterResponse,
)
from taskyard_worker import Context, TaskRegistry, session
from taskyard_worker.grpc_link import GrpcLink, GrpcStream
from taskyard_worker.loops import Loops, end

# --- calls that end in the moment in which who waits for them is cancelled --------------------------


def rpc_error(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "ended")


class Swallowing:
    """A call, unary or a stream, that waits, takes one cancellation for its own, and then ends in some way."""

    def __init__(self, ending: object) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self._ending = ending

    async def __call__(self, *values: object, **options: object) -> Any:
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        if isinstance(self._ending, BaseException):
            raise self._ending
        return self._ending

    read = write = __call__

    def cancel(self) -> None: ...


ENDINGS = [
    None,
    grpc.aio.EOF,
    AssignTaskResponse(drain=True),
    rpc_error(grpc.StatusCode.UNAVAILABLE),
    rpc_error(grpc.StatusCode.OK),
    asyncio.InvalidStateError("the call is over"),
    asyncio.CancelledError("the call's own"),
]


def waits_for_a_call(name: str, call: Swallowing) -> Callable[[], Awaitable[object]]:
    """Return what waits for the call."""
    stream = GrpcStream(cast(Any, call))
    link = GrpcLink("127.0.0.1:1", "", Random(1))
    link._stub = SimpleNamespace(Register=call, Heartbeat=call, Deregister=call, AppendLogs=call)
    return {
        "receive": stream.receive,
        "send": lambda: stream.send(AssignTaskRequest()),
        "register": lambda: link.register(RegisterRequest()),
        "heartbeat": lambda: link.heartbeat(HeartbeatRequest()),
        "deregister": lambda: link.deregister(DeregisterRequest()),
        "append_logs": lambda: link.append_logs(AppendLogsRequest()),
    }[name]


CALLS = ["receive", "send", "register", "heartbeat", "deregister", "append_logs"]


@pytest.mark.parametrize("ending", ENDINGS, ids=repr)
@pytest.mark.parametrize("name", CALLS)
async def test_however_a_call_ends_who_is_cancelled_meanwhile_is_cancelled(name: str, ending: object) -> None:
    call = Swallowing(ending)
    wait = waits_for_a_call(name, call)
    waiting = asyncio.ensure_future(wait())
    await call.entered.wait()
    waiting.cancel()
    await asyncio.wait((waiting,), timeout=PATIENCE_S)
    assert waiting.cancelled()


@pytest.mark.parametrize("name", CALLS)
async def test_a_time_limit_ends_a_call_that_takes_it_for_its_own_end(name: str) -> None:
    wait = waits_for_a_call(name, Swallowing(None))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await wait()


@pytest.mark.parametrize("name", CALLS)
async def test_a_cancellation_from_before_a_call_does_not_end_it(name: str) -> None:
    call = Swallowing(None)
    wait = waits_for_a_call(name, call)
    done: list[bool] = []

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            call.release.set()
            await wait()
            done.append(True)

    cleaning = asyncio.ensure_future(cleans_up())
    await asyncio.sleep(0)
    cleaning.cancel()
    await asyncio.wait((cleaning,), timeout=PATIENCE_S)
    assert done == [True]


async def test_the_end_of_an_idle_stream_does_not_hide_a_cancellation() -> None:
    scheduler = GrpcScheduler()
    async with serving(scheduler) as port:
        link = GrpcLink(f"127.0.0.1:{port}", "", Random(1))
        stream = await link.open_stream()
        await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
        await scheduler.connected()
        receiving = asyncio.ensure_future(stream.receive())

        def has_ended(call: object) -> None:  # and nobody knows it yet
            receiving.cancel()

        stream._call.add_done_callback(has_ended)
        scheduler.end_stream()
        await asyncio.wait((receiving,), timeout=PATIENCE_S)
        assert receiving.cancelled()
        await link.close()


# --- loops ------------------------------------------------------------------------------------------


async def swallows(cancels: int, seen: list[int]) -> None:
    while len(seen) <= cancels:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(1)


@pytest.mark.parametrize("cancels", [0, 1, 3])
async def test_loops_cancel_again_whoever_lost_a_cancellation(cancels: int) -> None:
    loops, seen = Loops(again_s=0.01), list[int]()

    async def ends() -> None:
        await asyncio.sleep(0)

    loops.add("swallows", lambda: swallows(cancels, seen))
    loops.add("ends", ends)
    async with asyncio.timeout(PATIENCE_S):
        await loops.run()
    assert len(seen) == cancels + 1


async def test_whoever_never_ends_is_left_and_told() -> None:
    seen: list[int] = []
    stubborn = asyncio.ensure_future(swallows(2, seen))
    await asyncio.sleep(0)
    assert await end((stubborn,), 0.01, 2) == {stubborn}
    assert await end((stubborn,), 0.01, 2) == set()
    assert await end((stubborn,), 0.01, 2) == set()
    assert len(seen) == 3


# --- the worker -------------------------------------------------------------------------------------


class Deaf:
    """Takes a link's calls of one name, and waits in them; takes the first cancellation for the end of the call."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entered = asyncio.Event()
        self.swallowed = 0

    async def listen(self, name: str) -> None:
        if name != self.name or self.swallowed:
            return
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.swallowed += 1


class DeafStream(FakeStream):
    deaf: Deaf

    async def send(self, frame: AssignTaskRequest) -> None:
        await self.deaf.listen("hello" if frame.HasField("hello") else "send")
        await super().send(frame)

    async def receive(self) -> AssignTaskResponse | None:
        await self.deaf.listen("receive")
        return await super().receive()


class DeafLink(FakeLink):
    deaf: Deaf

    async def register(self, request: RegisterRequest) -> RegisterResponse:
        await self.deaf.listen("register")
        return await super().register(request)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        await self.deaf.listen("heartbeat")
        return await super().heartbeat(request)

    async def append_logs(self, request: AppendLogsRequest) -> AppendLogsResponse:
        await self.deaf.listen("append_logs")
        return await super().append_logs(request)

    async def deregister(self, request: DeregisterRequest) -> DeregisterResponse:
        await self.deaf.listen("deregister")
        return await super().deregister(request)

    async def open_stream(self) -> FakeStream:
        await self.deaf.listen("open_stream")
        self.open_answers.next()
        stream = DeafStream(self.changed, acknowledge=self.acknowledge)
        stream.deaf = self.deaf
        if self.deaf.name in ("send", "append_logs"):
            stream.assign(assignment("a"))
        self.streams.append(stream)
        return stream


POINTS = ["register", "open_stream", "hello", "receive", "send", "heartbeat", "append_logs", "deregister"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_ends_wherever_a_cancellation_is_lost(registry: TaskRegistry, point: str) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> None:
        ctx.log.info("a line")

    link = DeafLink()
    link.deaf = Deaf(point)
    async with working(registry, link) as bench:
        if point in ("heartbeat", "deregister"):
            await link.changed.until(lambda: bool(link.registrations))
        if point == "heartbeat":
            bench.runtime.session.beat_now()
        if point == "deregister":
            bench.runtime.drain()
        async with asyncio.timeout(PATIENCE_S):
            await link.deaf.entered.wait()
        bench.task.cancel()
        await asyncio.wait((bench.task,), timeout=5)
        assert bench.task.done()
        assert link.deaf.swallowed == 1


class GoodbyeLink(FakeLink):
    """Ends the stream as soon as it hears the goodbye, and answers that once the worker has seen the end."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = asyncio.Event()

    async def deregister(self, request: DeregisterRequest) -> DeregisterResponse:
        self.streams[-1].end()
        await self.seen.wait()
        for _ in range(10):  # in which the worker would open another stream
            await asyncio.sleep(0)
        return await super().deregister(request)


class NoPause:
    """A pause between tries that takes no time and says that it began."""

    def __init__(self, began: asyncio.Event) -> None:
        self._began = began

    def next_s(self) -> float:
        self._began.set()
        return 0.0

    def reset(self) -> None:
        """Nothing to begin anew."""


async def test_a_stream_that_ends_at_the_goodbye_does_not_cut_it_short(
    registry: TaskRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated(registry)
    link = GoodbyeLink()
    monkeypatch.setattr(session, "Backoff", lambda _random: NoPause(link.seen))
    async with working(registry, link) as bench:
        await link.stream()
        bench.runtime.drain()
        await bench.ended()
        assert bench.log.said("drained")
        assert len(link.deregistrations) == len(link.streams) == 1


class SchedulerThatLetsGo(GrpcScheduler):
    """Ends a worker's stream when it leaves, as the real one does."""

    async def Deregister(self, request: DeregisterRequest, context: Any) -> DeregisterResponse:
        self.end_stream()
        return await super().Deregister(request, context)


async def test_idle_workers_stop_every_time(registry: TaskRegistry) -> None:
    gated(registry)
    scheduler = SchedulerThatLetsGo()
    async with serving(scheduler) as port:
        for number in range(1, 41):
            link = GrpcLink(f"127.0.0.1:{port}", "", Random(number))
            async with working(registry, cast(Any, link)) as bench:
                await scheduler.connected(number)
                bench.runtime.drain()
                async with asyncio.timeout(5):
                    await bench.task
                assert bench.log.said("drained")
            await link.close()
    assert len(scheduler.deregistrations) == 40
