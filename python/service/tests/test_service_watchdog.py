from __future__ import annotations

import asyncio

from taskyard_service.watchdog import Stall, Watchdog


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def made(limit_s: float = 30.0) -> tuple[Watchdog, Clock, list[Stall]]:
    clock, stalls = Clock(), list[Stall]()
    return Watchdog(stalls.append, limit_s=limit_s, clock=clock), clock, stalls


async def test_work_without_progress_is_reported_once_and_its_end_too() -> None:
    watchdog, clock, stalls = made()
    progress = watchdog.watch("committer", lambda: True)
    for _ in range(5):
        clock.now_s += 10
        watchdog.check()
    assert stalls == [Stall("committer", 30.0, over=False)]
    assert watchdog.stalled() == ["committer"]
    progress.mark()
    watchdog.check()
    assert stalls[1] == Stall("committer", 50.0, over=True)
    assert watchdog.stalled() == []


async def test_a_loop_that_has_nothing_to_do_does_not_stand_still() -> None:
    watchdog, clock, stalls = made()
    waiting = False
    watchdog.watch("dispatch", lambda: waiting)
    clock.now_s += 1_000
    watchdog.check()
    waiting = True
    clock.now_s += 29
    watchdog.check()
    assert stalls == []
    clock.now_s += 1
    watchdog.check()
    assert [stall.seconds for stall in stalls] == [30.0]


async def test_a_busy_loop_that_advances_is_fine() -> None:
    watchdog, clock, stalls = made()
    progress = watchdog.watch("committer", lambda: True)
    for _ in range(100):
        clock.now_s += 25
        progress.mark()
        watchdog.check()
    assert stalls == []


async def test_it_looks_each_period_and_measures_lateness_until_stopped() -> None:
    lags: list[float] = []
    seen = asyncio.Event()

    def observe(lag_s: float) -> None:
        lags.append(lag_s)
        if len(lags) == 3:
            seen.set()

    stalls: list[Stall] = []
    watchdog = Watchdog(stalls.append, limit_s=0.001, period_s=0.005, observe_lag=observe)
    watchdog.watch("stuck", lambda: True)
    await watchdog.start()
    running = asyncio.create_task(watchdog.run(), name="watchdog")
    await asyncio.wait_for(seen.wait(), 10)
    await watchdog.stop()
    await asyncio.wait_for(running, 10)
    assert [stall.name for stall in stalls] == ["stuck"]
    assert all(0 <= lag_s < 10 for lag_s in lags)
