"""A cancellation is a cancellation wherever it comes: in each call and stream, at each of its moments."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from cancelled_anywhere import lost_cancellations
from client_fixtures import served
from scripted_faults import Fault
from scripted_server import ScriptedServer

import taskyard_client as ty
from taskyard.v1 import tasks_pb2
from taskyard_client import AsyncClient, loop_thread, methods, new_task
from taskyard_client.grpc_transport import GrpcTransport
from taskyard_client.loop_thread import LoopThread

Work = Callable[[AsyncClient], Awaitable[object]]


async def listed(client: AsyncClient) -> None:
    [task async for task in client.list_tasks(page_size=1)]


async def watched(client: AsyncClient) -> None:
    task = await client.submit("x")
    [change async for change in client.watch_tasks([task.id])]


async def followed(client: AsyncClient) -> None:
    task = await client.submit("x")
    [line async for line in task.logs(follow=True)]


async def waited(client: AsyncClient) -> None:
    await (await client.submit("x")).wait()


async def refused(client: AsyncClient) -> None:
    try:
        await client.get_task("none")
    except ty.NotFound:
        return


async def unknown(client: AsyncClient) -> None:
    try:
        [change async for change in client.watch_tasks(["none"])]
    except ty.NotFound:
        return


async def submitted(client: AsyncClient) -> None:
    await client.submit_many([new_task("x")] * 3)


@pytest.mark.parametrize("work", [listed, watched, followed, waited, refused, unknown, submitted])
def test_a_cancellation_is_never_taken_for_the_end_of_a_call(work: Work, server: ScriptedServer) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncClient]:
        async with AsyncClient(server.address, "t", rng=random.Random(1)) as client:
            yield client

    assert lost_cancellations(opened, work) == []


def test_a_cancellation_ends_what_would_be_tried_again(server: ScriptedServer) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[AsyncClient]:
        server.wire.faults["GetTask"].clear()
        server.script("GetTask", Fault())
        async with AsyncClient(server.address, "t", rng=random.Random(1)) as client:
            yield client

    assert lost_cancellations(opened, refused) == []


# --- calls that take a cancellation for their own end ------------------------------------------------


class Swallowing:
    """A call, unary or a stream, that waits, takes one cancellation for its own, and then ends in some way."""

    def __init__(self, ending: object) -> None:
        self.entered = asyncio.Event()
        self._ending = ending

    def __call__(self, *values: object, **options: object) -> Swallowing:
        return self

    def __await__(self) -> Any:
        return self.__anext__().__await__()

    def __aiter__(self) -> Swallowing:
        return self

    async def __anext__(self) -> object:
        self.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        if isinstance(self._ending, BaseException):
            raise self._ending
        return self._ending

    def cancel(self) -> None: ...


ENDINGS = [
    tasks_pb2.GetTaskResponse(),
    *(
        grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), "ended")
        for code in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    ),
    asyncio.CancelledError("the call's own"),
]


async def by_unary(transport: GrpcTransport) -> object:
    return await transport.unary(methods.GET_TASK, tasks_pb2.GetTaskRequest(), 30)


async def by_stream(transport: GrpcTransport) -> object:
    return [each async for each in transport.stream(methods.WATCH_TASKS, tasks_pb2.WatchTasksRequest())]


@pytest.mark.parametrize("ending", [*ENDINGS, StopAsyncIteration()], ids=repr)
@pytest.mark.parametrize("wait", [by_unary, by_stream])
async def test_however_a_call_ends_who_is_cancelled_meanwhile_is_cancelled(
    wait: Callable[[GrpcTransport], Awaitable[object]], ending: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wait is by_unary and isinstance(ending, StopAsyncIteration):
        ending = None
    call, transport = Swallowing(ending), GrpcTransport("127.0.0.1:1", None)
    monkeypatch.setattr(transport, "_open", lambda method, streams: call)
    waiting = asyncio.ensure_future(wait(transport))
    await call.entered.wait()
    waiting.cancel()
    await asyncio.wait((waiting,), timeout=10)
    assert waiting.cancelled()
    await transport.close()


# --- calls that are under way when the client is closed ----------------------------------------------


async def first_change(client: AsyncClient) -> object:
    return await anext(client.watch_tasks(["x"]))


UNDER_WAY: dict[str, tuple[str, Work]] = {
    "a read": ("GetTask", lambda client: client.get_task("x")),
    "a change": ("CancelTask", lambda client: client.cancel_task("x")),
    "a list": ("ListTasks", listed),
    "a watch": ("WatchTasks", first_change),
    "a wait for a run": ("WatchRun", lambda client: client.wait_run("x")),
    "a wait for a task": ("WatchTasks", lambda client: client.wait_task("x")),
    "a submission": ("SubmitTasks", lambda client: client.submit("x")),
    "a list of submissions": ("SubmitTasks", lambda client: client.submit_many([new_task("x")])),
}


@pytest.mark.parametrize("case", UNDER_WAY)
async def test_who_waits_when_the_client_is_closed_is_told_and_not_cancelled(case: str) -> None:
    name, work = UNDER_WAY[case]
    async with served() as (server, client):
        server.script(name, Fault(silent=True))
        waiting = asyncio.ensure_future(work(client))
        await server.wire.reached(lambda: bool(server.wire.named(name)))
        await client.close()
        with pytest.raises(ty.ClientClosed):
            await waiting


@pytest.mark.parametrize("fault", [Fault(silent=True), Fault()], ids=["no answer", "between two tries"])
def test_a_thread_that_waits_when_another_closes_the_client_is_told(
    fault: Fault, server: ScriptedServer, server_thread: LoopThread
) -> None:
    server.script("GetTask", *[fault] * 4)
    client = ty.Client(server.address, "t")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get_task, "x")
        server_thread.run(server.wire.reached(lambda: bool(server.wire.named("GetTask"))))
        client.close()
        with pytest.raises(ty.ClientClosed):
            waiting.result(10)


def test_whatever_a_closing_thread_was_given_comes_back() -> None:
    for _ in range(50):
        thread = LoopThread("closed while called")
        with ThreadPoolExecutor(8) as pool:
            waits = [pool.submit(thread.run, asyncio.Event().wait()) for _ in range(8)]
            thread.close()
            for wait in waits:
                with pytest.raises(ty.ClientClosed):
                    wait.result(10)


# --- callers without asyncio ------------------------------------------------------------------------


def test_an_iterator_that_is_interrupted_ends_once_what_was_interrupted_has_ended() -> None:
    thread = LoopThread("interrupted")
    started, told = threading.Event(), list[str]()

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            started.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)  # what an end awaits takes some turns of the loop
            told.append("ended")

    listed = thread.iterate(items())
    assert next(listed) == 1

    def interrupted(done: Future[Any]) -> Any:
        patch.undo()
        started.wait(10)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_thread, "_result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(listed)
    thread.close()
    assert told == ["ended"]
