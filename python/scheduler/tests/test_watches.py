"""Watches: nobody waits for a leader that has ended."""

from __future__ import annotations

import asyncio

from taskyard_scheduler.watches import Watches


async def test_a_watch_ends_with_its_leader() -> None:
    watches = Watches()
    watch = watches.open(["a"])
    watches.end_all("NOT_LEADER")
    async with asyncio.timeout(1):
        await watch.wait()
    assert watch.ended == "NOT_LEADER"


async def test_a_watch_that_comes_after_its_leaders_end_has_ended() -> None:
    watches = Watches()
    watches.end_all("NOT_LEADER")
    woken: list[bool] = []
    watch = watches.open(["a"], lambda: woken.append(True))
    async with asyncio.timeout(1):
        await watch.wait()
    assert watch.ended == "NOT_LEADER"
    assert woken
    watches.close(watch)
    assert watches.count == 0
