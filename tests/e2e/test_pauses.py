"""Work is held back by hand and goes on again, on real processes."""

from __future__ import annotations

import pytest

from e2e.command import taskyard
from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from e2e.test_by_hand import comes_to
from e2e.test_golden_path import step
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.pauses_pb2 import PauseScope
from taskyard_client import AsyncClient, NotFound, WrongState, new_task

TYPE, QUEUE, WORKFLOW = PauseScope.PAUSE_SCOPE_TASK_TYPE, PauseScope.PAUSE_SCOPE_QUEUE, PauseScope.PAUSE_SCOPE_WORKFLOW
QUEUED, SUCCESS = tasks.TASK_STATUS_QUEUED, tasks.TASK_STATUS_SUCCESS


def begun(site: Site) -> list[str]:
    return [each["task"] for each in executions(site) if each["what"] == "start"]


async def dispatches(client: AsyncClient) -> None:
    """Returns when a task of another type, submitted now, has been dispatched and has ended."""
    assert await (await client.submit("tell", {"still": "here"})).result(60) == {"still": "here"}


async def why(client: AsyncClient, task_id: str) -> list[str]:
    return [reason.code for reason in (await client.explain(task_id)).reasons]


async def test_a_type_is_held_back_under_load_over_a_kill_and_goes_on_in_order(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker("w", concurrency=2)
    client = site.client()
    work = [new_task("pause", {"number": n, "seconds": 0.05}) for n in range(40)]
    handles = [handle for handle, _ in await client.submit_many(work) if handle is not None]
    await until(lambda: len(begun(site)) >= 4, what="some of them have begun")
    held = await client.pause_work(TYPE, "pause", reason="the disk is full")
    assert (held.name, held.paused_by, held.reason) == ("pause", "test", "the disk is full")

    async def nothing_runs() -> bool:
        return not [each async for each in client.list_tasks(filter='status in ["ASSIGNED", "RUNNING"]')]

    await until(nothing_runs, what="what runs ends")
    await dispatches(client)
    before = begun(site)
    assert len(before) < 40
    late = await client.submit("pause", {"number": 40, "seconds": 0})
    scheduler.kill()
    await site.start_scheduler()
    await site.wait_healthy("w")
    await dispatches(client)
    assert begun(site) == before, "nothing more starts, also after a kill"
    assert await why(client, late.id) == ["PAUSED"]
    assert "the disk is full" in (await late.explain()).summary
    assert [(each.name, each.reason) async for each in client.pauses()] == [("pause", "the disk is full")]
    [queue] = [each async for each in client.queues()]
    assert (queue.waiting, queue.pause.scope) == (41 - len(before), TYPE)
    assert (await client.resume_work(TYPE, "pause")).reason == "the disk is full"
    ends = await client.wait_tasks([handle.id for handle in [*handles, late]], 60)
    assert {task.status for task in ends.values()} == {SUCCESS}
    times = [ends[handle.id].assign_time.ToNanoseconds() for handle in [*handles, late]]
    assert times == sorted(times), "in the order in which they would have gone"
    with pytest.raises(WrongState) as caught:
        await client.resume_work(TYPE, "pause")
    assert caught.value.reason == "NOT_PAUSED"


async def test_a_workflow_and_a_run_wait_while_others_of_their_type_go_on(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker("w")
    client = site.client()
    for name in ("held", "free"):
        made = pb.Workflow(name=name)
        made.steps.append(step("a", "double", input={"number": 1}))
        made.steps.append(step("b", "double", "a", input={"number": "${steps.a.output.double}"}))
        await client.apply_workflow(made)
    await client.pause_work(WORKFLOW, "held", reason="month end")
    held = [await client.start_run("held") for _ in range(3)]
    free, single = await client.start_run("free"), await client.submit("double", {"number": 5})
    assert (await free.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    assert await single.result(60) == {"double": 10}
    assert (await held[0].status()).pause.reason == "month end"
    first = (await client.get_run(held[0].id)).steps[0].task_id
    await comes_to(site, first, QUEUED)
    assert await why(client, first) == ["PAUSED"]
    [queue] = [each async for each in client.queues() if each.held]
    assert [(each.scope, each.name) for each in queue.held_by] == [(WORKFLOW, "held")]
    await client.pause_run(held[1].id, "this one longer")
    with pytest.raises(NotFound):
        await client.pause_run(free.id)
    scheduler.kill()
    await site.start_scheduler()
    await site.wait_healthy("w")
    await dispatches(client)
    await client.resume_work(WORKFLOW, "held")
    for run in (held[0], held[2]):
        assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    other = await client.start_run("held")
    assert (await other.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    still = await held[1].status()
    assert (still.state, still.steps_ended, still.pause.reason) == (pb.RUN_STATE_RUNNING, 0, "this one longer")
    await client.resume_run(held[1].id)
    assert (await held[1].wait(60)).state == pb.RUN_STATE_SUCCEEDED
    assert [each async for each in client.pauses()] == []


async def test_a_run_that_is_paused_on_the_way_takes_its_next_step_later_and_its_pause_ends_with_it(
    shared_site: Site,
) -> None:
    client = shared_site.client()
    made = pb.Workflow(name="on-the-way")
    made.steps.append(step("a", "later", input={"hold_s": 3600}))
    made.steps.append(step("b", "double", "a", input={"number": 1}))
    await client.apply_workflow(made)
    run = await client.start_run("on-the-way")
    first = (await client.get_run(run.id)).steps[0].task_id
    await comes_to(shared_site, first, tasks.TASK_STATUS_RUNNING)
    shown = await taskyard(shared_site, "pause", "--run", run.id, "--reason", "wait")
    assert (shown.code, shown.out) == (0, f"run {run.id} is paused; `taskyard resume --run {run.id}` lets it go on\n")
    await client.mark_task(first, tasks.MARKED_AS_SUCCESS)
    await comes_to(shared_site, first, SUCCESS)
    await dispatches(client)
    second = (await client.get_run(run.id)).steps[1]
    assert (second.status, await why(client, second.task_id)) == (QUEUED, ["PAUSED"])
    await run.cancel()
    assert (await run.wait(60)).state == pb.RUN_STATE_CANCELLED
    assert [each async for each in client.pauses()] == []


async def test_pauses_add_up(shared_site: Site) -> None:
    client = shared_site.client()
    await client.pause_work(TYPE, "thread")
    waiting = await client.submit("thread", {"number": 1})

    async def name() -> str:
        return next(iter([each.name async for each in client.queues(filter='task_type == "thread"')]), "")

    queue = await until(name, what="its queue")
    await client.pause_work(QUEUE, queue, reason="this queue")
    await client.resume_work(TYPE, "thread")
    await dispatches(client)
    assert await why(client, waiting.id) == ["PAUSED"]
    assert [(each.scope, each.name) async for each in client.pauses()] == [(QUEUE, queue)]
    shown = await taskyard(shared_site, "resume", "--queue", queue)
    assert shown.code == 0, shown.err
    assert await waiting.result(60) == {"double": 2}


async def test_what_is_held_back_still_runs_out_of_time(shared_site: Site) -> None:
    client = shared_site.client()
    await client.pause_work(TYPE, "apart")
    shown = await taskyard(shared_site, "submit", "apart", "-p", "number=1", "--queued-timeout", "200ms", "--wait")
    assert (shown.code, "QUEUED_TIMEOUT" in shown.err) == (1, True)
    await client.resume_work(TYPE, "apart")
