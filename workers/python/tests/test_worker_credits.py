"""A worker says who it is and how many tasks may come: never more than it can hold."""

from __future__ import annotations

from worker_fakes import FakeStream, assignment, gated, working

from taskyard_worker import TaskRegistry


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
