"""A scheduler is killed with kill -9 under load, several times, at random moments: nothing is lost or doubled."""

from __future__ import annotations

import random

import pytest

from e2e.history import check
from e2e.load import Load
from e2e.process import Process, until
from e2e.site import Site


async def kill_and_restart(site: Site, load: Load, rng: random.Random, scheduler: Process, kills: int) -> None:
    for _ in range(kills):
        await load.reach(rng.randint(1, 120), rng.choice([lambda: load.accepted, lambda: load.ended]))
        scheduler.kill()
        scheduler = await site.start_scheduler()
    await load.reach(60, lambda: load.ended)


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=[pytest.mark.long, pytest.mark.timeout(400)])])
async def test_a_scheduler_killed_under_load_loses_nothing(any_site: Site, rng: random.Random, kills: int) -> None:
    scheduler = await any_site.start_scheduler()
    for _ in range(2):
        await any_site.start_worker()
    load = Load(any_site, rng)
    await load.during(kill_and_restart(any_site, load, rng, scheduler, kills), within=60 + 30 * kills)
    await check(any_site, load.history)


@pytest.mark.long
async def test_worker_and_scheduler_killed_under_load(any_site: Site, rng: random.Random) -> None:
    scheduler = await any_site.start_scheduler()
    await any_site.start_worker("stays")
    worker = await any_site.start_worker("dies")
    load = Load(any_site, rng)

    async def story() -> None:
        nonlocal scheduler, worker
        for _ in range(2):
            await load.reach(rng.randint(1, 100))
            first, second = rng.sample([scheduler, worker], 2)
            first.kill()
            second.kill()
            scheduler = await any_site.start_scheduler()
            worker = await any_site.start_worker("dies")
        await load.reach(60, lambda: load.ended)

    await load.during(story())
    await check(any_site, load.history)


async def test_a_worker_that_stops_after_the_scheduler_sends_its_log_lines_at_its_next_start(any_site: Site) -> None:
    """`taskyard dev` ends so when its scheduler is killed."""
    scheduler = await any_site.start_scheduler()
    patience = {"TASKYARD_REACH_GRACE_S": "0.5", "TASKYARD_DRAIN_GRACE_S": "60"}
    worker = await any_site.start_worker("stays", settings=patience)
    gate = any_site.folder / "gate"
    handle = await any_site.client().submit("talk_until", {"gate": str(gate)})
    await anext(handle.logs(follow=True))
    scheduler.kill()
    gate.touch()
    assert await worker.terminate() == 0
    [kept] = [event for event in worker.events() if event["event"] == "log lines stay on disk for the next start"]
    assert (kept["count"], kept["tasks"]) == (1, [handle.id])
    await any_site.start_scheduler()
    await any_site.start_worker("stays")
    assert (await handle.wait(60)).attempt == 1

    async def lines() -> bool:
        return [line.content.text async for line in handle.logs()] == ["before", "after"]

    await until(lines, what="the line that was kept")
