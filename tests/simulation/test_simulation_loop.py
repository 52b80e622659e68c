"""The virtual loop by itself: time, death, pauses, deadlocks, and what it refuses."""

from __future__ import annotations

import asyncio
import random

import pytest

from simulation.loop import Stuck, VirtualLoop


def make_loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(random.Random(seed))


def test_simulation_loop_time_jumps() -> None:
    loop = make_loop()

    async def work() -> float:
        await asyncio.sleep(3_600.0)
        return loop.time()

    assert loop.run(work(), until=10_000.0) == 4_600.0


def test_simulation_loop_kill_runs_no_clean_up() -> None:
    loop = make_loop()
    seen: list[str] = []

    async def victim() -> None:
        try:
            await asyncio.sleep(5.0)
            seen.append("survived")
        finally:
            seen.append("cleaned up")

    async def work() -> list[str]:
        process = loop.spawn("victim")
        loop.start(process, victim(), "victim")
        await asyncio.sleep(1.0)
        loop.kill(process)
        await asyncio.sleep(10.0)
        return list(seen)

    assert loop.run(work(), until=2_000.0) == []
    loop.dispose()


def test_simulation_loop_paused_process_goes_on_later() -> None:
    loop = make_loop()
    at: list[float] = []

    async def sleeper() -> None:
        await asyncio.sleep(1.0)
        at.append(loop.time())

    async def work() -> None:
        process = loop.spawn("sleeper")
        loop.start(process, sleeper(), "sleeper")
        await asyncio.sleep(0.5)
        loop.pause(process)
        await asyncio.sleep(4.0)
        loop.resume(process)
        await asyncio.sleep(1.0)

    loop.run(work(), until=2_000.0)
    assert at == [1_004.5]


def test_simulation_loop_deadlock_is_told_with_where_everybody_waits() -> None:
    loop = make_loop()

    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"(?s)deadlock.*wait"):
        loop.run(work(), until=2_000.0)
    loop.dispose()


def test_simulation_loop_endless_spin_is_told() -> None:
    loop = make_loop()

    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="time stands still"):
        loop.run(work(), until=2_000.0)
    loop.dispose()


def test_simulation_loop_overdue_end_is_told() -> None:
    loop = make_loop()

    async def work() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(1.0)

    with pytest.raises(Stuck, match="not done at 1010"):
        loop.run(work(), until=1_010.0)
    loop.dispose()


def test_simulation_loop_order_between_processes_is_the_seeds() -> None:
    def order(seed: int) -> str:
        loop = make_loop(seed)
        said: list[str] = []

        async def speak(name: str) -> None:
            for _ in range(5):
                said.append(name)
                await asyncio.sleep(0)

        async def work() -> None:
            for name in "abc":
                loop.start(loop.spawn(name), speak(name), name)
            await asyncio.sleep(1.0)

        loop.run(work(), until=2_000.0)
        return "".join(said)

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(10)}) > 5


def test_simulation_loop_refuses_threads_and_sockets() -> None:
    loop = make_loop()

    async def thread() -> None:
        await asyncio.to_thread(print)

    async def socket() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    with pytest.raises(AssertionError, match="threads are behind a port"):
        loop.run(thread(), until=2_000.0)
    with pytest.raises(NotImplementedError):
        loop.run(socket(), until=2_000.0)
