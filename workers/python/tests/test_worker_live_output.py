"""What a handler gives out as it comes: gathered, in order, seen before the attempt ends, complete once it has."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from worker_fakes import FakeLink, assignment, working

from taskyard_worker import Context, TaskRegistry
from taskyard_worker.live_output import GATHER_S, MAX_GATHERED, LiveOutput


class ClockLoop:
    """As much of an event loop as LiveOutput uses, at a time that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Any) -> None:
        self.timers.append((when, call))

    def call_soon_threadsafe(self, call: Any, *args: Any) -> None:
        call(*args)

    def to(self, now: float) -> None:
        self.now = now
        due = [call for when, call in self.timers if when <= now]
        self.timers = [(when, call) for when, call in self.timers if when > now]
        for call in due:
            call()


@pytest.fixture
def loop() -> ClockLoop:
    return ClockLoop()


def live(loop: Any, sent: list[str]) -> LiveOutput:
    return LiveOutput(loop, sent.append)


def test_the_first_piece_leaves_at_once_and_what_follows_gathers(loop: ClockLoop) -> None:
    sent: list[str] = []
    output = live(loop, sent)
    output.write("a")
    output.write("b")
    output.write("c")
    assert sent == ["a"]
    assert len(loop.timers) == 1
    loop.to(100 + GATHER_S)
    assert sent == ["a", "bc"]
    output.write("d")
    assert sent == ["a", "bc"]
    loop.to(101)
    assert sent == ["a", "bc", "d"]
    loop.to(102)
    output.write("e")
    assert sent == ["a", "bc", "d", "e"]


def test_much_text_does_not_wait(loop: ClockLoop) -> None:
    sent: list[str] = []
    output = live(loop, sent)
    output.write("a")
    output.write("x" * MAX_GATHERED)
    assert [len(text) for text in sent] == [1, MAX_GATHERED]


def test_what_has_gathered_is_sent_when_it_is_asked_for(loop: ClockLoop) -> None:
    sent: list[str] = []
    output = live(loop, sent)
    output.write("a")
    output.write("b")
    output.flush()
    output.flush()
    loop.to(200)
    assert sent == ["a", "b"]


async def test_threads_lose_nothing_and_keep_their_order() -> None:
    sent: list[str] = []
    output = live(asyncio.get_running_loop(), sent)

    def write(name: str) -> None:
        for number in range(500):
            output.write(f"{name}{number} ")

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    output.flush()
    words = "".join(sent).split()
    assert [word for word in words if word[0] == "a"] == [f"a{number}" for number in range(500)]
    assert len(words) == 1000


async def test_it_is_seen_while_the_handler_runs_and_whole_when_it_has_ended(registry: TaskRegistry) -> None:
    gate = asyncio.Event()

    @registry.task("recite")
    async def recite(ctx: Context) -> str:
        await ctx.stream("To be, ")
        await gate.wait()
        await ctx.stream("or not")
        await ctx.stream(" to be\nthat is")
        await ctx.stream("")
        return "done"

    link = FakeLink()
    async with working(registry, link):
        stream = await link.stream()
        stream.assign(assignment("a", "recite"))
        await link.changed.until(lambda: link.given_out.get("a") == "To be, ")
        gate.set()
        await stream.result("a")
        await link.changed.until(lambda: link.given_out.get("a") == "To be, or not to be\nthat is")


async def test_a_log_line_comes_after_what_was_given_out_before_it(registry: TaskRegistry) -> None:
    @registry.task("mixed")
    def mixed(ctx: Context) -> None:
        ctx.stream_sync("one")
        ctx.stream_sync("two")
        ctx.log.info("three")
        ctx.stream_sync("four")

    link = FakeLink()
    async with working(registry, link):
        stream = await link.stream()
        stream.assign(assignment("a", "mixed"))
        await stream.result("a")
        await link.changed.until(lambda: len(link.log_lines.get("a", [])) == 4)
        assert link.log_lines["a"] == ["one", "two", "three", "four"]


async def test_a_handler_that_cannot_await_is_told_what_to_call(registry: TaskRegistry) -> None:

    @registry.task("wrong")
    def wrong(ctx: Context) -> None:
        ctx.stream("never awaited")  # type: ignore[unused-coroutine] # that is the fault

    link = FakeLink()
    async with working(registry, link):
        stream = await link.stream()
        stream.assign(assignment("a", "wrong"))
        result = await stream.result("a")
        assert "call ctx.stream_sync(...) here" in result.error_message


async def test_what_is_no_text_is_refused_where_it_is_given(registry: TaskRegistry) -> None:
    @registry.task("wrong")
    async def wrong(ctx: Context, given: Any) -> None:
        await ctx.stream(given)

    async with working(registry) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "wrong", input_json='{"given": 5}'))
        assert "ctx.stream takes text, not int" in (await stream.result("a")).error_message
