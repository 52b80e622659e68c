from __future__ import annotations

import asyncio
import json
import threading
from functools import partial
from typing import Any

import pytest
from worker_fakes import Answers, FakeLink, FakeStream, Signal, assignment, status, working

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard.v1.workers_pb2 import (
    AssignTaskRequest,
    CancelAttempt,
    CheckpointAck,
    HeartbeatResponse,
    RegisterResponse,
    TaskResult,
    WorkerConfig,
)
from taskyard_worker import Context, InvalidInput, NonRetryable, PermissionDenied, TaskRegistry
from taskyard_worker.errors import NotAccepted, SessionSuperseded, Unauthenticated
from taskyard_worker.link import LinkError
from taskyard_worker.spool import MemorySpool

ACCEPTED = RegisterResponse(accepted=True, heartbeat_interval_sec=1, session_epoch=1)


@pytest.fixture
def registry() -> TaskRegistry:
    return TaskRegistry()


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


# --- the beginning of a stream ---------------------------------------------------------------------


async def test_the_first_frame_says_who_speaks_what_is_held_and_how_many_tasks_may_come(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry, slots=7) as bench:
        stream = await bench.link.stream()
        first = stream.frames[0]
        assert (first.hello.worker_id, first.hello.session_epoch, len(first.hello.attempts)) == ("worker-1", 1, 0)
        assert first.credits == 7
        request = bench.link.registrations[0]
        assert (request.worker_id, request.max_concurrency, list(request.capabilities)) == ("worker-1", 7, ["work"])


async def test_credits_are_what_was_received_and_what_is_free(registry: TaskRegistry) -> None:
    gate, entered, tokens = gated(registry)
    async with working(registry, slots=3) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"), assignment("b"))
        await entered.until(lambda: len(tokens) == 2)
        assert stream.credits == 3  # 2 received and 1 free: nothing new to say
        gate.set()
        await stream.until(lambda s: s.credits == 5)  # 2 received and 3 free
        assert any(frame.credits == 5 and frame.results for frame in stream.frames)


async def room_for(stream: FakeStream, tasks: int) -> None:
    await stream.until(lambda s: s.credits >= tasks)


async def test_credits_never_exceed_received_plus_free_slots(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)

    @registry.task("quick")
    async def quick() -> None: ...

    async with working(registry, slots=2) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("slow"))
        sent = 1
        for number in range(50):
            await room_for(stream, sent + 1)
            stream.assign(assignment(f"q{number}", "quick"))
            sent += 1
            assert stream.credits - sent <= 1  # the slow one holds the other slot
        gate.set()
        await stream.until(lambda s: s.credits == 53)


# --- results ---------------------------------------------------------------------------------------


async def test_a_quick_task_is_answered_by_its_result_alone(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(input: dict[str, Any]) -> dict[str, Any]:
        return {"got": input}

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", input_json='{"x": 1}', params={"x": "flat", "y": "2"}))
        result = await stream.result("a")
        assert status(result) == "SUCCESS"
        assert json.loads(result.output_json) == {"got": {"x": 1, "y": "2"}}
        assert result.task_id == "task-a"
        assert stream.started == []


async def test_a_task_that_takes_its_time_is_acknowledged_as_started_once(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        gate.set()
        await stream.result("a")
        assert stream.started == ["a"]


async def test_a_start_that_waits_to_be_sent_is_dropped_for_the_result(registry: TaskRegistry) -> None:
    gate, entered, tokens = gated(registry)

    @registry.task("quick")
    async def quick() -> None: ...

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.open_gate.clear()  # sending is slow: the first result occupies it
        before = stream.sending
        stream.assign(assignment("first", "quick"))
        await stream.until(lambda s: s.sending > before)
        stream.assign(assignment("a"))
        await entered.until(lambda: len(tokens) == 1)
        gate.set()
        await entered.until(lambda: bench.runtime.work.active == 0)
        stream.open_gate.set()
        await stream.result("a")
        assert stream.started == []


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("bad"), "HANDLER_ERROR", "ValueError: bad"),
        (InvalidInput("'x' is negative"), "INVALID_INPUT", "'x' is negative"),
        (PermissionDenied("not yours"), "PERMISSION_DENIED", "not yours"),
        (NonRetryable("no way"), "NON_RETRYABLE", "no way"),
        (SystemExit(3), "HANDLER_ERROR", "SystemExit: 3"),
        (asyncio.CancelledError("gone"), "HANDLER_ERROR", "awaited something that was cancelled (gone)"),
        (KeyError("\ud800"), "HANDLER_ERROR", "KeyError"),
        (ValueError("x" * 100_000), "HANDLER_ERROR", "… [cut]"),
    ],
)
async def test_what_a_handler_raises_decides_the_kind(
    registry: TaskRegistry, error: BaseException, kind: str, message: str
) -> None:
    @registry.task("work")
    async def handler() -> None:
        raise error

    @registry.task("threaded")
    def threaded() -> None:
        raise error

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        if not isinstance(error, asyncio.CancelledError):
            stream.assign(assignment("b", "threaded"))
            assert (await stream.result("b")).error_kind == kind
        result = await stream.result("a")
        assert (status(result), result.error_kind) == ("FAILED", kind)
        assert message in result.error_message
        assert "Traceback" not in result.error_message
        assert len(result.error_message.encode()) <= 64 * 1024


async def test_the_traceback_goes_to_the_log_of_the_attempt(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler() -> None:
        raise ValueError("bad")

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await bench.link.changed.until(lambda: "ValueError: bad" in bench.link.log_lines.get("a", []))
        lines = bench.link.log_lines["a"]
        assert lines[0].startswith("Traceback")
        assert not any("runner.py" in line for line in lines)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "NON_RETRYABLE"),
        (float("nan"), "NON_RETRYABLE"),
        ({1: {2}}, "NON_RETRYABLE"),
        ("\ud800", "NON_RETRYABLE"),
        ("x" * (256 * 1024), "OUTPUT_TOO_LARGE"),
    ],
    ids=["object", "nan", "set", "surrogate", "large"],
)
async def test_what_cannot_be_stored_is_a_failure_that_is_not_retried(
    registry: TaskRegistry, value: Any, kind: str
) -> None:
    @registry.task("work")
    async def handler() -> Any:
        return value

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        result = await stream.result("a")
        assert (status(result), result.error_kind) == ("FAILED", kind)
        assert "the handler returned" in result.error_message


@pytest.mark.parametrize("text", ["[1]", "nonsense", '"x"'])
async def test_an_input_that_is_no_object_is_an_invalid_input(registry: TaskRegistry, text: str) -> None:
    @registry.task("work")
    async def handler(input: dict[str, Any]) -> Any:
        return input

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", input_json=text))
        assert (await stream.result("a")).error_kind == "INVALID_INPUT"


async def test_an_unknown_type_is_handed_back_and_the_wildcard_takes_any(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "strange"))
        result = await stream.result("a")
        assert (status(result), result.error_kind) == ("REJECTED", "UNKNOWN_TASK_TYPE")

    @registry.task("*")
    async def any_type() -> str:
        return "any"

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "strange"))
        assert status(await stream.result("a")) == "SUCCESS"


async def test_results_gather_in_frames_of_at_most_512(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler() -> None: ...

    async with working(registry, slots=2000) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(number)) for number in range(1500)))
        await stream.until(lambda s: len(s.results) == 1500)
        assert max(len(frame.results) for frame in stream.frames) <= 512
        assert [result.attempt_token for result in stream.results] == [str(number) for number in range(1500)]
        assert len(stream.frames) < 30


async def test_a_frame_closes_on_passing_a_mebibyte(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler() -> str:
        return "x" * 200_000

    async with working(registry, slots=100) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(number)) for number in range(30)))
        await stream.until(lambda s: len(s.results) == 30)
        assert max(frame.ByteSize() for frame in stream.frames) < 1024 * 1024 + 201_000


# --- reconnecting ----------------------------------------------------------------------------------


async def test_what_is_not_acknowledged_is_said_again_on_the_next_stream(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)

    @registry.task("quick")
    async def quick() -> str:
        return "first"

    link = FakeLink(acknowledge=False)
    async with working(registry, link) as bench:
        first = await link.stream(1)
        first.assign(assignment("slow"), assignment("quick", "quick"))
        await first.result("quick")
        await first.until(lambda s: s.started == ["slow"])
        first.fail("UNAVAILABLE")
        second = await link.stream(2)
        hello = second.frames[0].hello
        assert {held.attempt_token for held in hello.attempts} == {"slow", "quick"}
        assert second.frames[0].credits == 9
        assert not second.frames[0].results or second.frames[0].hello.worker_id
        assert json.loads((await second.result("quick")).output_json) == "first"
        await second.until(lambda s: s.started == ["slow"])
        second.ack(*second.results)
        gate.set()
        await second.result("slow")
        second.fail("UNAVAILABLE")
        third = await link.stream(3)
        assert [held.attempt_token for held in third.frames[0].hello.attempts] == ["slow"]
        assert len(link.registrations) == 1
        assert bench.runtime.work.unacknowledged == 1


async def test_a_result_made_while_there_is_no_stream_is_kept_and_sent(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)
    spool = MemorySpool()
    link = FakeLink(
        acknowledge=False,
        open_answers=Answers(True, LinkError("UNAVAILABLE", "", "down"), LinkError("UNAVAILABLE", "", "down"), True),
    )
    async with working(registry, link, spool=spool) as bench:
        first = await link.stream(1)
        first.assign(assignment("a"))
        await first.until(lambda s: s.started == ["a"])
        first.fail("UNAVAILABLE")
        await link.changed.until(lambda: first.closed)
        gate.set()
        second = await link.stream(2)
        await second.result("a")
        assert bench.runtime.work.unacknowledged == 1
        assert len([r for r in second.results if r.attempt_token == "a"]) == 1
    assert [result.attempt_token for result in spool.replay()] == ["a"]


async def test_a_result_is_on_disk_at_once_also_while_there_is_no_stream(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)
    written = Signal()

    class Disk(MemorySpool):
        def append(self, frame: AssignTaskRequest, last: int) -> bool:
            done = super().append(frame, last)
            written()
            return done

    spool = Disk()
    link = FakeLink(open_answers=Answers(True, LinkError("UNAVAILABLE", "", "down")))
    async with working(registry, link, spool=spool):
        first = await link.stream(1)
        first.assign(assignment("a"))
        await first.until(lambda s: s.started == ["a"])
        first.fail("UNAVAILABLE")
        await link.changed.until(lambda: first.closed)
        gate.set()
        await written.until(lambda: [result.attempt_token for result in spool.replay()] == ["a"])
        assert len(link.streams) == 1


async def test_the_results_of_an_earlier_life_are_reported_right_after_hello(registry: TaskRegistry) -> None:
    gated(registry)
    spool = MemorySpool()
    spool.append(
        AssignTaskRequest(results=[TaskResult(task_id="t", attempt_token="old", status=TASK_STATUS_SUCCESS)]), 1
    )
    async with working(registry, FakeLink(acknowledge=False), spool=spool) as bench:
        stream = await bench.link.stream()
        assert [held.attempt_token for held in stream.frames[0].hello.attempts] == ["old"]
        result = await stream.result("old")
        assert stream.frames[1].results[0].attempt_token == "old"
        stream.ack(result)
        async with asyncio.timeout(5):
            await bench.runtime.work.all_acknowledged.wait()
    assert spool.replay() == []


async def test_an_attempt_that_is_held_is_not_run_again(registry: TaskRegistry) -> None:
    gate, entered, tokens = gated(registry)
    async with working(registry, FakeLink(acknowledge=False), slots=3) as bench:
        first = await bench.link.stream(1)
        first.assign(assignment("a"))
        await entered.until(lambda: len(tokens) == 1)
        first.assign(assignment("a"))  # the same frame twice: no slot more, no slot less
        first.push(cancels=[order("other")])
        await first.result("other")
        assert first.credits == 3
        first.fail("UNAVAILABLE")
        second = await bench.link.stream(2)
        assert second.frames[0].credits == 2
        second.assign(assignment("a"))  # the scheduler repeats it, and counts it
        await second.until(lambda s: s.credits == 3)
        gate.set()
        await second.result("a")
        await second.until(lambda s: s.credits == 4)
        assert len(tokens) == 1


async def test_not_found_makes_the_worker_register_again(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)
    link = FakeLink(
        register_answers=Answers(
            RegisterResponse(accepted=True, session_epoch=1), RegisterResponse(accepted=True, session_epoch=2)
        )
    )
    async with working(registry, link):
        first = await link.stream(1)
        first.assign(assignment("a"))
        await first.until(lambda s: s.started == ["a"])
        first.fail("NOT_FOUND")
        second = await link.stream(2)
        assert second.frames[0].hello.session_epoch == 2
        assert [held.attempt_token for held in second.frames[0].hello.attempts] == ["a"]
        gate.set()
        await second.result("a")


async def test_a_clean_end_of_the_stream_is_followed_by_another(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        (await bench.link.stream(1)).end()
        await bench.link.stream(2)


async def test_a_frame_that_cannot_be_sent_opens_another_stream(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler() -> None: ...

    async with working(registry) as bench:
        first = await bench.link.stream(1)
        first.closed = True  # sending fails from here on, receiving does not notice
        first.assign(assignment("a"))
        second = await bench.link.stream(2)
        assert status(await second.result("a")) == "SUCCESS"


# --- the session -----------------------------------------------------------------------------------


async def test_a_superseded_session_ends_the_worker(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        (await bench.link.stream()).fail("ABORTED", "SESSION_SUPERSEDED")
        with pytest.raises(SessionSuperseded, match="another worker registered as 'worker-1'"):
            await bench.ended()


async def test_a_heartbeat_of_a_superseded_session_ends_the_worker(registry: TaskRegistry) -> None:
    gated(registry)
    link = FakeLink(heartbeat_answers=Answers(LinkError("ABORTED", "SESSION_SUPERSEDED", "newer")))
    link.register_answers = Answers(ACCEPTED)
    async with working(registry, link) as bench:
        with pytest.raises(SessionSuperseded):
            await bench.ended()


async def test_a_replaced_stream_is_not_the_end(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        (await bench.link.stream(1)).fail("ABORTED", "STREAM_REPLACED")
        await bench.link.stream(2)


async def test_a_worker_that_is_not_accepted_ends_with_the_reason(registry: TaskRegistry) -> None:
    link = FakeLink(register_answers=Answers(RegisterResponse(accepted=False, message="the id is another tenant's")))
    async with working(registry, link) as bench:
        with pytest.raises(NotAccepted, match="the id is another tenant's"):
            await bench.ended()


async def test_a_refused_registration_ends_the_worker(registry: TaskRegistry) -> None:
    for code, error in (("INVALID_ARGUMENT", NotAccepted), ("UNAUTHENTICATED", Unauthenticated)):
        link = FakeLink(register_answers=Answers(LinkError(code, "", "because")))
        async with working(registry, link) as bench:
            with pytest.raises(error, match="because"):
                await bench.ended()


async def test_a_scheduler_that_is_not_there_yet_is_waited_for(registry: TaskRegistry) -> None:
    gated(registry)
    down = LinkError("UNAVAILABLE", "", "nobody listens")
    async with working(registry, FakeLink(register_answers=Answers(down, down, ACCEPTED))) as bench:
        await bench.link.stream()
        assert len(bench.link.registrations) == 3


async def test_heartbeats_list_every_attempt_held(registry: TaskRegistry) -> None:
    gated(registry)

    @registry.task("quick")
    async def quick() -> None: ...

    link = FakeLink(acknowledge=False, register_answers=Answers(ACCEPTED))
    async with working(registry, link):
        stream = await link.stream()
        stream.assign(assignment("runs"), assignment("ended", "quick"))
        await stream.result("ended")
        before = len(link.heartbeats)
        await link.changed.until(lambda: len(link.heartbeats) > before)
        beat = link.heartbeats[-1]
        assert set(beat.attempt_tokens) == {"runs", "ended"}
        assert (beat.worker_id, beat.session_epoch, beat.active_tasks) == ("worker-1", 1, 1)
        assert (beat.cpu_usage, beat.memory_mb) == (0.5, 64)


async def test_a_heartbeat_that_is_not_ok_opens_another_stream(registry: TaskRegistry) -> None:
    gated(registry)
    link = FakeLink(
        register_answers=Answers(ACCEPTED),
        heartbeat_answers=Answers(HeartbeatResponse(ok=False), HeartbeatResponse(ok=True)),
    )
    async with working(registry, link):
        first = await link.stream(1)
        await link.stream(2)
        assert first.closed


async def test_the_scheduler_may_change_the_heartbeat_interval(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.push(config=WorkerConfig(heartbeat_interval_sec=1))
        bench.runtime.session.beat_now()
        await bench.link.changed.until(lambda: len(bench.link.heartbeats) >= 2)


# --- stopping --------------------------------------------------------------------------------------


def order(token: str, reason: str = "cancelled", grace_ms: int = 5000) -> CancelAttempt:
    return CancelAttempt(task_id=f"task-{token}", attempt_token=token, reason=reason, grace_ms=grace_ms)


@pytest.mark.parametrize(("reason", "expected"), [("cancelled", "CANCELLED"), ("timeout", "TIMEOUT")])
async def test_a_cancel_reaches_an_async_handler_and_is_confirmed(
    registry: TaskRegistry, reason: str, expected: str
) -> None:
    cleaned = Signal()
    seen = []

    @registry.task("work")
    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned")
            cleaned()

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(cancels=[order("a", reason)])
        assert status(await stream.result("a")) == expected
        assert seen == ["cleaned"]


async def test_a_fenced_attempt_stops_without_a_result_and_frees_its_slot(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry, slots=1) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(cancels=[order("a", "fenced")])
        await stream.until(lambda s: s.credits == 2)
        assert stream.results == []


async def test_a_cancel_of_what_does_not_run_here_is_confirmed(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.push(cancels=[order("a"), order("b", "fenced"), order("c", "timeout")])
        assert status(await stream.result("a")) == "CANCELLED"
        assert status(await stream.result("c")) == "TIMEOUT"
        assert [result.attempt_token for result in stream.results] == ["a", "c"]


async def test_the_run_timeout_is_enforced(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", timeout_ms=30))
        result = await stream.result("a")
        assert status(result) == "TIMEOUT"
        assert "timeout of 0.03 s" in result.error_message
        assert 30 <= result.duration_ms < 5000


async def test_a_thread_is_asked_to_stop_and_does(registry: TaskRegistry) -> None:
    @registry.task("work")
    def handler(ctx: Context) -> str:
        assert ctx.wait_cancelled(10)
        return "stopped early"

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == "CANCELLED"
        assert not any(part.cancel_unconfirmed for part in stream.progress)


async def test_a_thread_that_ignores_its_order_keeps_its_slot_and_says_so(registry: TaskRegistry) -> None:
    release = threading.Event()

    @registry.task("work")
    def handler() -> None:
        release.wait(10)

    async with working(registry, slots=1) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(cancels=[order("a", grace_ms=20)])
        await stream.until(lambda s: any(part.cancel_unconfirmed for part in s.progress))
        assert (stream.credits, stream.results) == (1, [])
        release.set()
        assert status(await stream.result("a")) == "CANCELLED"
        await stream.until(lambda s: s.credits == 2)


async def test_an_async_handler_that_swallows_its_cancellation_is_unconfirmed(registry: TaskRegistry) -> None:
    release = asyncio.Event()

    @registry.task("work")
    async def handler() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(cancels=[order("a", grace_ms=20)])
        await stream.until(lambda s: any(part.cancel_unconfirmed for part in s.progress))
        release.set()
        assert status(await stream.result("a")) == "CANCELLED"


# --- progress and checkpoints ----------------------------------------------------------------------


async def test_progress_is_told_and_the_newest_wins(registry: TaskRegistry) -> None:
    gate = asyncio.Event()

    @registry.task("work")
    async def handler(ctx: Context) -> None:
        for percent in range(101):
            await ctx.progress(percent, f"at {percent}")
        await gate.wait()
        with pytest.raises(ValueError, match="between 0 and 100"):
            await ctx.progress(101)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: bool(s.progress) and s.progress[-1].percent == 100)
        assert stream.progress[-1].message == "at 100"
        assert len(stream.progress) == 1
        gate.set()
        assert status(await stream.result("a")) == "SUCCESS"


async def test_a_checkpoint_returns_when_it_is_acknowledged(registry: TaskRegistry) -> None:
    returned: list[int] = []

    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        before = ctx.last_checkpoint
        for number in range(2):
            await ctx.checkpoint({"n": number})
            returned.append(number)
        return [before, ctx.last_checkpoint]

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", checkpoint='"from attempt 1"'))
        await stream.until(lambda s: bool(s.progress))
        told = stream.progress[-1]
        assert (json.loads(told.checkpoint), told.checkpoint_number, returned) == ({"n": 0}, 1, [])
        stream.push(checkpoint_acks=[CheckpointAck(task_id="task-a", attempt_token="a", checkpoint_number=1)])
        await stream.until(lambda s: s.progress[-1].checkpoint_number == 2)
        assert returned == [0]
        stream.push(checkpoint_acks=[CheckpointAck(task_id="task-a", attempt_token="a", checkpoint_number=2)])
        result = await stream.result("a")
        assert json.loads(result.output_json) == ["from attempt 1", {"n": 1}]


async def test_a_checkpoint_that_was_on_the_way_is_sent_again(registry: TaskRegistry) -> None:
    @registry.task("work")
    def handler(ctx: Context) -> str:
        ctx.checkpoint_sync([1, 2])
        return "stored"

    async with working(registry) as bench:
        first = await bench.link.stream(1)
        first.assign(assignment("a"))
        await first.until(lambda s: bool(s.progress))
        first.fail("UNAVAILABLE")
        second = await bench.link.stream(2)
        await second.until(lambda s: bool(s.progress))
        assert (second.progress[0].checkpoint, second.progress[0].checkpoint_number) == ("[1,2]", 1)
        second.push(checkpoint_acks=[CheckpointAck(task_id="task-a", attempt_token="a", checkpoint_number=1)])
        assert status(await second.result("a")) == "SUCCESS"


async def test_a_checkpoint_that_waits_ends_with_the_attempt(registry: TaskRegistry) -> None:
    @registry.task("work")
    def handler(ctx: Context) -> None:
        ctx.checkpoint_sync(1)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: bool(s.progress))
        stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == "CANCELLED"


@pytest.mark.parametrize("value", ["x" * (256 * 1024), object()])
async def test_a_checkpoint_that_does_not_fit_is_refused(registry: TaskRegistry, value: Any) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> None:
        await ctx.checkpoint(value)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        result = await stream.result("a")
        assert result.error_kind == "INVALID_INPUT"
        assert "checkpoint" in result.error_message


# --- idempotency keys, exclusive tasks --------------------------------------------------------------


async def test_a_key_that_is_delivered_again_gets_the_first_result(registry: TaskRegistry) -> None:
    runs: list[str] = []

    @registry.task("work")
    async def handler(ctx: Context) -> str:
        runs.append(ctx.task_id)
        if len(runs) == 1:
            raise ValueError("the first attempt fails")
        return f"run {len(runs)}"

    async with working(registry) as bench:
        stream = await bench.link.stream()
        for token, tenant in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")):
            stream.assign(assignment(token, idempotency_key="key", tenant=tenant))
            await stream.result(token)
        outputs = {result.attempt_token: result.output_json for result in stream.results}
        assert outputs == {"a": "", "b": '"run 2"', "c": '"run 2"', "d": '"run 3"'}
        assert len(runs) == 3


async def exclusive_work() -> str:
    return "alone"


async def test_an_exclusive_attempt_starts_once_a_heartbeat_has_confirmed_its_lease(registry: TaskRegistry) -> None:
    registry.task("work")(exclusive_work)
    link = FakeLink()
    async with working(registry, link) as bench:
        stream = await link.stream()
        stream.assign(assignment("a", exclusive=True, lease_ms=60_000))
        assert status(await stream.result("a")) == "SUCCESS"
        assert list(link.heartbeats[0].attempt_tokens) == ["a"]
        assert bench.isolation.ran == ["a"]
        assert 59 < bench.isolation.renewed["a"] <= 60


async def test_an_exclusive_attempt_is_not_started_without_an_answered_heartbeat(registry: TaskRegistry) -> None:
    registry.task("work")(exclusive_work)
    link = FakeLink(heartbeat_answers=Answers(LinkError("UNAVAILABLE", "", "cut off")))
    async with working(registry, link) as bench:
        stream = await link.stream()
        stream.assign(assignment("a", exclusive=True))
        await link.changed.until(lambda: bool(link.heartbeats))
        stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == "CANCELLED"
        assert bench.isolation.ran == []


async def test_an_exclusive_attempt_whose_assignment_came_too_late_is_never_started(registry: TaskRegistry) -> None:
    registry.task("work")(exclusive_work)
    link = FakeLink(heartbeat_answers=Answers(HeartbeatResponse(ok=True, lost_tokens=["late"])))
    async with working(registry, link, slots=1) as bench:
        stream = await link.stream()
        stream.assign(assignment("late", exclusive=True))
        await stream.until(lambda s: s.credits == 2)  # its slot is free again
        stream.assign(assignment("new", exclusive=True))
        assert status(await stream.result("new")) == "SUCCESS"
        assert bench.isolation.ran == ["new"]
        assert list(bench.isolation.renewed) == ["new"]
        assert [result.attempt_token for result in stream.results] == ["new"], "nobody wants a result of a lost attempt"


async def test_what_a_heartbeat_calls_lost_is_stopped_without_a_result(registry: TaskRegistry) -> None:
    gate, entered, tokens = gated(registry)

    @registry.task("quick")
    async def quick() -> None: ...

    link = FakeLink(
        acknowledge=False,
        heartbeat_answers=Answers(HeartbeatResponse(ok=True), HeartbeatResponse(ok=True, lost_tokens=["a", "ended"])),
    )
    async with working(registry, link, slots=3) as bench:
        stream = await link.stream()
        stream.assign(assignment("a"), assignment("b"), assignment("ended", "quick"))
        await entered.until(lambda: len(tokens) == 2)
        await stream.result("ended")
        for beats in (1, 2):
            bench.runtime.session.beat_now()
            await link.changed.until(partial(lambda beats: len(link.heartbeats) >= beats, beats))
        await stream.until(lambda s: s.credits == 5)  # 3 received; "b" runs
        gate.set()
        assert status(await stream.result("b")) == "SUCCESS"
        assert {result.attempt_token for result in stream.results} == {"b", "ended"}
        assert "ended" in bench.runtime.work.held_tokens(), "kept until it is acknowledged"


async def test_an_exclusive_task_needs_a_handler_that_can_be_killed(registry: TaskRegistry) -> None:
    gated(registry)  # defined inside a function: no other process could find it
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", exclusive=True))
        assert status(await stream.result("a")) == "REJECTED"


# --- faults of the worker itself ---------------------------------------------------------------------


async def test_a_fault_of_the_worker_ends_it_instead_of_hanging(
    registry: TaskRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, _, _ = gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])

        def broken(*values: object) -> None:
            raise RuntimeError("a fault")

        monkeypatch.setattr(bench.runtime.metrics, "observe", broken)
        gate.set()
        with pytest.raises(RuntimeError, match="a fault"):
            await bench.ended()


# --- draining --------------------------------------------------------------------------------------


async def test_drain_takes_nothing_new_lets_end_what_runs_and_deregisters(registry: TaskRegistry) -> None:
    gate, _, _ = gated(registry)
    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        bench.runtime.drain()
        await stream.until(lambda s: s.frames[-1].draining)
        credits = stream.credits
        stream.assign(assignment("late"))
        assert status(await stream.result("late")) == "INTERRUPTED"
        gate.set()
        await bench.ended()
        assert status(await stream.result("a")) == "SUCCESS"
        assert stream.credits == credits
        assert [request.session_epoch for request in bench.link.deregistrations] == [1]


async def test_what_outlasts_the_grace_is_interrupted(registry: TaskRegistry) -> None:
    gated(registry)
    async with working(registry, drain_grace_s=0.02) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        stream.push(drain=True)
        await bench.ended()
        assert status(await stream.result("a")) == "INTERRUPTED"


async def test_drain_flushes_the_logs_of_ended_attempts(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> None:
        for number in range(1000):
            ctx.log.info("line %d", number)

    link = FakeLink(log_answers=Answers(LinkError("UNAVAILABLE", "", "busy"), True))
    async with working(registry, link) as bench:
        stream = await link.stream()
        stream.assign(assignment("a"))
        await stream.result("a")
        bench.runtime.drain()
        await bench.ended()
        assert link.log_lines["a"] == [f"line {number}" for number in range(1000)]


async def test_a_draining_worker_waits_for_its_acknowledgements(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler() -> None: ...

    link = FakeLink(acknowledge=False)
    async with working(registry, link) as bench:
        first = await link.stream(1)
        first.assign(assignment("a"))
        await first.result("a")
        bench.runtime.drain()
        first.fail("UNAVAILABLE")
        second = await link.stream(2)
        assert second.frames[0].draining
        second.ack(await second.result("a"))
        await bench.ended()
        assert len(link.deregistrations) == 1
