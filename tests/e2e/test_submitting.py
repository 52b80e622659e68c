"""What a submission may say beyond its work: when it is due, until when, its tags; and what would become of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from e2e.process import until
from e2e.site import Site
from e2e.test_golden_path import step
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard_client import InvalidInput, NotFound, new_run, new_task


def now() -> datetime:
    return datetime.now(UTC)


async def test_a_task_is_not_sent_before_its_time(shared_site: Site) -> None:
    client = shared_site.client()
    due = now() + timedelta(seconds=1.2)
    timed = await client.submit("double", {"number": 1}, schedule_time=due)
    delayed = await client.submit("double", {"number": 2}, start_delay=1.0)
    told = (await client.get_task(timed.id)).task
    assert told.status == tasks.TASK_STATUS_PENDING
    assert told.schedule_time.ToMilliseconds() >= int(due.timestamp() * 1000)
    assert [reason.code for reason in (await client.explain(timed.id)).reasons] == ["NOT_DUE"]
    for handle in (timed, delayed):
        ended = await handle.wait(60)
        assert ended.status == tasks.TASK_STATUS_SUCCESS
        earliest = int(due.timestamp() * 1000) if handle is timed else ended.create_time.ToMilliseconds() + 1_000
        assert ended.assign_time.ToMilliseconds() >= earliest


async def test_what_waits_past_its_expiry_ends(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("nobody-runs-this", expire_time=now() + timedelta(seconds=0.5))
    ended = await handle.wait(60)
    assert (ended.status, ended.error.kind) == (tasks.TASK_STATUS_TIMEOUT, "EXPIRED")
    assert "expired" in (await client.explain(handle.id)).summary


async def test_tasks_and_runs_are_found_by_their_tags(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(pb.Workflow(name="tagged", steps=[step("a", "double", input={"number": 1})]))
    handle = await client.submit("double", {"number": 1}, tags=["etl", "50% off_now"])
    run = await client.start_run("tagged", tags=["etl"])
    await run.wait(60)
    found = [task.task_id async for task in client.list_tasks(filter='"etl" in tags')]
    assert handle.id in found
    assert len(found) == 2, "the step of the run has the run's tags"
    assert [task.task_id async for task in client.list_tasks(filter='"50% off_now" in tags')] == [handle.id]
    assert [task async for task in client.list_tasks(filter='"50% off.now" in tags')] == []
    assert [task async for task in client.list_tasks(filter='"ETL" in tags')] == []
    assert [each.run_id async for each in client.list_runs(filter='"etl" in tags')] == [run.id]


async def test_a_run_waits_for_its_time_over_a_restart_of_the_scheduler(site: Site) -> None:
    scheduler = await site.start_scheduler()
    await site.start_worker("w")
    client = site.client()
    await client.apply_workflow(pb.Workflow(name="later", steps=[step("a", "double", input={"number": 3})]))
    run = await client.start_run("later", start_delay=3.0)
    found = await client.get_run(run.id)
    assert found.run.state == pb.RUN_STATE_PENDING
    assert [each.status for each in found.steps] == [tasks.TASK_STATUS_PENDING]
    scheduler.kill()
    await site.start_scheduler()
    ended = await run.wait(60)
    assert ended.state == pb.RUN_STATE_SUCCEEDED
    [done] = (await client.get_run(run.id)).steps
    assert done.start_time.ToMilliseconds() >= ended.create_time.ToMilliseconds() + 3_000


async def test_templates_read_the_run_and_the_tenants_variables(shared_site: Site) -> None:
    client = shared_site.client()
    await client.set_variable("region", {"name": "eu", "rows": [1, 2]}, "where it runs")
    text = "${run.workflow} v${run.version} of ${run.tenant} in ${vars.region.name}, attempt ${run.attempt}"
    wanted = {"text": text, "operation": "clean", "rows": "${vars.region.rows}", "attempt": "${run.attempt}"}
    await client.apply_workflow(pb.Workflow(name="reads", steps=[step("a", "tell", input=wanted)]))
    run = await client.start_run("reads")
    await client.set_variable("region", "us")  # a run keeps what was set when it was created
    await run.wait(60)
    found = await client.get_run(run.id)
    task = (await client.get_task(found.steps[0].task_id)).task
    assert json.loads(task.input_json) == {
        "text": "reads v1 of default in eu, attempt 1", "operation": "clean", "rows": [1, 2], "attempt": 1,
    }  # fmt: skip
    assert json.loads(found.run.variables_json) == {"region": {"name": "eu", "rows": [1, 2]}}
    await client.delete_variable("region")
    with pytest.raises(InvalidInput, match="reads the variable 'region', which is not set"):
        await client.start_run("reads")
    with pytest.raises(NotFound):
        await client.delete_variable("region")


async def test_each_attempt_is_given_its_own_number(shared_site: Site) -> None:
    client = shared_site.client()
    script = {"command": "echo ${run.attempt}; test ${run.attempt} -eq 2"}
    flow = pb.Workflow(name="counts", steps=[step("a", "shell", input=script)])
    flow.steps[0].retry.first_delay.nanos = 1_000_000
    await client.apply_workflow(flow)
    run = await client.start_run("counts")
    assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    [done] = (await client.get_run(run.id)).steps
    assert done.attempt == 2
    assert (await client.get_task(done.task_id)).task.output_json.find("2\\n") > 0


async def test_a_check_says_what_would_become_of_it_and_makes_nothing(shared_site: Site) -> None:
    client = shared_site.client()
    before = [task.task_id async for task in client.list_tasks()]
    good, nobody, bad = await client.check_tasks(
        [new_task("double", {"number": 1}), new_task("nobody-runs-this"), new_task("double", priority=11)]
    )
    assert good.check is not None
    assert nobody.check is not None
    assert list(good.check.worker_ids) == ["shared-worker"]
    assert not good.check.reasons
    assert json.loads(good.check.task.input_json) == {"number": 1}
    assert [reason.code for reason in nobody.check.reasons] == ["NO_WORKER_FOR_TYPE"]
    assert isinstance(bad.error, InvalidInput)
    steps = [
        step("a", "double", input={"number": "${inputs.n}"}),
        step("b", "double", "a", input={"number": "${steps.a.output}"}),
    ]
    await client.apply_workflow(pb.Workflow(name="looked-at", steps=steps, inputs=[pb.WorkflowInput(name="n")]))
    [run] = await client.check_runs([new_run("looked-at", {"n": 4})])
    assert run.check is not None
    first, second = run.check.steps
    assert json.loads(first.check.task.input_json) == {"number": 4}
    assert json.loads(second.check.task.input_json) == {"number": "${steps.a.output}"}
    assert [task.task_id async for task in client.list_tasks()] == before
    [missing] = await client.check_runs([new_run("looked-at")])
    assert isinstance(missing.error, InvalidInput)


async def test_a_workflow_is_checked_and_not_stored(shared_site: Site) -> None:
    client = shared_site.client()
    first = pb.Workflow(name="planned", steps=[step("a", "double", input={"number": 1})])
    wider = pb.Workflow(name="planned", steps=[*first.steps, step("b", "double", "a", input={"number": 2})])
    looked = await client.check_workflow(first)
    assert (looked.changed, looked.workflow.version, looked.workflow.HasField("create_time")) == (True, 1, False)
    with pytest.raises(NotFound):
        await client.get_workflow("planned")
    await client.apply_workflow(first)
    run = await client.start_run("planned", schedule_time=now() + timedelta(hours=1))
    looked = await client.check_workflow(wider)
    assert (looked.changed, looked.workflow.version, len(looked.workflow.steps)) == (True, 2, 2)
    assert not (await client.check_workflow(first)).changed
    with pytest.raises(InvalidInput):
        await client.check_workflow(pb.Workflow(name="planned", steps=[step("a", "double", "b")]))
    assert (await client.get_workflow("planned")).version == 1
    assert (await client.apply_workflow(wider)).workflow.version == 2
    read = await client.get_run(run.id)
    assert (read.run.version, [each.step_id for each in read.steps]) == (1, ["a"])
    await run.cancel()


async def test_a_repeat_under_a_start_time_is_recognised(shared_site: Site) -> None:
    client = shared_site.client()
    due = now() + timedelta(hours=1)
    first = await client.submit("double", schedule_time=due, request_id="once")
    again = await client.submit("double", schedule_time=due, request_id="once")
    assert (again.id, again.repeated) == (first.id, True)
    await first.cancel()
    await until(lambda: _ended(shared_site, first.id))


async def _ended(site: Site, task_id: str) -> bool:
    return (await site.client().get_task(task_id)).task.status == tasks.TASK_STATUS_CANCELLED
