"""A handler ends, and the result of its attempt comes from outside by the attempt's token."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from worker_fakes import Bench, FakeLink, assignment, order, status, wall_ms, working

from taskyard.v1.workers_pb2 import TaskResult
from taskyard_worker import Context, TaskRegistry
from taskyard_worker.keys import FileKeys
from taskyard_worker.spool import FileSpool

DAY_S = 24 * 3600


def nothing(event: str, /, **facts: object) -> None: ...


def open_spool(directory: Path) -> FileSpool:
    return FileSpool(directory, lambda: 0.0, nothing)


async def result_of(bench: Bench, token: str, *, task_type: str = "work", **fields: Any) -> TaskResult:
    stream = await bench.link.stream()
    stream.assign(assignment(token, task_type, **fields))
    return await stream.result(token)


async def test_each_kind_of_handler_may_let_its_result_come_from_outside(registry: TaskRegistry) -> None:
    tokens: list[str] = []

    @registry.task("at_once")
    async def at_once(ctx: Context) -> Any:
        tokens.append(ctx.completion_token)
        return ctx.defer(timeout=90)

    @registry.task("later")
    async def later(ctx: Context) -> Any:
        await asyncio.sleep(0)
        tokens.append(ctx.completion_token)
        return ctx.defer(timeout=timedelta(days=30))

    @registry.task("thread")
    def thread(ctx: Context) -> Any:
        tokens.append(ctx.completion_token)
        return ctx.defer()

    async with working(registry) as bench:
        for token, task_type, wait_s in (("a", "at_once", 90), ("b", "later", 30 * DAY_S), ("c", "thread", 0)):
            result = await result_of(bench, token, task_type=task_type)
            assert (status(result), result.defer_timeout_ms) == ("DEFERRED", wait_s * 1000)
            assert not result.output_json
            assert tokens[-1] == f"task-{token}.{token}"
        assert bench.runtime.work.active == 0


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, 30 * DAY_S + 1, timedelta(days=31), timedelta(0)])
async def test_a_wait_that_is_out_of_range_is_named(registry: TaskRegistry, timeout: Any) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return ctx.defer(timeout=timeout)

    async with working(registry) as bench:
        result = await result_of(bench, "a")
        assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")
        assert f"ctx.defer waits for {timeout!r}" in result.error_message
        assert "30 days" in result.error_message


async def test_the_shortest_wait_is_no_default(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return ctx.defer(timeout=0.0001)

    async with working(registry) as bench:
        assert (await result_of(bench, "a")).defer_timeout_ms == 1


@pytest.mark.parametrize(("value", "said"), [(None, "returned nothing"), ({"a": 1}, "returned a dict")])
async def test_a_handler_that_defers_and_returns_another_result_fails_once(
    registry: TaskRegistry, value: Any, said: str
) -> None:
    @registry.task("loop")
    async def loop(ctx: Context) -> Any:
        ctx.defer(timeout=90)
        return value

    @registry.task("thread")
    def thread(ctx: Context) -> Any:
        ctx.defer(timeout=90)
        return value

    async with working(registry) as bench:
        for token, task_type in (("a", "loop"), ("b", "thread")):
            result = await result_of(bench, token, task_type=task_type)
            assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
            assert said in result.error_message
            assert "return ctx.defer(...)" in result.error_message


async def test_a_handler_that_raises_after_all_fails(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        ctx.defer(timeout=90)
        raise ValueError("the letter could not be sent")

    async with working(registry) as bench:
        result = await result_of(bench, "a")
        assert (status(result), result.error_kind, result.defer_timeout_ms) == ("FAILED", "HANDLER_ERROR", 0)


async def test_the_last_wish_counts(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        ctx.defer(timeout=90)
        return ctx.defer(timeout=60)

    async with working(registry) as bench:
        assert (await result_of(bench, "a")).defer_timeout_ms == 60_000


async def test_its_key_is_not_remembered_so_that_a_redelivery_gives_out_its_own_token(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    tokens: list[str] = []

    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        tokens.append(ctx.completion_token)
        return ctx.defer()

    for token in ("a", "b"):  # each in a life of its own, with the same memory on disk
        async with working(registry, keys=FileKeys(tmp_path / "keys", wall_ms, nothing)) as bench:
            assert status(await result_of(bench, token, idempotency_key="key")) == "DEFERRED"
    assert tokens == ["task-a.a", "task-b.b"]


async def test_it_is_told_again_until_it_is_acknowledged_also_by_the_next_life(
    registry: TaskRegistry, tmp_path: Path
) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return ctx.defer(timeout=90)

    link = FakeLink(acknowledge=False)
    async with working(registry, link, spool=open_spool(tmp_path)) as bench:
        first = await link.stream(1)
        first.assign(assignment("a"))
        await first.result("a")
        first.fail("UNAVAILABLE")
        second = await link.stream(2)
        assert [held.attempt_token for held in second.frames[0].hello.attempts] == ["a"]
        again = await second.result("a")
        assert (status(again), again.defer_timeout_ms) == ("DEFERRED", 90_000)
        assert bench.runtime.work.unacknowledged == 1
    link = FakeLink()
    async with working(registry, link, spool=open_spool(tmp_path)):
        third = await link.stream(1)
        kept = await third.result("a")
        assert (status(kept), kept.defer_timeout_ms) == ("DEFERRED", 90_000)
        third.end()
        assert not (await link.stream(2)).frames[0].hello.attempts


async def test_a_worker_that_drains_does_not_wait_for_what_is_deferred(registry: TaskRegistry) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return ctx.defer()

    async with working(registry) as bench:
        await result_of(bench, "a")
        bench.runtime.drain()
        await bench.ended()
        assert len(bench.link.deregistrations) == 1


@pytest.mark.parametrize(("reason", "said"), [("cancelled", "CANCELLED"), ("drained", "DEFERRED")])
async def test_a_handler_that_defers_while_it_is_told_to_stop(registry: TaskRegistry, reason: str, said: str) -> None:
    """What was cancelled ends as ordered; the end of the worker takes nothing from what has deferred."""

    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ctx.defer(timeout=90)

    async with working(registry, drain_grace_s=0.02) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        if reason == "drained":
            bench.runtime.drain()
        else:
            stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == said
