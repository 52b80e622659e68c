from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from worker_fakes import assignment, status, working

from taskyard.v1.workers_pb2 import CancelAttempt
from taskyard_worker import Context, TaskRegistry

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="clean")


async def test_a_timeout_inside_a_handler_that_does_not_wait_hits_only_that_handler() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler(number: int) -> str:
        try:
            async with asyncio.timeout(0.0 if number % 2 else 10):
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        except TimeoutError:
            return "timed out"
        return "in time"

    async with working(registry, slots=50) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(n), input_json=f'{{"number": {n}}}') for n in range(40)))
        for number in range(40):
            result = await stream.result(str(number))
            assert result.output_json == ('"timed out"' if number % 2 else '"in time"')


async def test_handlers_run_inside_a_task_and_may_use_task_groups() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler() -> list[int]:
        assert asyncio.current_task() is not None
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(asyncio.sleep(0, number)) for number in range(3)]
        return [part.result() for part in parts]

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(n)) for n in range(5)))
        for number in range(5):
            assert (await stream.result(str(number))).output_json == "[0,1,2]"


async def test_context_variables_do_not_leak_from_one_task_to_the_next() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler(ctx: Context) -> str:
        found = VARIABLE.get()
        VARIABLE.set(ctx.task_id)
        return found

    @registry.task("threaded")
    def threaded(ctx: Context) -> str:
        found = VARIABLE.get()
        VARIABLE.set(ctx.task_id)
        return found

    async with working(registry, slots=50) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(n)) for n in range(20)))
        stream.assign(*(assignment(f"t{n}", "threaded") for n in range(20)))
        await stream.until(lambda s: len(s.results) == 40)
        assert {result.output_json for result in stream.results} == {'"clean"'}


async def test_handlers_that_wait_do_not_hold_up_those_behind_them() -> None:
    registry = TaskRegistry()
    gate = asyncio.Event()

    @registry.task("slow")
    async def slow() -> None:
        await gate.wait()

    @registry.task("quick")
    async def quick() -> None: ...

    async with working(registry, slots=200) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(f"{kind}{n}", kind) for n in range(90) for kind in ("slow", "quick")))
        await stream.until(lambda s: len(s.results) == 90 and len(s.started) == 90)
        gate.set()
        await stream.until(lambda s: len(s.results) == 180)


async def test_a_cancel_hits_one_of_many_that_share_the_loop() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler() -> str:
        await asyncio.sleep(0)
        return "done" if not waiting.is_set() else await forever()

    waiting = asyncio.Event()

    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    async with working(registry, slots=20) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(f"a{n}") for n in range(5)))
        await stream.until(lambda s: len(s.results) == 5)
        waiting.set()
        stream.assign(*(assignment(f"b{n}") for n in range(5)))
        await stream.until(lambda s: sum(token.startswith("b") for token in s.started) == 5)
        stream.push(cancels=[CancelAttempt(task_id="task-b3", attempt_token="b3", reason="cancelled", grace_ms=1000)])
        assert status(await stream.result("b3")) == "CANCELLED"
        assert bench.runtime.work.active == 4


async def test_threads_run_at_once_as_many_as_there_are_slots() -> None:
    registry = TaskRegistry()
    together = threading.Barrier(8)

    @registry.task("work")
    def handler() -> int:
        return together.wait(10)

    async with working(registry, slots=8) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(n)) for n in range(8)))
        await stream.until(lambda s: len(s.results) == 8)
        assert {status(result) for result in stream.results} == {"SUCCESS"}


async def test_blocking_from_an_async_handler_is_refused_with_the_way_out() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler(ctx: Context, how: str) -> Any:
        return ctx.wait_cancelled() if how == "wait" else ctx.checkpoint_sync(1)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(
            assignment("a", input_json='{"how": "wait"}'), assignment("b", input_json='{"how": "checkpoint"}')
        )
        assert "awaits asyncio.sleep instead" in (await stream.result("a")).error_message
        assert "awaits ctx.checkpoint" in (await stream.result("b")).error_message


async def test_the_loop_is_looked_at_between_handlers_that_hold_it() -> None:
    registry = TaskRegistry()
    order: list[str] = []

    @registry.task("work")
    async def handler(ctx: Context) -> None:
        order.append(ctx.task_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.006
        while loop.time() < until:
            pass
        loop.call_soon(order.append, "loop")

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(n)) for n in range(4)))
        await stream.until(lambda s: len(s.results) == 4)
        assert order == ["task-0", "loop", "task-1", "loop", "task-2", "loop", "task-3", "loop"]
