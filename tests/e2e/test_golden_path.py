"""What a user does first: submit, look, fail, retry, cancel, ask why, read logs, run a workflow."""

from __future__ import annotations

import json
import time
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.history import executions
from e2e.process import until
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb
from taskyard_client import (
    AlreadyEnded,
    AsyncClient,
    InvalidInput,
    Retry,
    RunFailed,
    TaskFailed,
    Timeouts,
    WrongState,
    methods,
)

AT_ONCE = Retry(first_delay=0.0)
SUCCESS, FAILED = tasks.TASK_STATUS_SUCCESS, tasks.TASK_STATUS_FAILED


def step(id: str, task_type: str = "tell", *needs: str, **fields: object) -> pb.WorkflowStep:
    input = fields.pop("input", None)
    if input is not None:
        fields["input_json"] = json.dumps(input)
    return pb.WorkflowStep(id=id, task_type=task_type, needs=needs, **fields)  # type: ignore[arg-type]


async def test_a_task_runs_and_says_what_became_of_it(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("double", {"number": 21})
    assert await handle.result(60) == {"double": 42}
    told = await client.get_task(handle.id)
    assert told.task.status == SUCCESS
    assert [(a.attempt, a.status, a.worker_id) for a in told.attempts] == [(1, SUCCESS, "shared-worker")]
    times = [told.task.create_time, told.task.assign_time, told.task.start_time, told.task.end_time]
    assert [t.ToMilliseconds() for t in times] == sorted(t.ToMilliseconds() for t in times)
    assert times[0].ToMilliseconds() > 0


async def test_each_kind_of_handler_runs(shared_site: Site) -> None:
    client = shared_site.client()
    handles = {kind: await client.submit(kind, {"number": 2}) for kind in ("double", "pause", "thread", "apart")}
    for kind, handle in handles.items():
        assert await handle.result(60) == {"double": 4}, kind
    shell = await client.submit("shell", {"command": "echo out; echo err >&2"})
    assert await shell.result(60) == {"exit_code": 0, "stdout_tail": "out\n", "stderr_tail": "err\n"}
    sleep = await client.submit("sleep", {"seconds": 0.01})
    assert await sleep.result(60) == {"slept_seconds": 0.01}
    words = await client.submit("text_process", {"text": "One two. Three!", "operation": "statistics"})
    assert (await words.result(60))["result"]["words"] == 3


async def test_failures_are_retried_and_each_attempt_is_kept(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("flaky", {"number": 4, "failures": 2}, retry=AT_ONCE)
    assert await handle.result(60) == {"double": 8}
    told = await client.get_task(handle.id)
    assert (told.task.attempt, told.task.retry_count) == (3, 2)
    assert [(a.attempt, a.status, a.error.kind) for a in told.attempts] == [
        (1, FAILED, "HANDLER_ERROR"), (2, FAILED, "HANDLER_ERROR"), (3, SUCCESS, ""),
    ]  # fmt: skip
    assert "failure 2 of 2" in told.attempts[1].error.message
    exhausted = await client.submit("flaky", {"number": 4, "failures": 9}, retry=AT_ONCE)
    with pytest.raises(TaskFailed) as caught:
        await exhausted.result(60)
    assert (caught.value.task.attempt, caught.value.task.status) == (3, FAILED)
    hopeless = await (await client.submit("hopeless", retry=AT_ONCE)).wait(60)
    assert (hopeless.attempt, hopeless.error.kind) == (1, "NON_RETRYABLE")


async def test_a_retry_s_delay_is_told_and_waited(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("flaky", {"number": 4, "failures": 1}, retry=Retry(first_delay=3600.0))

    async def reasons() -> list[str]:
        return [reason.code for reason in (await client.explain(handle.id)).reasons]

    await until(lambda: _is(reasons, ["RETRY_DELAY"]))
    await until(lambda: _ended(shared_site, handle.id, tasks.TASK_STATUS_PENDING))  # why is told before the commit is
    assert await handle.cancel() == tasks.TASK_STATUS_CANCELLED


async def _is(ask: object, wanted: object) -> bool:
    found = await ask()  # type: ignore[operator]
    return bool(found == wanted)


async def test_a_retry_by_hand_runs_an_ended_task_again(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("flaky", {"number": 5, "failures": 3}, retry=AT_ONCE)
    assert (await handle.wait(60)).status == FAILED
    await client.retry_task(handle.id)
    await until(lambda: _ended(shared_site, handle.id, SUCCESS))
    told = await client.get_task(handle.id)
    assert [a.attempt for a in told.attempts] == [1, 2, 3, 4]
    with pytest.raises(WrongState):
        await client.retry_task(handle.id)


async def _ended(site: Site, task_id: str, status: int) -> bool:
    return (await site.client().get_task(task_id)).task.status == status


async def test_cancel_stops_what_runs_and_what_waits(shared_site: Site) -> None:
    client = shared_site.client()
    inputs: dict[str, dict[str, Any]] = {"sleep": {"seconds": 3600}, "shell": {"command": "sleep 3600"}}
    for task_type, input in inputs.items():
        running = await client.submit(task_type, input)
        await until(lambda id=running.id: _ended(shared_site, id, tasks.TASK_STATUS_RUNNING))  # type: ignore[misc]
        assert await running.cancel("no longer wanted") in (
            tasks.TASK_STATUS_CANCELLING, tasks.TASK_STATUS_CANCELLED,
        )  # fmt: skip
        ended = await running.wait(60)
        assert (ended.status, ended.error.kind) == (tasks.TASK_STATUS_CANCELLED, "CANCELLED")
        assert "no longer wanted" in ended.error.message
        assert await running.cancel() == tasks.TASK_STATUS_CANCELLED  # a repeat changes nothing
    waiting = await client.submit("nobody-runs-this")
    assert await waiting.cancel() == tasks.TASK_STATUS_CANCELLED
    done = await client.submit("double", {"number": 1})
    await done.wait(60)
    with pytest.raises(AlreadyEnded):
        await done.cancel()


async def test_timeouts_end_tasks(shared_site: Site) -> None:
    client = shared_site.client()
    once = Retry(max_attempts=1)
    run = await client.submit("sleep", {"seconds": 3600}, timeouts=Timeouts(run=0.1), retry=once)
    task = await run.wait(60)
    assert (task.status, task.error.kind) == (tasks.TASK_STATUS_TIMEOUT, "TIMEOUT")
    queued = await client.submit("nobody-runs-this", timeouts=Timeouts(queued=0.1))
    task = await queued.wait(60)
    assert (task.status, task.error.kind) == (tasks.TASK_STATUS_TIMEOUT, "QUEUED_TIMEOUT")
    total = await client.submit("sleep", {"seconds": 3600}, timeouts=Timeouts(total=0.3))
    task = await total.wait(60)
    assert (task.status, task.error.kind) == (tasks.TASK_STATUS_TIMEOUT, "TOTAL_TIMEOUT")


async def test_every_waiting_task_can_say_why(shared_site: Site) -> None:
    client = shared_site.client()
    nobody = await client.submit("nobody-runs-this")
    nowhere = await client.submit("double", {"number": 1}, selector="zone=moon")
    running = await client.submit("sleep", {"seconds": 3600})
    await until(lambda: _ended(shared_site, running.id, tasks.TASK_STATUS_RUNNING))
    for handle, code in [(nobody, "NO_WORKER_FOR_TYPE"), (nowhere, "NO_WORKER_MATCHES"), (running, "RUNNING")]:
        answer = await client.explain(handle.id)
        assert [reason.code for reason in answer.reasons][0] == code  # noqa: RUF015 - an empty list shows itself
        assert len(answer.reasons[0].message) > 10
        assert answer.summary
        await handle.cancel()
        await handle.wait(60)
        ended = await client.explain(handle.id)
        assert ended.status == tasks.TASK_STATUS_CANCELLED
        assert ended.summary
    queues = [queue.task_type async for queue in client.queues()]
    assert "nobody-runs-this" not in queues


async def test_logs_are_in_order_and_can_be_followed(shared_site: Site, tmp_path: Path) -> None:
    client = shared_site.client()
    handle = await client.submit("talk", {"lines": 2500})
    await handle.wait(60)
    followed = [line async for line in handle.logs(follow=True)]
    assert [line.content.text for line in followed] == [f"line {n}" for n in range(2500)]
    assert [line.line for line in followed] == list(range(2500))
    assert [line.line async for line in handle.logs()] == list(range(2500))
    gate = tmp_path / "gate"
    open_one = await client.submit("talk_until", {"gate": str(gate)})
    seen = []
    async for line in open_one.logs(follow=True):
        seen.append(line.content.text)
        gate.touch()  # the first line came while the task still ran
    assert seen == ["before", "after"]
    assert await open_one.result(60) == {"gate": True}


async def test_lines_are_searched_for_over_pages_in_one_attempt_and_while_followed(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("talk", {"lines": 2500})
    ended = await handle.wait(60)
    wanted = [f"line {n}" for n in range(2500) if "99" in str(n)]
    assert [line.content.text async for line in handle.logs(follow=True, contains="99")] == wanted
    assert [line.content.text async for line in handle.logs(contains="LINE 2499")] == ["line 2499"]
    pages = [await logs_page(client, handle.id, 3, "99")]
    while pages[-1].next_page_token:
        pages.append(await logs_page(client, handle.id, 3, "99", pages[-1].next_page_token))
    assert [line.content.text for page in pages for line in page.lines] == wanted
    assert {len(page.lines) for page in pages[:-1]} == {3}
    after = ended.end_time.ToDatetime(UTC) + timedelta(hours=1)
    assert [line async for line in handle.logs(since=after)] == []
    assert len([line async for line in handle.logs(since=ended.create_time.ToDatetime(UTC))]) == 2500
    with pytest.raises(InvalidInput, match=r"selection\.contains"):
        await anext(handle.logs(contains="x" * 2000))


async def logs_page(
    client: AsyncClient, task_id: str, size: int, contains: str, token: str = ""
) -> tasks.GetLogsResponse:
    """Reads a page as a client of another language does."""
    selection = tasks.LogSelection(contains=contains)
    request = tasks.GetLogsRequest(task_id=task_id, page_size=size, page_token=token, selection=selection)
    return await client._session.caller.call(methods.GET_LOGS, request)


async def test_logs_of_all_attempts_are_followed(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("flaky", {"number": 1, "failures": 2}, retry=AT_ONCE)
    lines = [line async for line in handle.logs(follow=True)]
    said = [(line.attempt, line.content.text) for line in lines if line.content.text.startswith("attempt")]
    assert said == [(n, f"attempt {n} of 3") for n in (1, 2, 3)]
    first = [line.attempt async for line in handle.logs(attempt=1)]
    assert set(first) == {1}


async def test_logs_of_what_ended_long_ago_are_not_waited_for(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("flaky", {"number": 1, "failures": 2}, retry=AT_ONCE)
    await handle.wait(60)
    slow = [line async for line in handle.logs(follow=True)]  # until the lines have settled
    begun = time.monotonic()
    assert [line async for line in handle.logs(follow=True)] == slow
    assert time.monotonic() - begun < 1.9


async def test_a_checkpoint_survives_to_the_next_attempt(shared_site: Site) -> None:
    client = shared_site.client()
    handle = await client.submit("climb", {"steps": 10}, retry=AT_ONCE)
    assert await handle.result(60) == {"begun": 5, "reached": 10}
    found = [record["found"] for record in executions(shared_site) if record["task"] == handle.id]
    assert found == [None, {"step": 5}]


async def test_a_workflow_with_templates_runs_to_its_output(shared_site: Site) -> None:
    client = shared_site.client()
    workflow = pb.Workflow(
        name="diamond",
        inputs=[pb.WorkflowInput(name="n"), pb.WorkflowInput(name="word", default_json='"hello"')],
        steps=[
            step("begin", "double", input={"number": "${inputs.n}"}),
            step("left", "flaky", "begin", input={"number": "${steps.begin.output.double}", "failures": 1},
                 retry=AT_ONCE.message()),
            step("right.x", "tell", "begin", input={"text": "${inputs.word} ${steps.begin.output.double} in ${run.id}"}),  # noqa: E501
            step("join", "tell", "left", "right.x",
                 input={"left": "${steps.left.output}", "right": '${steps["right.x"].output.text}'}),
        ],
        output_json='{"joined": "${steps.join.output}", "n": "${inputs.n}"}',
    )  # fmt: skip
    applied = await client.apply_workflow(workflow)
    assert applied.workflow.version == 1
    run = await client.start_run("diamond", {"n": 3})
    output = await run.result(60)
    assert output == {"joined": {"left": {"double": 12}, "right": f"hello 6 in {run.id}"}, "n": 3}
    told = await client.get_run(run.id)
    assert [(s.step_id, s.status, s.attempt) for s in told.steps] == [
        ("begin", SUCCESS, 1), ("left", SUCCESS, 2), ("right.x", SUCCESS, 1), ("join", SUCCESS, 1),
    ]  # fmt: skip
    assert (told.run.steps_total, told.run.steps_ended) == (4, 4)
    again = await client.start_run("diamond", {"n": 3}, idempotency_key="one")
    assert (await client.start_run("diamond", {"n": 3}, idempotency_key="one")).id == again.id


async def test_a_failed_step_fails_the_run_and_a_retry_goes_on_from_there(shared_site: Site) -> None:
    client = shared_site.client()
    workflow = pb.Workflow(
        name="fragile",
        steps=[
            step("a", "flaky", input={"number": 1, "failures": 2}, retry=Retry(max_attempts=1).message()),
            step("b", "tell", "a", input={"got": "${steps.a.output.double}"}),
            step("clean", "tell", "a", trigger_rule=pb.TRIGGER_RULE_ONE_FAILED, input={"cleaned": True}),
        ],
        output_json='{"b": "${steps.b.output.got}"}',
    )
    await client.apply_workflow(workflow)
    run = await client.start_run("fragile")
    with pytest.raises(RunFailed):
        await run.result(60)
    told = await client.get_run(run.id)
    states = {s.step_id: s.status for s in told.steps}
    assert states == {"a": FAILED, "b": tasks.TASK_STATUS_SKIPPED, "clean": SUCCESS}
    assert told.run.error_message
    a = next(s.task_id for s in told.steps if s.step_id == "a")
    await client.retry_task(a)
    await until(lambda: _step_attempts(shared_site, run.id, "a", 2))
    await until(lambda: _run_ended(shared_site, run.id))
    await client.retry_task(a)
    await until(lambda: _step_attempts(shared_site, run.id, "a", 3))
    assert await run.result(60) == {"b": 2}


async def _step_attempts(site: Site, run_id: str, step_id: str, attempt: int) -> bool:
    told = await site.client().get_run(run_id)
    return any(s.step_id == step_id and s.attempt == attempt for s in told.steps)


async def _run_ended(site: Site, run_id: str) -> bool:
    return (await site.client().get_run(run_id)).run.HasField("end_time")


async def test_a_run_is_cancelled_with_all_its_steps(shared_site: Site) -> None:
    client = shared_site.client()
    steps = [step("a", "sleep", input={"seconds": 3600}), step("b", "sleep", "a", input={"seconds": 3600})]
    await client.apply_workflow(pb.Workflow(name="long", steps=steps))
    run = await client.start_run("long")

    async def a_runs() -> bool:
        return any(s.status == tasks.TASK_STATUS_RUNNING for s in (await client.get_run(run.id)).steps)

    await until(a_runs)
    await run.cancel("enough")
    assert (await run.wait(60)).state == pb.RUN_STATE_CANCELLED
    assert {s.status for s in (await client.get_run(run.id)).steps} == {tasks.TASK_STATUS_CANCELLED}
    with pytest.raises(RunFailed):
        await run.result(60)


async def test_lists_page_and_filter(shared_site: Site) -> None:
    client = shared_site.client()
    made = [(await client.submit("tell", {"n": n}, priority=9)).id for n in range(7)]
    await client.wait_tasks(made, 60)
    newest = [task.task_id async for task in client.list_tasks(page_size=2, limit=7)]
    assert newest == made[::-1]
    found = [t.task_id async for t in client.list_tasks(filter="priority == 9", order_by="create_time", page_size=3)]
    assert found == made
    assert [t async for t in client.list_tasks(filter='status == "TIMEOUT" && task_type == "tell"')] == []
