"""Coalescing: nobody waits for company, each gets its own outcome, limits hold, failures arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_loop import run_virtually

from taskyard_client.background import Background
from taskyard_client.coalescer import MAX_BYTES, MAX_IN_FLIGHT, MAX_ITEMS, Coalescer
from taskyard_client.errors import ClientClosed, DeadlineExceeded, NotFound, ServerError, Unavailable


class Sink:
    """Receives calls: each takes a second and answers `item!`, unless told otherwise."""

    def __init__(self, size: int = 1) -> None:
        self.calls: list[list[str]] = []
        self.times: list[float] = []
        self.in_flight = self.most_in_flight = 0
        self.before_answer: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(1)
        self.background = Background()
        self.coalescer: Coalescer[str, str] = Coalescer("test", self.send, lambda _: size, self.background)

    async def send(self, items: list[str], timeout: float) -> Sequence[str]:
        self.calls.append(items)
        self.times.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with asyncio.timeout(timeout):
                await self.before_answer()
        except TimeoutError:
            raise DeadlineExceeded("late") from None
        finally:
            self.in_flight -= 1
        return [f"{item}!" for item in items]

    async def add(self, item: str, timeout: float = 30) -> str:
        return await self.coalescer.add(item, timeout)


def test_idle_an_item_goes_at_once_and_alone() -> None:
    async def scenario() -> None:
        sink = Sink()
        start = asyncio.get_running_loop().time()
        assert await sink.add("a") == "a!"
        assert sink.times == [start]

    run_virtually(scenario())


def test_what_arrives_together_goes_together() -> None:
    async def scenario() -> None:
        sink = Sink()
        names = [f"n{at}" for at in range(64)]
        assert await asyncio.gather(*(sink.add(name) for name in names)) == [f"{name}!" for name in names]
        assert sink.calls == [names]

    run_virtually(scenario())


def test_what_arrives_during_calls_goes_in_the_next() -> None:
    async def scenario() -> None:
        sink = Sink()
        early = [asyncio.ensure_future(sink.add("first"))]
        await asyncio.sleep(0.1)
        early.append(asyncio.ensure_future(sink.add("second")))
        await asyncio.sleep(0.1)
        late = [asyncio.ensure_future(sink.add(name)) for name in ("x", "y")]
        await asyncio.sleep(0.1)
        late.append(asyncio.ensure_future(sink.add("z")))
        await asyncio.gather(*early, *late)
        assert sink.calls == [["first"], ["second"], ["x", "y", "z"]]
        assert sink.most_in_flight == MAX_IN_FLIGHT == 2

    run_virtually(scenario())


def test_a_call_holds_no_more_than_the_limits() -> None:
    async def scenario() -> None:
        many = Sink()
        await asyncio.gather(*(many.add(str(at)) for at in range(MAX_ITEMS * 2 + 1)))
        assert [len(call) for call in many.calls] == [MAX_ITEMS, MAX_ITEMS, 1]
        large = Sink(size=MAX_BYTES // 2)
        await asyncio.gather(*(large.add(str(at)) for at in range(5)))
        assert [len(call) for call in large.calls] == [2, 2, 1]
        huge = Sink(size=MAX_BYTES + 1)
        await asyncio.gather(huge.add("a"), huge.add("b"))
        assert huge.calls == [["a"], ["b"]]

    run_virtually(scenario())


def test_a_failure_reaches_each_caller_of_that_call_and_no_other() -> None:
    async def scenario() -> None:
        sink = Sink()

        async def fail() -> None:
            sink.before_answer = lambda: asyncio.sleep(1)
            raise Unavailable("gone")

        sink.before_answer = fail
        first = await asyncio.gather(sink.add("a"), sink.add("b"), return_exceptions=True)
        assert [type(each) for each in first] == [Unavailable, Unavailable]
        assert first[0] is not first[1]
        assert await sink.add("c") == "c!"

    run_virtually(scenario())


def test_what_nobody_waits_for_any_longer_is_not_sent() -> None:
    async def scenario() -> None:
        sink = Sink()
        early = [asyncio.ensure_future(sink.add(name)) for name in ("a",)]
        await asyncio.sleep(0.1)
        early.append(asyncio.ensure_future(sink.add("b")))
        await asyncio.sleep(0.1)
        gone, kept = asyncio.ensure_future(sink.add("gone")), asyncio.ensure_future(sink.add("kept"))
        await asyncio.sleep(0.1)
        gone.cancel()
        await asyncio.gather(*early, kept)
        assert sink.calls[-1] == ["kept"]

    run_virtually(scenario())


def test_the_impatient_one_does_not_take_the_patient_along() -> None:
    async def scenario() -> None:
        sink = Sink()
        sink.before_answer = lambda: asyncio.sleep(3)
        short, long = asyncio.ensure_future(sink.add("s", 2)), asyncio.ensure_future(sink.add("l", 30))
        with pytest.raises(DeadlineExceeded):
            await short
        assert await long == "l!"
        assert sink.calls == [["s", "l"], ["l"]]

    run_virtually(scenario())


def test_another_number_of_outcomes_is_an_error_and_not_a_mix_up() -> None:
    async def scenario() -> None:
        async def send(items: list[str], timeout: float) -> Sequence[str]:
            return items[1:]

        coalescer: Coalescer[str, str] = Coalescer("test", send, len, Background())
        answers = await asyncio.gather(*(coalescer.add(x, 9) for x in "ab"), return_exceptions=True)
        assert [type(each) for each in answers] == [ServerError, ServerError]

    run_virtually(scenario())


@asynccontextmanager
async def waiting(sink: Sink, *names: str) -> AsyncIterator[list[asyncio.Task[str]]]:
    callers = [asyncio.ensure_future(sink.add(name)) for name in names]
    await asyncio.sleep(0.1)
    yield callers


def test_closing_fails_what_is_sent_and_what_waits() -> None:
    async def scenario() -> None:
        sink = Sink(size=MAX_BYTES)
        async with waiting(sink, "a", "b", "c") as callers:
            assert len(sink.calls) == MAX_IN_FLIGHT
            sink.coalescer.close()
            await sink.background.close()
        answers = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(each) for each in answers] == [ClientClosed] * 3
        with pytest.raises(ClientClosed):
            await sink.add("d")

    run_virtually(scenario())


@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.integers(1, MAX_BYTES)), min_size=1, max_size=60),
    st.sets(st.integers(0, 20)),
)
def test_whatever_happens_each_caller_gets_its_own(plan: list[tuple[int, bool, int]], failing: set[int]) -> None:
    async def scenario() -> None:
        sent: list[int] = []
        calls = 0

        async def send(items: list[tuple[int, int]], timeout: float) -> Sequence[int]:
            nonlocal calls
            calls += 1
            number = calls
            assert len(items) == 1 or sum(size for _, size in items) <= MAX_BYTES
            sent.extend(at for at, _ in items)
            await asyncio.sleep(0.01 * (number % 3))
            if number in failing:
                raise NotFound("scripted")
            return [at for at, _ in items]

        background = Background()
        coalescer: Coalescer[tuple[int, int], int] = Coalescer("t", send, lambda item: item[1], background)

        async def caller(at: int, delay: int, impatient: bool, size: int) -> None:
            await asyncio.sleep(delay / 1000)
            work = asyncio.ensure_future(coalescer.add((at, size), 30))
            if impatient:
                await asyncio.sleep(0)
                work.cancel()
            answers = await asyncio.gather(work, return_exceptions=True)
            assert answers[0] == at or isinstance(answers[0], NotFound | asyncio.CancelledError)

        await asyncio.gather(*(caller(at, *each) for at, each in enumerate(plan)))
        assert len(sent) == len(set(sent))
        assert set(sent) >= {at for at, (_, impatient, _) in enumerate(plan) if not impatient}

    run_virtually(scenario())
