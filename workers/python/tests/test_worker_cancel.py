"""An attempt is told to stop, or runs out of time: it does, or the worker says that it does not."""

from __future__ import annotations

import asyncio
import threading

import pytest
from worker_fakes import Signal, assignment, gated, order, status, working

from taskyard_worker import Context, TaskRegistry


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
