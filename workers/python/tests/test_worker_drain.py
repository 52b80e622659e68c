"""A worker that drains takes nothing new, ends or interrupts what runs, and leaves with everything told."""

from __future__ import annotations

from worker_fakes import PATIENCE_S, Answers, FakeLink, assignment, gated, status, working

from taskyard_worker import Context, TaskRegistry
from taskyard_worker.link import LinkError
from taskyard_worker.runtime import ACKNOWLEDGE_S


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


async def test_a_draining_worker_does_not_wait_for_a_scheduler_that_is_gone(registry: TaskRegistry) -> None:
    """Neither with its result nor with its log lines; what runs there has all its grace."""
    gate, _, _ = gated(registry)
    link = FakeLink(acknowledge=False)
    async with working(registry, link, reach_grace_s=0.02, drain_grace_s=PATIENCE_S) as bench:
        stream = await link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        link.open_answers = link.log_answers = Answers(LinkError("UNAVAILABLE", "", "refused"))
        stream.fail("UNAVAILABLE")
        bench.runtime.drain()
        await bench.runtime.session.out_of_reach(0.02)
        assert not bench.task.done()
        bench.runtime.work.running[0].write_log("INFO", "the last line")
        began = bench.runtime.work.loop.time()
        gate.set()
        await bench.ended()
        assert bench.runtime.work.loop.time() - began < ACKNOWLEDGE_S / 2
        assert bench.runtime.work.unacknowledged == 1
