"""A person says how a task or a step has ended, on real processes."""

from __future__ import annotations

import json

import pytest

from e2e.command import taskyard
from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from e2e.test_by_hand import comes_to
from e2e.test_golden_path import step
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard.v1.tasks_pb2 import MARKED_AS_SKIPPED, MARKED_AS_SUCCESS, BulkAction
from taskyard_client import NotFound, Retry, WrongState

SUCCESS, SKIPPED, CANCELLING = tasks.TASK_STATUS_SUCCESS, tasks.TASK_STATUS_SKIPPED, tasks.TASK_STATUS_CANCELLING


def flow(name: str) -> pb.Workflow:
    """Three steps in a row, of which the second never succeeds."""
    made = pb.Workflow(name=name)
    made.steps.append(step("a", "double", input={"number": 1}))
    made.steps.append(step("b", "hopeless", "a"))
    made.steps.append(step("c", "tell", "b", input={"text": "${steps.b.output.said}"}))
    return made


async def tasks_of(site: Site, run_id: str) -> dict[str, pb.RunStep]:
    return {each.step_id: each for each in (await site.client().get_run(run_id)).steps}


async def test_a_failed_step_is_marked_and_its_run_goes_on_over_a_restart(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker("w")
    client = site.client()
    await client.apply_workflow(flow("marked"))
    run = await client.start_run("marked")
    assert (await run.wait(60)).state == pb.RUN_STATE_FAILED
    failed = (await tasks_of(site, run.id))["b"].task_id
    said = await client.mark_step(run.id, "b", MARKED_AS_SUCCESS, output={"said": "by hand"}, reason="on paper")
    assert (said.status, said.state, said.task_id) == (SUCCESS, pb.RUN_STATE_RUNNING, failed)
    scheduler.kill()
    await site.start_scheduler()
    assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    steps = await tasks_of(site, run.id)
    assert json.loads((await client.get_task(steps["c"].task_id)).task.input_json) == {"text": "by hand"}
    told = await client.get_task(failed)
    assert (told.task.status, told.task.error.kind, told.task.error.message) == (SUCCESS, "MARKED", "on paper")
    assert [(each.attempt, each.error.kind) for each in told.attempts] == [(1, "NON_RETRYABLE")]
    with pytest.raises(WrongState) as caught:
        await client.mark_task(failed, MARKED_AS_SKIPPED)
    assert caught.value.reason == "ALREADY_SUCCEEDED"


async def test_what_runs_is_told_to_stop_first(any_site: Site) -> None:
    site = any_site
    await site.start_scheduler()
    await site.start_worker("w", concurrency=1)
    client = site.client()
    running = await client.submit("later", {"hold_s": 3600})
    await comes_to(site, running.id, tasks.TASK_STATUS_RUNNING)
    assert await client.mark_task(running.id, MARKED_AS_SUCCESS, output=[1], reason="known") == CANCELLING
    ended = await running.wait(60)
    assert (ended.status, ended.output_json, ended.error.kind) == (SUCCESS, "[1]", "MARKED")
    assert [each["what"] for each in executions(site)] == ["start", "stopped"]
    assert await (await client.submit("double", {"number": 1})).result(60) == {"double": 2}, "its slot is free"


async def test_a_step_that_has_not_begun_is_passed_over_and_never_runs(shared_site: Site) -> None:
    client = shared_site.client()
    made = pb.Workflow(name="not-begun")
    made.steps.append(step("first", "later", input={"hold_s": 3600}))
    made.steps.append(step("second", "double", "first", input={"number": 1}))
    made.steps.append(step("third", "tell", "second", trigger_rule=pb.TRIGGER_RULE_NONE_FAILED, input={"text": "x"}))
    await client.apply_workflow(made)
    run = await client.start_run("not-begun")
    shown = await taskyard(shared_site, "mark", "skipped", run.id, "--step", "second", "--reason", "not today")
    assert (shown.code, shown.out) == (0, f"{run.id} step second SKIPPED, its run is RUNNING\n")
    first = await until(lambda: _task_of(shared_site, run.id, "first"), what="the first step is a task")
    await client.mark_task(first, MARKED_AS_SUCCESS)
    assert (await run.wait(60)).state == pb.RUN_STATE_SUCCEEDED
    steps = await tasks_of(shared_site, run.id)
    assert {id: each.status for id, each in steps.items()} == {"first": SUCCESS, "second": SKIPPED, "third": SUCCESS}
    assert (steps["second"].attempt, steps["second"].error.message) == (0, "not today")
    assert steps["second"].task_id not in {each["task"] for each in executions(shared_site)}
    with pytest.raises(NotFound):
        await client.mark_step(run.id, "fourth", MARKED_AS_SUCCESS)


async def _task_of(site: Site, run_id: str, step_id: str) -> str:
    return (await tasks_of(site, run_id))[step_id].task_id


async def test_all_that_match_are_marked(shared_site: Site) -> None:
    client = shared_site.client()
    for _ in range(3):
        await client.submit("nobody-runs-this", tags=["to-mark"])
    ended = await client.submit("double", {"number": 1}, tags=["to-mark"])
    await ended.wait(60)
    shown = await taskyard(shared_site, "mark", "skipped", "--filter", '"to-mark" in tags', "--yes", "--reason", "old")
    assert shown.out == "mark as SKIPPED: 3 tasks done, 1 refused\n"
    assert (shown.code, "ALREADY_SUCCEEDED 1" in shown.err) == (3, True)
    found = [task async for task in client.list_tasks(filter='"to-mark" in tags && status == "SKIPPED"')]
    assert [(task.error.kind, task.error.message) for task in found] == [("MARKED", "old")] * 3
    which = '"to-mark" in tags && status == "SKIPPED"'
    outcomes = [each async for each in client.bulk_tasks(which, BulkAction.BULK_ACTION_MARK_SUCCESS)]
    assert [each.status for each in outcomes] == [SUCCESS] * 3


async def test_a_retry_follows_no_attempt_that_was_marked(shared_site: Site) -> None:
    client = shared_site.client()
    waiting = await client.submit("flaky", {"number": 1, "failures": 1}, retry=Retry(first_delay=3600.0))
    await comes_to(shared_site, waiting.id, tasks.TASK_STATUS_PENDING)
    assert await client.mark_task(waiting.id, MARKED_AS_SKIPPED) == SKIPPED
    again = await client.mark_task(waiting.id, MARKED_AS_SUCCESS, output="after all")
    assert again == SUCCESS
    assert await waiting.result(60) == "after all"
