"""Acting on everything that matches a filter, on each kind of database."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from e2e.site import Site
from e2e.test_golden_path import step
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.tasks_pb2 import BulkAction as Do
from taskyard_client import InvalidInput, new_task
from taskyard_service.identity import Role

ALL = 'task_type == "nobody-runs-this"'


async def test_all_that_match_are_acted_on_page_by_page(any_site: Site) -> None:
    site = any_site
    await site.start_scheduler()
    client = site.client()
    handles = await client.submit_many([new_task("nobody-runs-this", tags=["many"]) for _ in range(1_200)])
    other = await client.submit("somebody-else-s")
    assert await client.check_bulk_tasks(ALL, Do.BULK_ACTION_PRIORITIZE, priority=2) == 1_200
    moved = [each.task_id async for each in client.bulk_tasks(ALL, Do.BULK_ACTION_PRIORITIZE, priority=2)]
    assert moved == sorted((handle.id for handle, _ in handles if handle), reverse=True), "newest first, each once"
    listed = client.list_tasks(filter="priority == 2", page_size=1_000)
    assert len([task async for task in listed]) == 1_200
    requeued = Counter([each.refusal.reason async for each in client.bulk_tasks(ALL, Do.BULK_ACTION_REQUEUE)])
    assert requeued == {"ALREADY_QUEUED": 1_200}, "what makes no sense is refused by itself"
    live = f'{ALL} && status == "QUEUED"'
    ended = Counter([each.status async for each in client.bulk_tasks(live, Do.BULK_ACTION_TERMINATE, reason="enough")])
    assert ended == {tasks.TASK_STATUS_CANCELLED: 1_200}
    assert await client.check_bulk_tasks(live, Do.BULK_ACTION_CANCEL) == 0
    again = Counter([each.status async for each in client.bulk_tasks('"many" in tags', Do.BULK_ACTION_RETRY)])
    assert again == {tasks.TASK_STATUS_QUEUED: 1_200}
    assert (await other.status()).status == tasks.TASK_STATUS_QUEUED


async def test_runs_of_yesterday_that_failed_are_taken_up(shared_site: Site) -> None:
    client = shared_site.client()
    flow = pb.Workflow(name="fails-once", steps=[step("a", "flaky", input={"number": 1, "failures": 1})])
    flow.steps[0].retry.max_attempts = 1
    await client.apply_workflow(flow)
    runs = [await client.start_run("fails-once") for _ in range(3)]
    for run in runs:
        assert (await run.wait(60)).state == pb.RUN_STATE_FAILED
    since = (datetime.now(UTC) - timedelta(days=1)).isoformat(timespec="seconds")
    which = f'workflow == "fails-once" && state == "FAILED" && end_time > timestamp("{since}")'
    assert await client.check_bulk_runs(which, Do.BULK_ACTION_RETRY) == 3
    outcomes = [each async for each in client.bulk_runs(which, Do.BULK_ACTION_RETRY)]
    assert [each.state for each in outcomes] == [pb.RUN_STATE_RUNNING] * 3
    for run in runs:
        assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    late = [each async for each in client.bulk_runs('workflow == "fails-once"', Do.BULK_ACTION_CANCEL)]
    assert {each.refusal.reason for each in late} == {"ALREADY_ENDED"}
    in_vain = [each async for each in client.bulk_runs('workflow == "fails-once"', Do.BULK_ACTION_RETRY)]
    assert {each.refusal.reason for each in in_vain} == {"NOTHING_TO_RETRY"}


async def test_what_there_is_is_counted_in_all_and_by_a_field(any_site: Site) -> None:
    site = any_site
    await site.start_scheduler()
    client = site.client()
    ids = [(await client.submit(kind)).id for kind in ("nobody-runs-this", "nobody-runs-this", "nor-this")]
    await client.cancel_task(ids[0])
    await client.apply_workflow(pb.Workflow(name="waits", steps=[step("a", "nor-this")]))
    await client.start_run("waits")
    viewer = site.client(Role.VIEWER)
    counted = await viewer.count_tasks('task_type in ["nobody-runs-this", "nor-this"]', by="task_type")
    groups = [tasks.CountGroup(value=kind, count=2) for kind in ("nobody-runs-this", "nor-this")]
    assert counted == tasks.CountTasksResponse(count=4, groups=groups)
    assert await viewer.count_tasks(ALL) == tasks.CountTasksResponse(count=2)
    by_status = await viewer.count_tasks(by="status")
    assert {each.value: each.count for each in by_status.groups} == {"QUEUED": 3, "CANCELLED": 1}
    by_kind = await viewer.count_tasks(ALL, by="error.kind")
    assert {each.value for each in by_kind.groups} >= {""}
    running = tasks.CountGroup(value="RUNNING", count=1)
    assert await viewer.count_runs(by="state") == pb.CountRunsResponse(count=1, groups=[running])
    stranger = site.client(Role.VIEWER, "another")
    assert await stranger.count_tasks(by="status") == tasks.CountTasksResponse()
    with pytest.raises(InvalidInput, match=r"group_by: .worker. is no field to count by; .*Did you mean .worker_id."):
        await viewer.count_tasks(by="worker")
    with pytest.raises(InvalidInput, match="choose one of state, workflow, version"):
        await viewer.count_runs(by="tags")
    with pytest.raises(InvalidInput, match="filter"):
        await viewer.count_runs("wrkflw == 1")


@pytest.mark.parametrize(
    ("filter", "action", "priority", "said"),
    [
        ("", Do.BULK_ACTION_CANCEL, 0, 'filter: .* would be everything; write `task_id != ""`'),
        ("tsk == 1", Do.BULK_ACTION_CANCEL, 0, "filter"),
        (ALL, Do.BULK_ACTION_UNSPECIFIED, 0, "action: no action is given; choose one of CANCEL, TERMINATE"),
        (ALL, 77, 0, "77 is no action of this call"),
        (ALL, Do.BULK_ACTION_PRIORITIZE, 0, "priority: 0 is outside 1 to 10"),
    ],
)
async def test_a_wish_that_is_not_clear_is_refused(
    shared_site: Site, filter: str, action: Do.ValueType, priority: int, said: str
) -> None:
    client = shared_site.client()
    with pytest.raises(InvalidInput, match=said):
        await client.check_bulk_tasks(filter, action, priority=priority)
    with pytest.raises(InvalidInput, match="choose one of CANCEL, TERMINATE, RETRY"):
        await client.check_bulk_runs('run_id != ""', Do.BULK_ACTION_REQUEUE)


async def test_a_page_that_is_asked_for_twice_acts_once(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("nobody-runs-this")
    door = shared_site.door(shared_site.token())
    request = tasks.BulkTasksRequest(
        request_id="bulk-once", filter=f'task_id == "{handle.id}"', action=Do.BULK_ACTION_CANCEL
    )
    first = await door.tasks.BulkTasks(request, metadata=door.metadata)
    assert first.outcomes[0].status == tasks.TASK_STATUS_CANCELLED
    await client.retry_task(handle.id)
    assert await door.tasks.BulkTasks(request, metadata=door.metadata) == first
    assert (await handle.status()).status == tasks.TASK_STATUS_QUEUED
    await handle.cancel()
