"""What the election port promises, asked of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from taskyard_scheduler.election import open_election
from taskyard_scheduler.election.memory import Ballot, MemoryElection
from taskyard_scheduler.store.port import Election

Candidate = Callable[[], Election]


@pytest.fixture(params=["local", "memory", "database"])
async def candidate(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Candidate]:
    """Gives a function that makes one more candidate of the same cluster."""
    kind = request.param
    url = request.getfixturevalue("mariadb_url") if kind == "database" else "sqlite:///unused"
    made: list[Election] = []
    ballot = Ballot()

    def make() -> Election:
        election = MemoryElection(ballot) if kind == "memory" else open_election(kind, url=url, data=tmp_path)
        made.append(election)
        return election

    yield make
    for election in made:
        await election.resign()


async def test_one_wins_and_the_next_waits_for_its_end(candidate: Candidate) -> None:
    first, second = candidate(), candidate()
    await first.campaign()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(second.campaign(), name="second")
        await asyncio.sleep(0)
        assert not waiting.done()
        await first.resign()
    await second.resign()


async def test_a_leader_does_not_lose_by_itself(candidate: Candidate) -> None:
    first = candidate()
    await first.campaign()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(first.lost(), 2.5)  # longer than a keepalive
    await first.resign()


async def test_a_cancelled_campaign_leaves_the_way_free(candidate: Candidate) -> None:
    first, second, third = candidate(), candidate(), candidate()
    await first.campaign()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.campaign(), 0.05)
    await second.resign()
    await first.resign()
    await asyncio.wait_for(third.campaign(), 5)


async def test_who_resigned_may_campaign_again(candidate: Candidate) -> None:
    first = candidate()
    await first.resign()
    for _ in range(3):
        await first.campaign()
        await first.resign()
        await first.resign()


async def test_many_candidates_lead_one_after_the_other(candidate: Candidate) -> None:
    leading = 0
    terms: list[int] = []

    async def run(number: int) -> None:
        nonlocal leading
        mine = candidate()
        await mine.campaign()
        leading += 1
        assert leading == 1
        await asyncio.sleep(0)
        terms.append(number)
        leading -= 1
        await mine.resign()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(run(number), name=f"candidate {number}")
    assert sorted(terms) == [0, 1, 2, 3, 4]


def test_each_kind_names_itself(tmp_path: Path) -> None:
    assert open_election("local", url="sqlite:///x", data=tmp_path).name == "local"
    assert open_election("database", url="mysql+pymysql://root@localhost/x", data=tmp_path).name == "database"
