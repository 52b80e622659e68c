"""At most one attempt: an exclusive one starts once its lease is confirmed, and one that is lost stops."""

from __future__ import annotations

from functools import partial
from unittest.mock import Mock

from worker_fakes import Answers, FakeLink, assignment, gated, order, status, working

from taskyard.v1.workers_pb2 import HeartbeatResponse
from taskyard_worker import TaskRegistry
from taskyard_worker.exclusive import can_be_isolated
from taskyard_worker.link import LinkError
from taskyard_worker.registry import make_handler
from taskyard_worker.settings import WorkerSettings
from taskyard_worker.tasks.builtin import builtin_handlers


async def exclusive_work() -> str:
    return "alone"


class Bound:
    async def work(self) -> str:
        return "of an object that no other process has"


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


async def test_an_exclusive_task_whose_handler_cannot_be_isolated_fails_at_once_and_says_why(
    registry: TaskRegistry,
) -> None:
    gated(registry)  # defined inside a function: no other process could find it

    @registry.task("threaded")
    def threaded() -> None: ...

    registry.add(make_handler("bound", Bound().work))
    registry.add(make_handler("partial", partial(exclusive_work)))
    async with working(registry) as bench:
        stream = await bench.link.stream()
        types = {"work": "at the top", "threaded": "at the top", "bound": "a method", "partial": "at the top"}
        stream.assign(*(assignment(name, name, exclusive=True) for name in types))
        for name, why in types.items():
            result = await stream.result(name)
            assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
            assert f"task type {name!r} cannot be exclusive" in result.error_message
            assert why in result.error_message
            assert "leave 'exclusive' out" in result.error_message
        assert bench.isolation.ran == []


async def test_built_in_types_are_exclusive_or_say_that_they_cannot_be(registry: TaskRegistry) -> None:
    settings = WorkerSettings(llm_base_url="http://127.0.0.1:1/v1")
    for handler in builtin_handlers(Mock(), {}, settings):
        registry.add(handler)
    refused = {handler.name for handler in registry if not (handler.killable or can_be_isolated(handler))}
    assert refused == {"embedding", "index", "search", "llm_call"}
    async with working(registry, slots=4) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(name, name, exclusive=True) for name in sorted(refused)))
        for name in refused:
            result = await stream.result(name)
            assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
            assert f"task type {name!r} cannot be exclusive" in result.error_message
