from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random

import grpc
import pytest
from worker_fakes import assignment
from worker_grpc_scheduler import GrpcScheduler, serving

from taskyard.v1.workers_pb2 import (
    AppendLogsRequest,
    AssignTaskRequest,
    DeregisterRequest,
    HeartbeatRequest,
    Hello,
    RegisterRequest,
    TaskResult,
)
from taskyard_worker.grpc_link import GrpcLink, GrpcStream
from taskyard_worker.link import LinkError


@pytest.fixture
def scheduler() -> GrpcScheduler:
    return GrpcScheduler()


@pytest.fixture
async def link(scheduler: GrpcScheduler) -> AsyncIterator[GrpcLink]:
    async with serving(scheduler) as port:
        link = GrpcLink(f"127.0.0.1:{port}", "the-token", Random(1))
        yield link
        await link.close()


async def test_every_call_carries_the_token(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    assert (await link.register(RegisterRequest(worker_id="w"))).session_epoch == 1
    assert (await link.heartbeat(HeartbeatRequest(worker_id="w"))).ok
    await link.deregister(DeregisterRequest(worker_id="w"))
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    await scheduler.connected()
    await stream.close()
    assert scheduler.tokens == ["Bearer the-token"] * 4


async def test_frames_go_both_ways_up_to_16_mebibytes(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    large = "x" * (15 * 1024 * 1024)
    scheduler.assign(assignment("a", input_json=large))
    frame = await stream.receive()
    assert frame is not None
    assert len(frame.assignments[0].input_json) == len(large)
    await stream.send(AssignTaskRequest(results=[TaskResult(attempt_token="a", output_json=large)]))
    assert len((await scheduler.result("a")).output_json) == len(large)
    await stream.close()


async def test_errors_tell_code_reason_message_and_method(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    scheduler.errors = [(grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED", None)]
    with pytest.raises(LinkError) as caught:
        await link.heartbeat(HeartbeatRequest())
    error = caught.value
    assert (error.code, error.reason, error.superseded) == ("ABORTED", "SESSION_SUPERSEDED", True)
    assert error.message == "Heartbeat: SESSION_SUPERSEDED in words"


async def test_what_may_pass_is_tried_again(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    scheduler.errors = [
        (grpc.StatusCode.UNAVAILABLE, "NOT_LEADER", None),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "BUSY", 0.01),
    ]
    assert (await link.heartbeat(HeartbeatRequest())).ok
    scheduler.errors = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA", None)]
    with pytest.raises(LinkError, match="QUOTA"):
        await link.heartbeat(HeartbeatRequest())


async def say_hello_and_listen(stream: GrpcStream) -> None:
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    await stream.receive()


async def test_a_stream_that_is_refused_tells_why(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    scheduler.errors = [(grpc.StatusCode.NOT_FOUND, "UNKNOWN_WORKER", None)]
    stream = await link.open_stream()
    with pytest.raises(LinkError) as caught:
        await say_hello_and_listen(stream)
    assert caught.value.unknown_worker
    await stream.close()


async def test_what_is_sent_after_a_refusal_does_not_hide_it(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    scheduler.errors = [(grpc.StatusCode.NOT_FOUND, "UNKNOWN_WORKER", None)]
    stream = await link.open_stream()
    with suppress(LinkError):  # it may be refused before this has left
        await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    assert await stream._call.code() == grpc.StatusCode.NOT_FOUND
    with pytest.raises(LinkError) as caught:
        await stream.send(AssignTaskRequest())
    assert (caught.value.unknown_worker, caught.value.message) == (True, "UNKNOWN_WORKER in words")
    await stream.close()


async def test_a_clean_end_is_no_error_and_sending_after_it_is_one(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    scheduler.end_stream()
    assert await stream.receive() is None
    with pytest.raises(LinkError, match="ended"):
        await stream.send(AssignTaskRequest())
    await stream.close()


async def test_closing_ends_who_receives(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    receiving = asyncio.create_task(stream.receive())
    await scheduler.connected()
    await stream.close()
    async with asyncio.timeout(5):
        assert await receiving is None
    with pytest.raises(LinkError):
        await stream.send(AssignTaskRequest())


async def test_cancelling_who_receives_is_a_cancellation(scheduler: GrpcScheduler, link: GrpcLink) -> None:
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    await scheduler.connected()
    receiving = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    await stream.close()


async def test_a_connection_that_is_given_up_ends_what_waits_on_it_and_the_next_call_has_another(
    scheduler: GrpcScheduler, link: GrpcLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await link.open_stream()
    await stream.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    await scheduler.connected()
    entered = asyncio.Event()

    async def silent(context: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(scheduler, "_enter", silent)
    receiving = asyncio.create_task(stream.receive())
    calling = asyncio.create_task(link.append_logs(AppendLogsRequest(worker_id="w")))
    await entered.wait()
    monkeypatch.undo()
    await link.renew()
    assert await receiving is None
    with pytest.raises(LinkError, match="AppendLogs: the connection was given up"):
        await calling
    assert (await link.heartbeat(HeartbeatRequest(worker_id="w"))).ok
    again = await link.open_stream()
    await again.send(AssignTaskRequest(hello=Hello(worker_id="w")))
    await scheduler.connected(2)
    await again.close()


async def test_nobody_there_is_unavailable() -> None:
    link = GrpcLink("127.0.0.1:1", "", Random(1))
    with pytest.raises(LinkError) as caught:
        await link.register(RegisterRequest())
    assert caught.value.code == "UNAVAILABLE"
    assert caught.value.message.startswith("Register: ")
    await link.close()
