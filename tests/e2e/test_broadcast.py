"""One task for every worker that would take it, and one for one worker alone, on real processes."""

from __future__ import annotations

import asyncio

import pytest

from e2e.command import taskyard
from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from taskyard.v1.fleet_pb2 import WORKER_STATE_UNHEALTHY
from taskyard_client import InvalidInput, Placement, Timeouts, WrongState, new_task


async def three_workers(site: Site) -> None:
    await site.start_scheduler()
    await asyncio.gather(*(site.start_worker(name, concurrency=2) for name in ("w1", "w2", "w3")))


async def test_each_worker_runs_its_copy_once(any_site: Site) -> None:
    site = any_site
    await three_workers(site)
    client = site.client()
    sent = await client.broadcast_task(new_task("double", {"number": 2}, tags=["all"]), request_id="once")
    assert [copy.worker_id for copy in sent.copies] == ["w1", "w2", "w3"]
    assert list(sent.left_out_worker_ids) == []
    ends = await client.wait_tasks([copy.task_id for copy in sent.copies], 60)
    assert [ends[copy.task_id].worker_id for copy in sent.copies] == ["w1", "w2", "w3"]
    ran = {each["task"]: each["worker"] for each in executions(site)}
    assert ran == {copy.task_id: copy.worker_id for copy in sent.copies}
    site.processes[-1].kill()
    again = await client.broadcast_task(new_task("double", {"number": 2}, tags=["all"]), request_id="once")
    assert again == sent, "a repeat makes nothing, whatever workers there are by then"
    assert len([task async for task in client.list_tasks(filter='"all" in tags')]) == 3


async def test_who_takes_no_tasks_now_is_left_out_and_one_alone_is_waited_for(site: Site) -> None:
    await three_workers(site)
    client = site.client()
    dead = next(process for process in site.processes if process.name == "w2")
    dead.kill()

    async def gone() -> bool:
        return (await client.get_worker("w2")).state == WORKER_STATE_UNHEALTHY

    await until(gone, what="its stream is gone")
    shown = await taskyard(site, "broadcast", "double", "-p", "number=1", "--wait")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["w1", "SUCCESS"], ["w3", "SUCCESS"]]
    assert lines[3] == "left out, since they take no tasks now: w2"
    waiting = await client.submit("double", {"number": 7}, placement=Placement(worker_id="w2"))
    assert (await waiting.explain()).reasons
    never = await client.submit(
        "double", {"number": 7}, placement=Placement(worker_id="w9"), timeouts=Timeouts(queued=3600)
    )
    [reason] = (await never.explain()).reasons
    assert (reason.code, reason.variables["worker_id"]) == ("WORKER_AWAY", "w9")
    await site.start_worker("w2")
    ended = await waiting.wait(60)
    assert ended.worker_id == "w2"
    await never.cancel()


async def test_a_broadcast_that_makes_no_sense_is_refused(shared_site: Site) -> None:
    client = shared_site.client()
    with pytest.raises(WrongState) as caught:
        await client.broadcast_task(new_task("nobody-runs-this"))
    assert caught.value.reason == "NO_WORKER_MATCHES"
    with pytest.raises(WrongState):
        await client.broadcast_task(new_task("double", {"number": 1}, selector="zone=nowhere"))
    for task in (
        new_task("double", {"number": 1}, idempotency_key="k"),
        new_task("double", {"number": 1}, placement=Placement(worker_id="w1")),
        new_task("double", {"number": 1}, priority=11),
    ):
        with pytest.raises(InvalidInput) as refused:
            await client.broadcast_task(task)
        assert refused.value.violations
