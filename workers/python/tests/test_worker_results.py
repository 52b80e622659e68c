"""What becomes of an attempt is told: its start, its result, its kind of failure, in frames of bounded size."""

from __future__ import annotations

import asyncio
import builtins
import json
from typing import Any

import pytest
from worker_fakes import assignment, gated, order, status, working

from taskyard_worker import Context, InvalidInput, NonRetryable, PermissionDenied, TaskRegistry


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


class Strange(BaseException):
    """Neither an error nor one of those that Python knows; cannot even say what it is."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


class StrangeRefusal(NonRetryable):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def make(kind: type[BaseException]) -> BaseException:
    if issubclass(kind, BaseExceptionGroup):
        return kind("strange", [ValueError() if issubclass(kind, Exception) else KeyboardInterrupt()])
    if issubclass(kind, UnicodeDecodeError):
        return kind("utf-8", b"x", 0, 1, "strange")
    if issubclass(kind, UnicodeEncodeError):
        return kind("utf-8", "x", 0, 1, "strange")
    if issubclass(kind, UnicodeTranslateError):
        return kind("x", 0, 1, "strange")
    return kind("strange")


EVERY_KIND = sorted(
    {kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)}
    | {asyncio.CancelledError, Strange, StrangeRefusal},
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("task_type", ["at_once", "later", "thread"])
async def test_whatever_a_handler_raises_fails_its_attempt_and_nothing_else(
    registry: TaskRegistry, task_type: str
) -> None:
    @registry.task("at_once")
    async def at_once(number: int) -> None:
        raise make(EVERY_KIND[number])

    @registry.task("later")
    async def later(number: int) -> None:
        await asyncio.sleep(0)
        raise make(EVERY_KIND[number])

    @registry.task("thread")
    def thread(number: int) -> None:
        raise make(EVERY_KIND[number])

    @registry.task("good")
    async def good() -> None: ...

    async with working(registry, slots=len(EVERY_KIND)) as bench:
        stream = await bench.link.stream()
        for number in range(len(EVERY_KIND)):
            stream.assign(assignment(str(number), task_type, input_json=json.dumps({"number": number})))
        for number, kind in enumerate(EVERY_KIND):
            result = await stream.result(str(number))
            assert status(result) == "FAILED"
            assert result.error_kind == ("NON_RETRYABLE" if kind is StrangeRefusal else "HANDLER_ERROR")
            says = "was cancelled" if kind is asyncio.CancelledError else kind.__name__
            assert says in result.error_message
        stream.assign(assignment("after", "good"))
        assert status(await stream.result("after")) == "SUCCESS"
        assert not bench.task.done()


@pytest.mark.parametrize("task_type", ["loop", "thread"])
async def test_a_handler_that_is_told_to_stop_may_raise_anything(registry: TaskRegistry, task_type: str) -> None:
    @registry.task("loop")
    async def loop(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise make(EVERY_KIND[number])

    @registry.task("thread")
    def thread(ctx: Context, number: int) -> None:
        ctx.wait_cancelled(30)
        raise make(EVERY_KIND[number])

    async with working(registry, slots=len(EVERY_KIND)) as bench:
        stream = await bench.link.stream()
        for number in range(len(EVERY_KIND)):
            stream.assign(assignment(str(number), task_type, input_json=json.dumps({"number": number})))
        await stream.until(lambda s: len(s.started) == len(EVERY_KIND))
        stream.push(cancels=[order(str(number)) for number in range(len(EVERY_KIND))])
        for number in range(len(EVERY_KIND)):
            assert status(await stream.result(str(number))) == "CANCELLED"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit, Strange, asyncio.CancelledError])
async def test_the_end_of_the_worker_ends_a_handler_whatever_it_then_raises(
    registry: TaskRegistry, kind: type[BaseException]
) -> None:
    @registry.task("work")
    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise make(kind)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        bench.task.cancel()
        await asyncio.wait((bench.task,), timeout=5)
        assert bench.task.cancelled()


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
        assert "the handler returned" in result.error_message or "the output has more than" in result.error_message


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
