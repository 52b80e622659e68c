"""Waiting for tasks: streams are shared, bounded and resumed, and one bad id hurts nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest
from client_fixtures import served
from scripted_faults import Fault
from scripted_server import ScriptedServer, TaskStatus

from taskyard_client import (
    ClientClosed,
    DeadlineExceeded,
    InvalidInput,
    NotFound,
    TaskFailed,
    Unavailable,
    new_task,
    watcher,
)
from taskyard_client.client import AsyncClient


async def submit(client: AsyncClient, count: int) -> list[str]:
    outcomes = await client.submit_many(new_task("noop") for _ in range(count))
    return [outcome.handle.id for outcome in outcomes if outcome.handle]


async def streams(server: ScriptedServer, wanted: int) -> None:
    """Returns when so many WatchTasks calls have arrived in all."""
    await server.wire.reached(lambda: len(server.wire.named("WatchTasks")) >= wanted)


async def open_calls(server: ScriptedServer, wanted: int) -> None:
    """Returns when so many streams are open."""
    await server.wire.reached(lambda: server.wire.open_calls == wanted)


async def test_those_who_wait_together_share_a_stream() -> None:
    async with served() as (server, client):
        ids = await submit(client, 100)
        waits = asyncio.gather(*(client.task(task_id).wait(10) for task_id in ids))
        await streams(server, 1)
        await server.model.end(*ids)
        assert [task.task_id for task in await waits] == ids
        assert len(server.wire.named("WatchTasks")) == 1


async def test_two_who_wait_for_one_task_both_get_its_end() -> None:
    async with served() as (server, client):
        (task_id,) = await submit(client, 1)
        waits = [asyncio.ensure_future(client.task(task_id).result(10)) for _ in range(3)]
        await streams(server, 1)
        await server.model.end(task_id, output='{"n":1}')
        assert await asyncio.gather(*waits) == [{"n": 1}] * 3
        assert len(server.wire.named("WatchTasks")) == 1


async def test_an_end_before_the_wait_is_seen() -> None:
    async with served() as (server, client):
        (task_id,) = await submit(client, 1)
        await server.model.end(task_id, status=TaskStatus.TASK_STATUS_FAILED)
        with pytest.raises(TaskFailed, match=f"{task_id} ended FAILED"):
            await client.task(task_id).result(10)


async def test_a_cut_stream_goes_on_from_its_revision() -> None:
    async with served() as (server, client):
        ids = await submit(client, 2)
        server.script("WatchTasks", Fault(after=2))
        waits = asyncio.gather(*(client.task(task_id).wait(10) for task_id in ids))
        await open_calls(server, 1)
        await server.model.end(ids[0])
        await streams(server, 2)
        await server.model.end(ids[1])
        await waits
        first, second = server.wire.named("WatchTasks")
        assert (list(first.task_ids), first.after_revision) == (ids, 0)
        assert list(second.task_ids) == [ids[1]]
        assert second.after_revision == server.model.tasks[ids[0]].revision


async def test_a_stream_that_ends_cleanly_too_early_goes_on() -> None:
    async with served() as (server, client):
        (task_id,) = await submit(client, 1)
        server.script("WatchTasks", Fault(clean=True, after=1))
        wait = asyncio.ensure_future(client.task(task_id).wait(10))
        await streams(server, 2)
        await server.model.end(task_id)
        assert (await wait).task_id == task_id


async def test_a_revision_that_is_gone_starts_anew() -> None:
    async with served() as (server, client):
        (task_id,) = await submit(client, 1)
        gone = Fault(grpc.StatusCode.OUT_OF_RANGE, "gone", "REVISION_GONE")
        server.script("WatchTasks", Fault(after=1), gone)
        wait = asyncio.ensure_future(client.task(task_id).wait(10))
        await streams(server, 3)
        await server.model.end(task_id)
        assert (await wait).task_id == task_id
        assert [request.after_revision > 0 for request in server.wire.named("WatchTasks")] == [
            False,
            True,
            False,
        ]


@pytest.mark.parametrize("says_which", [True, False])
async def test_an_unknown_id_hurts_only_those_who_asked_for_it(says_which: bool) -> None:
    async with served() as (server, client):
        ids = await submit(client, 5)
        if not says_which:
            unknown = Fault(grpc.StatusCode.NOT_FOUND, "one of them is not known", "TASK_NOT_FOUND")
            server.script("WatchTasks", unknown)
        asked = [*ids[:2], "no-such", *ids[2:]]
        waits = [asyncio.ensure_future(client.task(task_id).wait(10)) for task_id in asked]
        with pytest.raises(NotFound):
            await waits.pop(2)
        await server.model.end(*ids)
        assert [task.task_id for task in await asyncio.gather(*waits)] == ids


async def test_an_empty_id_hurts_only_who_gave_it_and_is_never_sent() -> None:
    async with served() as (server, client):
        (known,) = await submit(client, 1)
        wait = asyncio.ensure_future(client.task(known).wait(10))
        for bad in (client.wait_task(""), client.wait_tasks(["no-such", ""])):
            with pytest.raises(InvalidInput, match=r"^task_id: it is empty; give the id of a task$"):
                await bad
        await streams(server, 1)
        await server.model.end(known)
        assert (await wait).task_id == known
        assert [list(request.task_ids) for request in server.wire.named("WatchTasks")] == [[known]]


async def test_waiting_for_many_returns_all_or_says_how_many_are_missing() -> None:
    async with served() as (server, client):
        ids = await submit(client, 50)
        await server.model.end(*ids[:20])
        with pytest.raises(DeadlineExceeded, match="30 of 50 tasks"):
            await client.wait_tasks(ids, timeout=0.2)
        await server.model.end(*ids[20:])
        assert list(await client.wait_tasks([*ids, *ids], timeout=10)) == ids
        assert await client.wait_tasks([]) == {}
        with pytest.raises(NotFound):
            await client.wait_tasks([ids[0], "no-such"], timeout=10)


async def test_when_nobody_waits_any_longer_the_stream_is_closed() -> None:
    async with served() as (server, client):
        ids = await submit(client, 2)
        waits = [asyncio.ensure_future(client.task(task_id).wait()) for task_id in ids]
        await open_calls(server, 1)
        waits[0].cancel()
        with pytest.raises(DeadlineExceeded, match="goes on"):
            await client.task(ids[1]).wait(0.05)
        assert server.wire.open_calls == 1
        waits[1].cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await open_calls(server, 0)


async def test_streams_are_bounded_however_slowly_waiters_come() -> None:
    async with served() as (server, client):
        ids = await submit(client, watcher.MAX_STREAMS + 8)
        waits = []
        for at, task_id in enumerate(ids):
            waits.append(asyncio.ensure_future(client.task(task_id).wait(10)))
            await streams(server, at + 1)
            await server.model.touch()
        await open_calls(server, watcher.MAX_STREAMS)
        await server.model.end(*ids)
        assert [task.task_id for task in await asyncio.gather(*waits)] == ids


@pytest.fixture
def small_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(watcher, "MAX_IDS", 3)
    return iter([3])


async def test_one_stream_watches_no_more_than_the_contract_allows(small_streams: object) -> None:
    async with served() as (server, client):
        ids = await submit(client, 10)
        wait = asyncio.ensure_future(client.wait_tasks(ids, timeout=10))
        await streams(server, 4)
        await server.model.end(*ids)
        assert list(await wait) == ids
        assert max(len(request.task_ids) for request in server.wire.named("WatchTasks")) <= 3


async def test_closing_tells_those_who_wait() -> None:
    async with served() as (server, client):
        (task_id,) = await submit(client, 1)
        wait = asyncio.ensure_future(client.task(task_id).wait())
        await open_calls(server, 1)
        await client.close()
        with pytest.raises(ClientClosed):
            await wait
        with pytest.raises(ClientClosed):
            await client.task(task_id).wait()


async def test_a_scheduler_that_stays_away_ends_the_wait() -> None:
    async with served(timeout=0.5) as (server, client):
        (task_id,) = await submit(client, 1)
        wait = asyncio.ensure_future(client.task(task_id).wait())
        await open_calls(server, 1)
        await server.stop()
        with pytest.raises(Unavailable, match="is it running"):
            await wait


async def test_watch_tasks_yields_every_change_and_ends_with_the_last() -> None:
    async with served() as (server, client):
        ids = await submit(client, 2)
        server.script("WatchTasks", Fault(after=1))
        seen: list[tuple[str, int]] = []
        async for change in client.watch_tasks(ids):
            seen += [(task.task_id, task.status) for task in change.tasks]
            left = [task_id for task_id in ids if server.model.tasks[task_id].status not in watcher.ENDED]
            if left:
                await server.model.end(left[0])
        queued, success = TaskStatus.TASK_STATUS_QUEUED, TaskStatus.TASK_STATUS_SUCCESS
        assert seen == [(ids[0], queued), (ids[1], queued), (ids[0], success), (ids[1], success)]
