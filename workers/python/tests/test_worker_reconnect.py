"""A stream breaks: nothing is lost, nothing runs twice, and the next stream hears what the last may not have."""

from __future__ import annotations

import asyncio
import json

from worker_fakes import Answers, FakeLink, Signal, assignment, gated, order, status, working

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard.v1.workers_pb2 import AssignTaskRequest, RegisterResponse, TaskResult
from taskyard_worker import TaskRegistry
from taskyard_worker.link import LinkError
from taskyard_worker.spool import MemorySpool


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
