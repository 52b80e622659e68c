"""What a person does by hand on real processes: stop without grace, requeue, other priorities, runs taken up again."""

from __future__ import annotations

import json

import pytest

from e2e.process import until
from e2e.site import Site
from e2e.test_golden_path import AT_ONCE, step
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.fleet_pb2 import WORKER_STATE_UNHEALTHY
from taskyard_client import InvalidInput, WrongState

RUNNING, QUEUED = tasks.TASK_STATUS_RUNNING, tasks.TASK_STATUS_QUEUED


async def standing(site: Site, task_id: str) -> int:
    return (await site.client().get_task(task_id)).task.status


async def comes_to(site: Site, task_id: str, status: int) -> None:
    async def there() -> bool:
        return await standing(site, task_id) == status

    await until(there, what=f"status {status}")


async def test_a_terminated_task_ends_at_once_and_its_command_is_killed(shared_site: Site) -> None:
    client = shared_site.client()
    mark = shared_site.folder / "alive"
    script = f"trap '' TERM; echo $$ > {mark}; while :; do sleep 0.1; done"
    handle = await client.submit("shell", {"script": script})
    await until(lambda: mark.exists() and mark.read_text().strip() != "", what="the command runs")
    assert await client.cancel_task(handle.id, "now", terminate=True) == tasks.TASK_STATUS_CANCELLED
    pid = int(mark.read_text())
    await until(lambda: not _alive(pid), what="the command is dead")
    assert (await client.get_task(handle.id)).task.error.message == "now"


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(") ", 1)[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_requeued_task_leaves_its_worker_for_another_attempt(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("sleep", {"seconds": 3600})
    await comes_to(shared_site, handle.id, RUNNING)
    assert await client.requeue_task(handle.id) in (QUEUED, tasks.TASK_STATUS_ASSIGNED)
    await comes_to(shared_site, handle.id, RUNNING)
    told = await client.get_task(handle.id)
    assert [(each.attempt, each.error.kind) for each in told.attempts] == [(1, "REQUEUED"), (2, "")]
    assert told.task.retry_count == 0
    await client.cancel_task(handle.id, terminate=True)
    with pytest.raises(WrongState, match="has ended"):
        await client.requeue_task(handle.id)


async def test_priorities_decide_who_goes_first(site: Site) -> None:
    await site.start_scheduler()
    client = site.client()
    handles = [await client.submit("double", {"number": n}) for n in range(4)]
    await client.prioritize_task(handles[3].id, 1)
    await client.prioritize_task(handles[0].id, 10)
    with pytest.raises(InvalidInput, match="priority"):
        await client.prioritize_task(handles[0].id, 11)
    await site.start_worker("w", concurrency=1)
    ended = [await handle.wait(60) for handle in handles]
    order = sorted(ended, key=lambda task: task.assign_time.ToNanoseconds())
    assert [task.task_id for task in order] == [handles[n].id for n in (3, 1, 2, 0)]
    assert [task.priority for task in order] == [1, 5, 5, 10]


async def test_a_run_is_taken_up_from_a_step_over_a_restart(site: Site) -> None:
    scheduler = await site.start_scheduler()
    await site.start_worker("w")
    client = site.client()
    flow = pb.Workflow(name="again")
    flow.steps.append(step("a", "tell", input={"text": "first"}))
    flow.steps.append(step("b", "double", "a", input={"number": 1}))
    flow.steps.append(step("c", "tell", "b", input={"text": "${steps.b.output.double}"}))
    await client.apply_workflow(flow)
    run = await client.start_run("again")
    await run.wait(60)
    before = {each.step_id: each.task_id for each in (await client.get_run(run.id)).steps}
    again = await client.retry_run(run.id, ["b"])
    assert list(again.steps) == ["b", "c"]
    scheduler.kill()
    await site.start_scheduler()
    assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    after = (await client.get_run(run.id)).steps
    assert {each.step_id: each.task_id for each in after} == before
    assert {each.step_id: each.attempt for each in after} == {"a": 1, "b": 2, "c": 2}
    assert json.loads((await client.get_task(before["c"])).task.input_json) == {"text": 2}


async def test_what_failed_in_a_run_is_run_again(shared_site: Site) -> None:
    client = shared_site.client()
    flow = pb.Workflow(name="mends")
    flow.steps.append(step("good", "double", input={"number": 1}))
    flow.steps.append(step("bad", "flaky", input={"number": 1, "failures": 1}))
    flow.steps[1].retry.CopyFrom(type(AT_ONCE)(max_attempts=1).message())
    flow.steps.append(step("last", "double", "good", "bad", input={"number": 2}))
    await client.apply_workflow(flow)
    run = await client.start_run("mends")
    assert (await run.wait(60)).state == pb.RUN_STATE_FAILED
    with pytest.raises(InvalidInput, match="no step 'nothing'"):
        await client.retry_run(run.id, ["nothing"])
    again = await client.retry_run(run.id)
    assert list(again.steps) == ["bad", "last"]
    assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    with pytest.raises(WrongState, match="no step of the run failed"):
        await client.retry_run(run.id)
    found = {each.step_id: each.attempt for each in (await client.get_run(run.id)).steps}
    assert found == {"good": 1, "bad": 2, "last": 1}


async def test_a_worker_is_drained_and_a_dead_one_is_forgotten(site: Site) -> None:
    await site.start_scheduler()
    first = await site.start_worker("first", concurrency=2)
    client = site.client()
    running = await client.submit("sleep", {"seconds": 1})
    await comes_to(site, running.id, RUNNING)
    assert await client.drain_worker("first") == 1
    assert (await running.wait(60)).status == tasks.TASK_STATUS_SUCCESS
    await until(lambda: first.code is not None, what="the drained worker ends")
    assert first.code == 0
    second = await site.start_worker("second")
    hung = await client.submit("sleep", {"seconds": 3600}, retry=AT_ONCE)
    await comes_to(site, hung.id, RUNNING)
    with pytest.raises(WrongState, match="lives: drain it"):
        await client.forget_worker("second")
    second.kill()

    async def gone() -> bool:
        return [worker.state async for worker in client.workers()] == [WORKER_STATE_UNHEALTHY]

    await until(gone, what="its stream is gone")
    assert await client.forget_worker("second") == 1
    assert [worker async for worker in client.workers()] == []
    assert await standing(site, hung.id) in (QUEUED, tasks.TASK_STATUS_PENDING)
