"""Losing leadership in the simulation's election."""

from __future__ import annotations

import asyncio

from taskyard_scheduler.election.memory import Ballot, MemoryElection


async def test_a_deposed_leader_is_told_and_the_next_leads() -> None:
    ballot = Ballot()
    first, second = MemoryElection(ballot), MemoryElection(ballot)
    await first.campaign()
    async with asyncio.TaskGroup() as group:
        group.create_task(second.campaign(), name="second")
        losing = group.create_task(first.lost(), name="losing")
        await asyncio.sleep(0)
        assert not losing.done()
        ballot.depose()
    assert ballot.leader is second
    await first.resign()  # changes nothing for the new leader
    assert ballot.leader is second


async def test_a_leader_may_not_know_that_another_leads() -> None:
    ballot = Ballot()
    first, second = MemoryElection(ballot), MemoryElection(ballot)
    await first.campaign()
    async with asyncio.TaskGroup() as group:
        group.create_task(second.campaign(), name="second")
        await asyncio.sleep(0)
        ballot.depose_silently()
    assert ballot.leader is second
    assert not first.told.is_set()


async def test_who_lost_may_win_again() -> None:
    ballot = Ballot()
    first = MemoryElection(ballot)
    await first.campaign()
    ballot.depose()
    await first.lost()
    await first.resign()
    await first.campaign()
    assert not first.told.is_set()
    assert ballot.leader is first


async def test_candidates_lead_in_the_order_in_which_they_came() -> None:
    ballot = Ballot()
    candidates = [MemoryElection(ballot) for _ in range(4)]
    led: list[int] = []

    async def lead(number: int) -> None:
        await candidates[number].campaign()
        led.append(number)
        await candidates[number].resign()

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(lead(number), name=f"candidate {number}")
    assert led == [0, 1, 2, 3]
