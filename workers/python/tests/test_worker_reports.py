"""What a running attempt tells of itself: progress, of which the newest wins, and checkpoints, each acknowledged."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from worker_fakes import assignment, order, status, working

from taskyard.v1.workers_pb2 import CheckpointAck
from taskyard_worker import Context, TaskRegistry


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
