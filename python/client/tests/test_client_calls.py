"""Calls: what is tried again, when, for how long, and what is said in the end."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from scripted_transport import ScriptedTransport
from virtual_loop import run_virtually

from taskyard.v1.tasks_pb2 import (
    GetTaskRequest,
    GetTaskResponse,
    StreamLogsRequest,
    StreamLogsResponse,
)
from taskyard_client.calls import Caller
from taskyard_client.errors import DeadlineExceeded, NotFound, Overloaded, TaskyardError, Unavailable
from taskyard_client.methods import GET_TASK, STREAM_LOGS
from taskyard_client.statuses import error_of


def failure(code: str, **details: Any) -> TaskyardError:
    return error_of(code, "scripted", address="test:1", **details)


class Unary:
    """Fails with each of the errors in turn, then answers."""

    def __init__(self, *errors: TaskyardError) -> None:
        self.errors = list(errors)
        self.transport = ScriptedTransport(self.answer)

    async def answer(self, method: Any, request: Any) -> GetTaskResponse:
        if self.errors:
            raise self.errors.pop(0)
        return GetTaskResponse()

    def call(self, timeout: float = 30.0, seed: int = 1) -> None:
        caller = Caller(self.transport, timeout=timeout, rng=random.Random(seed))
        run_virtually(caller.call(GET_TASK, GetTaskRequest(task_id="a")))

    @property
    def waits(self) -> list[float]:
        times = self.transport.times
        return [later - earlier for earlier, later in itertools.pairwise(times)]


@pytest.mark.parametrize("seed", range(20))
def test_unavailable_is_tried_four_times_with_growing_jittered_waits(seed: int) -> None:
    script = Unary(*[failure("UNAVAILABLE")] * 9)
    with pytest.raises(Unavailable) as caught:
        script.call(seed=seed)
    assert len(script.transport.times) == 4
    for wait, wanted in zip(script.waits, (0.1, 0.2, 0.4), strict=True):
        assert wanted * 0.8 <= wait <= wanted * 1.2
    assert caught.value.attempts == 4
    assert str(caught.value).endswith("[TaskService.GetTask, tried 4 times]")


def test_jitter_comes_from_the_given_source() -> None:
    def waits(seed: int) -> list[float]:
        script = Unary(*[failure("UNAVAILABLE")] * 3)
        script.call(seed=seed)
        return script.waits

    assert waits(7) == waits(7)
    assert waits(7) != waits(8)


def test_success_after_failures_is_a_success() -> None:
    script = Unary(failure("UNAVAILABLE"), failure("UNAVAILABLE"))
    script.call()
    assert len(script.transport.times) == 3


@pytest.mark.parametrize(
    "code",
    ["NOT_FOUND", "INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED", "INTERNAL", "UNKNOWN",
     "ABORTED", "FAILED_PRECONDITION", "OUT_OF_RANGE", "ALREADY_EXISTS", "DEADLINE_EXCEEDED",
     "RESOURCE_EXHAUSTED"],
)  # fmt: skip
def test_everything_else_is_not_tried_again(code: str) -> None:
    script = Unary(failure(code))
    with pytest.raises(TaskyardError):
        script.call()
    assert len(script.transport.times) == 1


def test_overload_with_retry_info_waits_as_long_as_it_says() -> None:
    script = Unary(failure("RESOURCE_EXHAUSTED", retry_after=3.0))
    script.call()
    assert script.waits == [3.0]


def test_all_attempts_share_one_deadline() -> None:
    script = Unary(*[failure("UNAVAILABLE")] * 3)
    script.call(timeout=10)
    spent = [time - script.transport.times[0] for time in script.transport.times]
    assert script.transport.timeouts == pytest.approx([10 - each for each in spent])


def test_no_wait_that_would_pass_the_deadline() -> None:
    script = Unary(failure("RESOURCE_EXHAUSTED", retry_after=60.0))
    with pytest.raises(Overloaded) as caught:
        script.call(timeout=30)
    assert caught.value.retry_after == 60.0
    assert len(script.transport.times) == 1


def test_silence_ends_at_the_deadline() -> None:
    async def silent(method: Any, request: Any) -> Any:
        await asyncio.sleep(3600)

    async def scenario() -> None:
        transport = ScriptedTransport(silent)
        caller = Caller(transport, timeout=30, rng=random.Random(1))
        start = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceeded, match=r"TaskService\.GetTask"):
            await caller.call(GET_TASK, GetTaskRequest(), timeout=5)
        assert asyncio.get_running_loop().time() - start == pytest.approx(5)

    run_virtually(scenario())


class Stream:
    """Each opening goes through one list: integers are answers, errors are raised, floats are waits."""

    def __init__(self, *openings: list[Any]) -> None:
        self.openings = list(openings)
        self.transport = ScriptedTransport(stream=self.stream)
        self.caller = Caller(self.transport, timeout=30, rng=random.Random(1))
        self.seen: list[int] = []

    async def stream(self, method: Any, request: Any) -> AsyncGenerator[Any, None]:
        for step in self.openings.pop(0) if self.openings else [failure("UNAVAILABLE")]:
            if isinstance(step, TaskyardError):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            response = StreamLogsResponse()
            response.lines.add(line=step)
            yield response

    async def read(self, wanted: int) -> None:
        def request() -> StreamLogsRequest:
            return StreamLogsRequest(after_line=self.seen[-1] if self.seen else 0)

        async for response in self.caller.stream(STREAM_LOGS, request, lambda: len(self.seen) >= wanted):
            self.seen.append(response.lines[0].line)


def test_a_cut_stream_goes_on_from_what_was_seen() -> None:
    script = Stream([1, 2, failure("UNAVAILABLE")], [failure("UNAVAILABLE")], [3])
    run_virtually(script.read(3))
    assert script.seen == [1, 2, 3]
    assert [request.after_line for request in script.transport.requests] == [0, 2, 2]


def test_a_clean_end_before_everything_was_seen_is_a_cut() -> None:
    script = Stream([1], [2])
    run_virtually(script.read(2))
    assert script.seen == [1, 2]


def test_a_stream_is_given_up_after_the_timeout() -> None:
    script = Stream([1])
    with pytest.raises(Unavailable, match=r"StreamLogs, tried \d+ times"):
        run_virtually(script.read(9))
    lasted = script.transport.times[-1] - script.transport.times[0]
    assert 20 < lasted < 30


def test_a_quiet_stream_is_not_a_failing_one() -> None:
    script = Stream([1, 3600.0, failure("UNAVAILABLE")], [3600.0, failure("UNAVAILABLE")], [2])
    run_virtually(script.read(2))
    assert script.seen == [1, 2]


def test_what_cannot_help_ends_a_stream() -> None:
    script = Stream([1, failure("NOT_FOUND")])
    with pytest.raises(NotFound):
        run_virtually(script.read(9))
    assert len(script.transport.times) == 1
