"""A worker that lies, repeats itself or comes twice, spoken to the real door by bare stubs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from e2e.process import until
from e2e.refusals import read, refused
from e2e.site import Door, Site
from taskyard.v1 import policies_pb2, tasks_pb2
from taskyard.v1 import workers_pb2 as pb
from taskyard_client import Retry
from taskyard_service.identity import Role

SUCCESS = tasks_pb2.TASK_STATUS_SUCCESS
RECORDED, STALE, UNKNOWN = (
    pb.RESULT_OUTCOME_RECORDED, pb.RESULT_OUTCOME_STALE_ATTEMPT, pb.RESULT_OUTCOME_UNKNOWN_TASK,
)  # fmt: skip


class RawWorker:
    """A worker's session by hand: sends what the test wants, keeps what comes."""

    def __init__(self, door: Door, worker_id: str, epoch: int) -> None:
        self.door, self.worker_id, self.epoch = door, worker_id, epoch
        self.frames: list[pb.AssignTaskResponse] = []
        self.error: grpc.aio.AioRpcError | None = None
        self._outbox: asyncio.Queue[pb.AssignTaskRequest | None] = asyncio.Queue()

    def say(self, **frame: Any) -> None:
        self._outbox.put_nowait(pb.AssignTaskRequest(**frame))

    async def _sent(self) -> AsyncIterator[pb.AssignTaskRequest]:
        while (frame := await self._outbox.get()) is not None:
            yield frame

    async def listen(self) -> None:
        try:
            async for frame in self.door.workers.AssignTask(self._sent(), metadata=self.door.metadata):
                self.frames.append(frame)
        except grpc.aio.AioRpcError as error:
            self.error = error

    def hang_up(self) -> None:
        self._outbox.put_nowait(None)

    async def assigned(self, count: int = 1) -> list[pb.TaskAssignment]:
        """Waits for so many assignments in all."""

        def found() -> list[pb.TaskAssignment]:
            every = [one for frame in self.frames for one in frame.assignments]
            return every if len(every) >= count else []

        assignments: list[pb.TaskAssignment] = await until(found)
        return assignments

    async def orders(self, count: int) -> list[pb.CancelAttempt]:
        """Waits for so many orders to stop in all."""

        def found() -> list[pb.CancelAttempt]:
            every = [one for frame in self.frames for one in frame.cancels]
            return every if len(every) >= count else []

        orders: list[pb.CancelAttempt] = await until(found)
        return orders

    async def told(self, task_id: str) -> pb.CancelAttempt:
        """Waits for the order to stop a task."""
        order: pb.CancelAttempt = await until(
            lambda: next((c for f in self.frames for c in f.cancels if c.task_id == task_id), None)
        )
        return order

    async def report(self, *results: pb.TaskResult) -> list[int]:
        """Reports results outside the stream; returns the outcomes."""
        request = pb.ReportResultsRequest(worker_id=self.worker_id, session_epoch=self.epoch, results=results)
        answer = await self.door.workers.ReportResults(request, metadata=self.door.metadata)
        return [ack.outcome for ack in answer.result_acks]


def registration(worker_id: str, *types: str, **fields: Any) -> pb.RegisterRequest:
    return pb.RegisterRequest(worker_id=worker_id, capabilities=types or ("raw",), **{"max_concurrency": 10, **fields})


@asynccontextmanager
async def raw_worker(site: Site, worker_id: str, *types: str, credits: int = 10) -> AsyncIterator[RawWorker]:
    """Registers, opens the stream, says hello."""
    door = site.door(site.token(Role.WORKER))
    answer = await door.workers.Register(registration(worker_id, *types), metadata=door.metadata)
    assert answer.accepted
    worker = RawWorker(door, worker_id, answer.session_epoch)
    listening = asyncio.create_task(worker.listen(), name=f"raw worker {worker_id}")
    worker.say(hello=pb.Hello(worker_id=worker_id, session_epoch=worker.epoch), credits=credits)
    await site.wait_healthy(worker_id)
    try:
        yield worker
    finally:
        worker.hang_up()
        await asyncio.wait_for(listening, 10)


def result(assignment: pb.TaskAssignment, **fields: Any) -> pb.TaskResult:
    return pb.TaskResult(
        **{"task_id": assignment.task_id, "attempt_token": assignment.attempt_token, "status": SUCCESS, **fields}
    )


async def test_an_assignment_says_everything(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-says", "says") as worker:
        handle = await client.submit("says", {"a": 1}, params={"p": "q"}, priority=3, idempotency_key="says-key")
        [one] = await worker.assigned()
        assert (one.task_id, one.task_type, one.priority, one.attempt, one.retry_count) == (handle.id, "says", 3, 1, 0)
        assert (one.input_json, dict(one.params), one.idempotency_key) == ('{"a":1}', {"p": "q"}, "says-key")
        assert one.attempt_token
        assert one.term == (await client.cluster_status()).term
        assert (one.timeout_ms, one.lease_ms, one.tenant) == (3_600_000, 8_000, "default")
        assert await worker.report(result(one, output_json="[1]")) == [RECORDED]
        assert await handle.result(60) == [1]


async def test_a_result_twice_is_recorded_once(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-twice", "twice") as worker:
        handle = await client.submit("twice")
        [one] = await worker.assigned()
        assert await worker.report(result(one, output_json='"first"')) == [RECORDED]
        before = (await client.get_task(handle.id)).task
        again = await worker.report(result(one, output_json='"second"'), result(one, output_json='"third"'))
        assert set(again) <= {RECORDED, STALE}
        failed = await worker.report(result(one, status=tasks_pb2.TASK_STATUS_FAILED, error_message="no"))
        assert set(failed) <= {RECORDED, STALE}
        assert (await client.get_task(handle.id)).task == before
        both = await client.submit("twice")
        [_, two] = await worker.assigned(2)
        assert (await worker.report(result(two, output_json='"a"'), result(two, output_json='"b"')))[0] == RECORDED
        assert await both.result(60) == "a"


async def test_a_stale_or_invented_token_changes_nothing(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-stale", "stale") as worker:
        handle = await client.submit("stale", retry=Retry(first_delay=0.0))
        [one] = await worker.assigned()
        assert await worker.report(result(one, attempt_token="invented")) == [STALE]
        assert await worker.report(result(one, status=tasks_pb2.TASK_STATUS_FAILED)) == [RECORDED]
        two = (await worker.assigned(2))[1]
        assert (two.attempt, two.task_id) == (2, handle.id)
        assert two.attempt_token != one.attempt_token
        assert await worker.report(result(one)) == [STALE]
        assert (await client.get_task(handle.id)).task.status != SUCCESS
        assert await worker.report(result(two, output_json="2")) == [RECORDED]
        assert await handle.result(60) == 2
        assert await worker.report(result(two, task_id="nonsense", attempt_token="x")) in ([STALE], [UNKNOWN])


async def test_another_worker_s_task_cannot_be_reported(shared_site: Site) -> None:
    client = shared_site.client()
    async with (
        raw_worker(shared_site, "raw-owner", "owned") as owner,
        raw_worker(shared_site, "raw-thief", "x") as thief,
    ):
        handle = await client.submit("owned")
        [one] = await owner.assigned()
        assert await thief.report(result(one, output_json='"stolen"')) == [UNKNOWN]
        thief.say(
            results=[result(one, output_json='"stolen"')],
            acknowledgements=[pb.StartAcknowledgement(task_id=one.task_id, attempt_token=one.attempt_token)],
            progress=[pb.TaskProgress(task_id=one.task_id, attempt_token=one.attempt_token, percent=99)],
        )
        await until(lambda: any(ack.outcome == UNKNOWN for frame in thief.frames for ack in frame.result_acks))
        lines = [pb.LogChunk(task_id=one.task_id, attempt_token=one.attempt_token, lines=[tasks_pb2.LogLine(text="x")])]
        logs = pb.AppendLogsRequest(worker_id="raw-thief", session_epoch=thief.epoch, chunks=lines)
        answer = await thief.door.workers.AppendLogs(logs, metadata=thief.door.metadata)
        assert answer.acks[0].closed
        assert not [line async for line in client.logs(handle.id)]
        told = (await client.get_task(handle.id)).task
        assert (told.status, told.HasField("percent")) == (tasks_pb2.TASK_STATUS_ASSIGNED, False)
        assert await owner.report(result(one, output_json='"mine"')) == [RECORDED]
        assert await handle.result(60) == "mine"


async def test_a_result_after_cancel(shared_site: Site) -> None:
    """One that arrives while the cancel is on its way counts; one after the end does not."""
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-cancel", "cancelled") as worker:
        late = await client.submit("cancelled")
        [one] = await worker.assigned()
        assert await late.cancel() == tasks_pb2.TASK_STATUS_CANCELLING
        order = await worker.told(late.id)
        assert (order.attempt_token, order.reason) == (one.attempt_token, "cancelled")
        assert await worker.report(result(one, status=tasks_pb2.TASK_STATUS_CANCELLED)) == [RECORDED]
        assert await worker.report(result(one, output_json="1")) == [STALE]
        assert (await late.wait(60)).status == tasks_pb2.TASK_STATUS_CANCELLED
        quick = await client.submit("cancelled")
        two = (await worker.assigned(2))[1]
        await quick.cancel()
        assert await worker.report(result(two, output_json="2")) == [RECORDED]
        ended = await quick.wait(60)
        assert ended.status in (SUCCESS, tasks_pb2.TASK_STATUS_CANCELLED)


async def test_credits_are_never_exceeded(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-credit", "credit", credits=2) as worker:
        handles = [await client.submit("credit") for _ in range(5)]
        first = await worker.assigned(2)
        assert [reason.code for reason in (await client.explain(handles[4].id)).reasons]
        assert len(await worker.assigned(2)) == 2
        worker.say(results=[result(one) for one in first], credits=3)
        third = (await worker.assigned(3))[2:]
        assert len(third) == 1
        worker.say(results=[result(one) for one in third], credits=5)
        rest = (await worker.assigned(5))[3:]
        worker.say(results=[result(one) for one in rest])
        await client.wait_tasks([handle.id for handle in handles], 60)


async def test_what_is_never_started_goes_back_without_spending_a_retry(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-idle", "idle") as worker:
        start = tasks_pb2.TaskSubmission(
            task_type="idle", timeouts=policies_pb2.TimeoutPolicy(start_timeout=Duration(nanos=200_000_000))
        )
        [outcome] = await client.submit_many([start])
        assert outcome.handle is not None
        for tried in range(1, 5):
            assert (await worker.orders(tried))[-1].reason == "fenced"
            assert len(await worker.assigned()) == tried, "nothing is sent to a worker that does not start it"
            worker.say(credits=10)  # until it is heard
            await worker.assigned(tried + 1)
        told = await client.get_task(outcome.handle.id)
        assert told.task.retry_count == 0
        assert told.attempts[0].error.kind == "NEVER_STARTED"
        ended = await outcome.handle.wait(60)
        assert (ended.status, ended.error.kind, ended.attempt) == (tasks_pb2.TASK_STATUS_FAILED, "NEVER_STARTED", 5)


async def test_the_newer_of_two_workers_with_one_id_wins(shared_site: Site) -> None:
    client = shared_site.client()
    async with raw_worker(shared_site, "raw-double", "double-id") as older:
        async with raw_worker(shared_site, "raw-double", "double-id") as newer:
            await until(lambda: older.error)
            assert older.error is not None
            ending = read(older.error)
            assert (ending.code, ending.reason) == (grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED")
            beat = pb.HeartbeatRequest(worker_id="raw-double", session_epoch=older.epoch)
            answer = await refused(older.door.workers.Heartbeat(beat, metadata=older.door.metadata))
            assert (answer.code, answer.reason) == (grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED")
            handle = await client.submit("double-id")
            [one] = await newer.assigned()
            old = pb.ReportResultsRequest(worker_id="raw-double", session_epoch=older.epoch, results=[result(one)])
            answer = await refused(older.door.workers.ReportResults(old, metadata=older.door.metadata))
            assert answer.reason == "SESSION_SUPERSEDED"
            assert await newer.report(result(one)) == [RECORDED]
            await handle.wait(60)


async def test_two_worker_processes_with_one_id(site: Site) -> None:
    """The older is told, says so, and exits with its own code; the newer goes on."""
    await site.start_scheduler()
    older = site.launch_worker("older", settings={"TASKYARD_WORKER_ID": "same"})
    await site.wait_healthy("same")
    newer = site.launch_worker("newer", settings={"TASKYARD_WORKER_ID": "same"})
    assert await older.wait() == 71
    assert "Traceback" not in older.text()
    assert newer.code is None
    await site.wait_healthy("same")
    assert await (await site.client().submit("double", {"number": 2})).result(60) == {"double": 4}


BAD_REGISTRATIONS: list[tuple[dict[str, Any], str]] = [
    ({"worker_id": ""}, "worker_id"),
    ({"worker_id": "x" * 201}, "worker_id"),
    ({"worker_id": "a\0"}, "worker_id"),
    ({"worker_id": "a\n"}, "worker_id"),
    ({"host": "x" * 256}, "host"),
    ({"host": "\0"}, "host"),
    ({"port": -1}, "port"),
    ({"port": 65536}, "port"),
    ({"capabilities": []}, "capabilities"),
    ({"capabilities": ["good", ""]}, "capabilities[1]"),
    ({"capabilities": ["a\0"]}, "capabilities[0]"),
    ({"max_concurrency": 0}, "max_concurrency"),
    ({"max_concurrency": 100_001}, "max_concurrency"),
    ({"labels": {"a\0": "x"}}, "labels"),
    ({"labels": {f"l{n}": "x" for n in range(65)}}, "labels"),
    ({"build_id": "x" * 201}, "build_id"),
    ({"protocol": "carrier-pigeon"}, "protocol"),
    ({"resources": policies_pb2.Resources(gpus=-1)}, "resources.gpus"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_REGISTRATIONS, ids=lambda value: str(value)[:40])
async def test_a_bad_registration_names_its_field(shared_site: Site, fields: dict[str, Any], field: str) -> None:
    door = shared_site.door(shared_site.token(Role.WORKER))
    request = pb.RegisterRequest(**{"worker_id": "bad", "capabilities": ["x"], "max_concurrency": 1, **fields})
    answer = await refused(door.workers.Register(request, metadata=door.metadata))
    assert answer.code == grpc.StatusCode.INVALID_ARGUMENT
    assert [each for each in answer.fields if each.startswith(field)], answer


async def test_a_stream_without_hello_is_refused(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token(Role.WORKER))

    async def frames(*sent: pb.AssignTaskRequest) -> AsyncIterator[pb.AssignTaskRequest]:
        for frame in sent:
            yield frame

    def hello(worker_id: str, epoch: int) -> list[pb.AssignTaskRequest]:
        return [pb.AssignTaskRequest(hello=pb.Hello(worker_id=worker_id, session_epoch=epoch))]

    for sent, code in [
        ([], grpc.StatusCode.INVALID_ARGUMENT),
        ([pb.AssignTaskRequest(credits=5)], grpc.StatusCode.INVALID_ARGUMENT),
        (hello("never-seen", 1), grpc.StatusCode.NOT_FOUND),
        (
            [pb.AssignTaskRequest(hello=pb.Hello(worker_id="shared-worker", session_epoch=2**62))],
            grpc.StatusCode.NOT_FOUND,
        ),
        (hello("shared-worker", -1), grpc.StatusCode.ABORTED),
    ]:
        stream = door.workers.AssignTask(frames(*sent), metadata=door.metadata)
        assert (await refused(stream.read())).code == code
    unknown = pb.HeartbeatRequest(worker_id="never-seen", session_epoch=1)
    assert (await refused(door.workers.Heartbeat(unknown, metadata=door.metadata))).code == grpc.StatusCode.NOT_FOUND


async def test_odd_results_end_the_task_and_are_told(shared_site: Site) -> None:
    client = shared_site.client()
    once = Retry(max_attempts=1)
    odd: list[tuple[dict[str, Any], str]] = [
        ({"output_json": "{"}, "RESULT_NOT_STORABLE"),
        ({"output_json": '"' + "x" * 300_000 + '"'}, "OUTPUT_TOO_LARGE"),
        ({"status": 77}, "HANDLER_ERROR"),
        ({"status": tasks_pb2.TASK_STATUS_FAILED, "error_message": "a\0b" + "x" * 100_000}, "HANDLER_ERROR"),
        ({"status": tasks_pb2.TASK_STATUS_FAILED, "error_kind": "\0NO_SUCH_KIND"}, "HANDLER_ERROR"),
    ]
    async with raw_worker(shared_site, "raw-odd", "odd") as worker:
        for number, (fields, kind) in enumerate(odd, 1):
            handle = await client.submit("odd", retry=once)
            one = (await worker.assigned(number))[-1]
            worker.say(results=[result(one, **fields)], credits=10 + number)
            ended = await handle.wait(60)
            assert (ended.status, ended.error.kind) == (tasks_pb2.TASK_STATUS_FAILED, kind)
        good = await client.submit("odd")
        one = (await worker.assigned(len(odd) + 1))[-1]
        worker.say(results=[result(one, metadata={"k\0": "v\0" * 50_000}, duration_ms=-5, output_json="true")])
        assert await good.result(60) is True


async def test_a_client_that_vanishes_mid_stream_leaves_nothing(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("sleep", {"seconds": 3600})
    door = shared_site.door(shared_site.token())
    streams: list[Any] = []
    for _ in range(20):
        watching = door.tasks.WatchTasks(tasks_pb2.WatchTasksRequest(task_ids=[handle.id]), metadata=door.metadata)
        logs = door.tasks.StreamLogs(tasks_pb2.StreamLogsRequest(task_id=handle.id), metadata=door.metadata)
        await watching.read()
        streams += [watching, logs]

    def watchers(count: int) -> bool:
        return f"workflow_watchers {float(count)}" in shared_site.http("/metrics").body

    await until(lambda: watchers(40))
    for stream in streams[::2]:
        stream.cancel()
    await door.channel.close()  # the rest: the connection is gone
    await until(lambda: watchers(0))
    await handle.cancel()
    await handle.wait(60)
