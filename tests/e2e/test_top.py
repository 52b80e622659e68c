"""`taskyard top` on a real scheduler: what it shows, whom it lets act, what it outlives, and what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psutil
from textual.pilot import Pilot

from e2e.process import until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_cli.top.panes import Pane
from taskyard_cli.top.reading import Reader
from taskyard_cli.top.screen import Main, TopApp
from taskyard_client import AsyncClient, new_task
from taskyard_service.identity import Role


@asynccontextmanager
async def screen(client: AsyncClient, address: str, interval: float = 0.2) -> AsyncIterator[tuple[Main, Pilot[None]]]:
    reader = Reader(client)
    main = Main(reader, await reader.read(), address, interval=interval, filter="")
    async with TopApp(main).run_test(size=(120, 40), notifications=True) as pilot:
        yield main, pilot


async def shows(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await pilot.pause(0.02)


def seen(pilot: Pilot[None]) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


def row(main: Main, pane: str) -> list[str]:
    """Returns the cells of the first row of a table; none when it is empty."""
    table = main.query_one(f"#{pane}", Pane)
    return [str(cell).strip() for cell in table.get_row_at(0)] if table.row_count else []


async def test_the_screen_shows_what_a_real_scheduler_does(shared_site: Site) -> None:
    client = shared_site.client()
    async with screen(client, shared_site.address) as (main, pilot):
        running = await client.submit("sleep", {"seconds": 3600})
        stuck = await client.submit("nobody-runs-this")
        failing = await client.submit("shell", {"command": "echo it broke >&2; exit 3"})
        await failing.wait(60)
        await shows(pilot, lambda: bool(row(main, "running") and row(main, "queues") and row(main, "failed")))
        assert row(main, "running")[1] == f"…{running.id[-8:]}"
        assert row(main, "running")[4] == "shared-worker"
        assert row(main, "queues")[:3] == ["!", "nobody-runs-this", "1"]
        assert "NO_WORKER_FOR_TYPE" in row(main, "queues")[4]
        assert row(main, "failed")[4] == "HANDLER_ERROR"
        assert row(main, "workers")[1:3] == ["shared-worker", "HEALTHY"]
        await pilot.press("3", "c")
        await shows(pilot, lambda: f"cancel task {running.id}?" in seen(pilot))
        await pilot.press("y")
        assert (await running.wait(60)).status == tasks.TASK_STATUS_CANCELLED
        await shows(pilot, lambda: not row(main, "running"))
        await pilot.press("4", "enter")
        await shows(pilot, lambda: failing.id in seen(pilot) and "HANDLER_ERROR" in seen(pilot))
        await pilot.press("l")
        await shows(pilot, lambda: "it broke" in seen(pilot))
    await client.cancel_task(stuck.id)


async def test_a_viewer_looks_and_does_not_act(shared_site: Site) -> None:
    running = await shared_site.client().submit("sleep", {"seconds": 3600})
    async with screen(shared_site.client(Role.VIEWER), shared_site.address) as (main, pilot):
        await shows(pilot, lambda: bool(row(main, "running")))
        await pilot.press("3", "c")
        await shows(pilot, lambda: "cancel task" in seen(pilot))
        await pilot.press("y")
        await shows(pilot, lambda: "not done" in seen(pilot))
        assert "viewer" in seen(pilot)
        before = main.readings
        await shows(pilot, lambda: main.readings > before + 1)
    assert (await running.status()).status in (tasks.TASK_STATUS_RUNNING, tasks.TASK_STATUS_ASSIGNED)
    await running.cancel()


async def test_a_queue_is_held_back_and_goes_on(shared_site: Site) -> None:
    client = shared_site.client()
    waiting = await client.submit("nobody-runs-what-is-held")

    async def held() -> list[str]:
        return [each.pause.reason async for each in client.queues(filter='task_type == "nobody-runs-what-is-held"')
                if each.HasField("pause")]  # fmt: skip

    async with screen(client, shared_site.address) as (main, pilot):
        await shows(pilot, lambda: row(main, "queues")[1:2] == ["nobody-runs-what-is-held"])
        await pilot.press("1", "P")
        await shows(pilot, lambda: "pause queue nobody-runs-what-is-held" in seen(pilot))
        await pilot.press(*"disk", "enter")
        await shows(pilot, lambda: "is paused" in seen(pilot))  # for a few seconds only
        await shows(pilot, lambda: "PAUSED" in row(main, "queues")[4])
        assert await held() == ["disk"]
        await pilot.press("P")
        await shows(pilot, lambda: "let queue nobody-runs-what-is-held" in seen(pilot))
        await pilot.press("y")
        await shows(pilot, lambda: "goes on" in seen(pilot))
        await shows(pilot, lambda: "PAUSED" not in row(main, "queues")[4])
        assert await held() == []
    await waiting.cancel()


async def test_a_viewer_holds_nothing_back(shared_site: Site) -> None:
    waiting = await shared_site.client().submit("nobody-runs-it-for-a-viewer")
    async with screen(shared_site.client(Role.VIEWER), shared_site.address) as (main, pilot):
        await shows(pilot, lambda: bool(row(main, "queues")))
        await pilot.press("1", "P")
        await shows(pilot, lambda: "pause queue" in seen(pilot))
        await pilot.press("enter")
        await shows(pilot, lambda: "not done" in seen(pilot))
        assert "viewer" in seen(pilot)
    assert [each async for each in shared_site.client().pauses()] == []
    await waiting.cancel()


async def test_it_outlives_its_scheduler(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker("first")
    async with screen(site.client(timeout=2.0), site.address) as (main, pilot):
        await shows(pilot, lambda: row(main, "workers")[1:2] == ["first"])
        scheduler.kill()
        await shows(pilot, lambda: "no connection since" in seen(pilot))
        await site.start_scheduler("next")
        await shows(pilot, lambda: "no connection" not in seen(pilot) and "next at" in seen(pilot))
        await site.start_worker("second")
        await shows(pilot, lambda: "second" in seen(pilot))


async def test_queues_say_why_their_first_task_waits(shared_site: Site) -> None:
    client = shared_site.client()
    first, second = [await client.submit("nobody-offers-it", {"n": n}) for n in range(2)]
    wanted = 'task_type == "nobody-offers-it"'
    [plain] = [each async for each in client.queues(filter=wanted)]
    [told] = [each async for each in client.queues(filter=wanted, explain=True)]
    assert (plain.head_task_id, list(plain.reasons)) == (first.id, [])
    assert told.head_task_id == first.id
    assert list(told.reasons) == list((await client.explain(first.id)).reasons)
    for each in (first, second):
        await each.cancel()


async def test_a_reading_costs_the_scheduler_little(site: Site) -> None:
    scheduler = await site.start_scheduler()
    await site.start_worker(concurrency=40)
    client = site.client()
    reader = Reader(client)
    outcomes = await client.submit_many([new_task("double", {"number": 1}) for _ in range(3_000)])
    await client.wait_tasks([handle.id for handle, _ in outcomes if handle], 60)
    await asyncio.gather(*(client.submit("sleep", {"seconds": 3600}) for _ in range(40)))

    async def all_run() -> bool:
        return len((await reader.read()).running) == 40

    await until(all_run)
    process = psutil.Process(scheduler.pid)
    idle, busy = await _cpu(process, None), await _cpu(process, reader)
    each_ms = (busy - idle) / 50 * 1000
    print(f"one reading costs the scheduler {each_ms:.2f} ms of CPU")
    assert each_ms < 25, "a few milliseconds on an idle machine"


async def _cpu(process: psutil.Process, reader: Reader | None) -> float:
    """Returns seconds of CPU that a process takes in five seconds, fifty readings within them."""
    before, begun = sum(process.cpu_times()[:2]), time.monotonic()
    for _ in range(50 if reader else 0):
        await reader.read(rows=40)  # type: ignore[union-attr]  # only then
    await asyncio.sleep(max(0.0, 5 - (time.monotonic() - begun)))  # the scheduler's own work takes its share of it
    return sum(process.cpu_times()[:2]) - before
