"""The client against a real gRPC server: every call, lost answers, restarts, silence, and what errors say."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest
from client_fixtures import served
from scripted_faults import Fault
from scripted_server import RunState, ScriptedServer, TaskStatus

import taskyard_client as ty
from taskyard.v1 import fleet_pb2, tasks_pb2, workflows_pb2
from taskyard.v1.pauses_pb2 import PauseScope
from taskyard.v1.tasks_pb2 import MarkedAs as Marked
from taskyard_client import AsyncClient, InvalidInput, Violation, new_run, new_task


async def test_submit_wait_result() -> None:
    async with served() as (server, client):
        task = await client.submit(
            "sleep",
            {"seconds": 1, "text": "é"},
            params={"a": "b"},
            priority=3,
            retry=ty.Retry(max_attempts=5, first_delay=0.25),
            timeouts=ty.Timeouts(run=90),
            selector="lang=python",
            resources=ty.Resources(cpu_millis=500),
            idempotency_key="key",
        )
        sent = server.wire.named("SubmitTasks")[0].tasks[0]
        assert (sent.task_type, sent.input_json, dict(sent.params)) == (
            "sleep", '{"seconds":1,"text":"é"}', {"a": "b"}
        )  # fmt: skip
        assert (sent.priority, sent.retry.max_attempts, sent.retry.first_delay.nanos) == (3, 5, 250_000_000)
        assert (sent.timeouts.run_timeout.seconds, sent.placement.selector) == (90, "lang=python")
        assert (sent.resources.cpu_millis, sent.idempotency_key) == (500, "key")
        assert not sent.HasField("exclusive")
        assert len(sent.request_id) == 32
        await server.model.end(task.id, output='{"slept_seconds":1}')
        assert await task.result(10) == {"slept_seconds": 1}
        assert (await task.status()).status == TaskStatus.TASK_STATUS_SUCCESS
        assert server.wire.calls[0].token == "Bearer secret-token"


async def test_concurrent_submissions_share_calls_and_get_their_own_ids() -> None:
    async with served() as (server, client):

        async def caller(number: int) -> list[tuple[str, str]]:
            return [(f"{number}-{at}", (await client.submit(f"{number}-{at}")).id) for at in range(10)]

        pairs = [pair for some in await asyncio.gather(*map(caller, range(64))) for pair in some]
        assert len({task_id for _, task_id in pairs}) == 640
        assert all(server.model.tasks[task_id].task_type == name for name, task_id in pairs)
        assert len(server.wire.named("SubmitTasks")) <= 30


async def test_one_bad_submission_hurts_only_its_caller_and_names_its_own_field() -> None:
    async with served() as (_, client):
        outcomes = await asyncio.gather(
            client.submit("a"), client.submit("b", priority=11), client.submit("c"), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [ty.TaskHandle, ty.InvalidInput, ty.TaskHandle]
        bad = outcomes[1]
        assert isinstance(bad, ty.InvalidInput)
        assert bad.violations == [ty.Violation("priority", "11 is not 1 to 10; leave it out for 5")]


async def test_lists_are_split_and_outcomes_keep_their_order() -> None:
    async with served() as (server, client):
        tasks = [new_task("x", priority=0 if at == 700 else None) for at in range(1_100)]
        outcomes = await client.submit_many(tasks)
        assert sorted(len(request.tasks) for request in server.wire.named("SubmitTasks")) == [76, 512, 512]
        assert [at for at, outcome in enumerate(outcomes) if outcome.error] == [700]
        assert "tasks[700].priority" in str(outcomes[700].error)
        assert all(not task.request_id for task in tasks)
        assert await client.submit_many([]) == []


async def test_of_a_long_list_only_what_failed_is_told_as_failed() -> None:
    async with served() as (server, client):
        bad = Fault(grpc.StatusCode.INTERNAL, "scripted", "BROKEN")
        server.script("SubmitTasks", bad)
        outcomes = await client.submit_many(new_task("x") for _ in range(1_000))
        failed = [outcome for outcome in outcomes if isinstance(outcome.error, ty.ServerError)]
        assert len(failed) in {488, 512}
        assert sum(outcome.handle is not None for outcome in outcomes) == 1_000 - len(failed)
        server.script("SubmitTasks", bad, bad)
        with pytest.raises(ty.ServerError):
            await client.submit_many(new_task("x") for _ in range(1_000))


async def test_an_atomic_list_is_one_call() -> None:
    async with served() as (server, client):
        outcomes = await client.submit_many((new_task("x") for _ in range(600)), atomic=True)
        assert all(outcome.handle for outcome in outcomes)
        (request,) = server.wire.named("SubmitTasks")
        assert request.atomic


async def test_a_lost_answer_makes_no_second_task() -> None:
    async with served() as (server, client):
        server.script("SubmitTasks", Fault(late=True), Fault(late=True))
        task = await client.submit("x")
        assert task.repeated
        assert list(server.model.tasks) == [task.id]
        assert len({request.tasks[0].request_id for request in server.wire.named("SubmitTasks")}) == 1


async def test_a_submission_given_twice_is_two_tasks() -> None:
    async with served() as (server, client):
        same = new_task("x")
        assert (await client.submit_task(same)).id != (await client.submit_task(same)).id
        await client.submit_many([same, same])
        assert len(server.model.tasks) == 4


async def test_a_restarted_scheduler_is_found_within_one_call() -> None:
    async with served() as (server, client):
        await client.submit("before")
        await server.stop()
        call = asyncio.ensure_future(client.submit("after"))
        await asyncio.sleep(0.15)  # its first attempts meet a closed port
        await server.start()
        assert (await call).id in server.model.tasks


async def test_a_closed_port_is_said_so_with_the_way_out() -> None:
    async with served(timeout=2) as (server, client):
        await server.stop()
        with pytest.raises(ty.Unavailable) as caught:
            await client.cluster_status()
        assert f"not reachable at {server.address}: is it running? `taskyard dev`" in str(caught.value)
        assert "FleetService.GetClusterStatus, tried 4 times" in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("DATABASE_UNAVAILABLE", "it waits; the scheduler's log says why"),
        ("NOT_LEADER", "it waits"),
        ("", "(it waits)"),
    ],
)
async def test_who_cannot_be_served_now_learns_where_more_is_said(reason: str, ends: str) -> None:
    async with served() as (server, client):
        server.script("GetTask", *[Fault(grpc.StatusCode.UNAVAILABLE, "it waits", reason)] * 4)
        with pytest.raises(ty.Unavailable) as caught:
            await client.get_task("x")
        assert caught.value.message.endswith(ends)


async def test_silence_ends_at_the_deadline_of_the_client() -> None:
    async with served(timeout=0.2) as (server, client):
        server.script("GetTask", Fault(silent=True))
        with pytest.raises(ty.DeadlineExceeded, match="no answer") as caught:
            await client.get_task("x")
        assert str(caught.value).endswith("is it overloaded or stopped? [TaskService.GetTask]")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("SubmitTasks", lambda client: client.submit("x")),
        ("SubmitTasks", lambda client: client.submit_many([new_task("x")])),
        ("TriggerTask", lambda client: client.trigger("n")),
        ("CancelTask", lambda client: client.cancel_task("t")),
        ("RetryTask", lambda client: client.retry_task("t")),
        ("StartRuns", lambda client: client.start_run("w")),
        ("CancelRun", lambda client: client.cancel_run("r")),
        ("DeleteTaskDefinition", lambda client: client.delete_definition("n")),
    ],
)
async def test_of_a_change_without_an_answer_it_is_said_that_it_may_be_done(name: str, call: Any) -> None:
    async with served(timeout=0.2) as (server, client):
        server.script(name, *[Fault(silent=True)] * 3)
        with pytest.raises(ty.DeadlineExceeded, match=r"stopped\? What was asked may still be done\."):
            await call(client)


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (Fault(grpc.StatusCode.NOT_FOUND, "there is no task x", "TASK_NOT_FOUND"), ty.NotFound, "no task x"),
        (Fault(grpc.StatusCode.PERMISSION_DENIED, "viewer may not", "ROLE"), ty.PermissionDenied, "viewer"),
        (Fault(grpc.StatusCode.UNAUTHENTICATED, "expired", "TOKEN"), ty.Unauthenticated, "taskyard token"),
        (Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "PENDING_LIMIT"), ty.Overloaded, "full"),
        (Fault(grpc.StatusCode.FAILED_PRECONDITION, "ended", "ALREADY_ENDED"), ty.AlreadyEnded, "ended"),
        (Fault(grpc.StatusCode.FAILED_PRECONDITION, "runs", "NOT_ENDED"), ty.WrongState, "runs"),
        (Fault(grpc.StatusCode.ALREADY_EXISTS, "taken", "X"), ty.AlreadyExists, "taken"),
        (Fault(grpc.StatusCode.OUT_OF_RANGE, "gone", "X"), ty.Gone, "gone"),
        (Fault(grpc.StatusCode.INTERNAL, "boom"), ty.ServerError, "INTERNAL"),
        (
            Fault(grpc.StatusCode.INVALID_ARGUMENT, "bad", "INVALID_INPUT", violations={"task_id": "is empty"}),
            ty.InvalidInput,
            "task_id: is empty",
        ),
    ],
)
async def test_each_status_is_its_own_exception(fault: Fault, kind: type[Exception], says: str) -> None:
    async with served() as (server, client):
        server.script("GetTask", fault)
        with pytest.raises(kind, match=says) as caught:
            await client.get_task("x")
        assert isinstance(caught.value, ty.TaskyardError)
        assert caught.value.method == "TaskService.GetTask"
        # An answer is a sentence of its own; where none came, it helps to know which call it was.
        names_it = str(caught.value).endswith("[TaskService.GetTask]")
        assert names_it == (kind in {ty.Overloaded, ty.ServerError})
        assert caught.value.reason == (fault.reason or "")


async def test_a_refusal_speaks_of_the_callers_item_and_of_none_where_there_is_one() -> None:
    async with served() as (_, client):
        with pytest.raises(ty.NotFound) as caught:
            await client.start_run("x")
        assert str(caught.value) == "workflow: there is no workflow 'x': apply it first"
        with pytest.raises(ty.InvalidInput) as bad:
            await client.submit("x", priority=11)
        assert str(bad.value) == "priority: 11 is not 1 to 10; leave it out for 5"
        (_, one), (_, two) = await client.start_runs([new_run("a"), new_run("b")])
        assert str(one) == "runs[0].workflow: there is no workflow 'a': apply it first"
        assert str(two) == "runs[1].workflow: there is no workflow 'b': apply it first"


async def test_overload_is_waited_out() -> None:
    async with served() as (server, client):
        server.script("SubmitTasks", Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "X", retry_after=0.2))
        assert (await client.submit("x")).id


async def test_lists_follow_pages_and_stop_at_the_limit() -> None:
    async with served() as (server, client):
        ids = [(await client.submit("x")).id for _ in range(7)][::-1]
        assert [task.task_id async for task in client.list_tasks(page_size=3)] == ids
        assert len(server.wire.named("ListTasks")) == 3
        assert [task.task_id async for task in client.list_tasks(page_size=3, limit=4)] == ids[:4]
        assert [task.task_id async for task in client.list_tasks(limit=0)] == []


async def test_what_lists_would_yield_is_counted() -> None:
    async with served() as (server, client):
        for _ in range(3):
            await client.submit("x")
        counted = await client.count_tasks("f", by="error.kind")
        assert (counted.count, [(group.value, group.count) for group in counted.groups]) == (3, [("", 3)])
        assert server.wire.named("CountTasks") == [tasks_pb2.CountTasksRequest(filter="f", group_by="error.kind")]
        assert (await client.count_runs("g", by="state")).count == 0
        assert server.wire.named("CountRuns") == [workflows_pb2.CountRunsRequest(filter="g", group_by="state")]


async def test_cancel_retry_explain() -> None:
    async with served() as (server, client):
        task = await client.submit("odd")
        assert (await client.explain(task.id)).reasons[0].code == "NO_WORKER_FOR_TYPE"
        assert await task.explain() == await client.explain(task.id)
        assert await task.cancel("enough") == TaskStatus.TASK_STATUS_CANCELLED
        assert server.wire.named("CancelTask")[0].reason == "enough"
        assert server.wire.named("CancelTask")[0].request_id
        with pytest.raises(ty.AlreadyEnded):
            await task.cancel()
        assert await task.retry() == TaskStatus.TASK_STATUS_QUEUED
        with pytest.raises(ty.WrongState):
            await client.retry_task(task.id)


async def test_logs_by_pages_and_as_they_come_over_a_cut() -> None:
    async with served() as (server, client):
        task = await client.submit("x")
        server.model.logs[task.id] = [
            tasks_pb2.StoredLogLine(attempt=attempt, line=line, content=tasks_pb2.LogLine(text=f"{attempt}.{line}"))
            for attempt in (1, 2)
            for line in range(3)
        ]
        wanted = ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]
        assert [line.content.text async for line in task.logs()] == wanted
        server.script("StreamLogs", Fault(after=2), Fault(after=2))
        assert [line.content.text async for line in task.logs(follow=True)] == wanted


async def test_definitions() -> None:
    async with served() as (server, client):
        made = await client.create_definition(tasks_pb2.TaskDefinition(name="n", task_type="shell"))
        assert made.number == 1
        with pytest.raises(ty.AlreadyExists):
            await client.create_definition(made)
        made.description = "new"
        assert (await client.update_definition(made)).description == "new"
        assert (await client.get_definition("n")).description == "new"
        assert [each.name async for each in client.list_definitions()] == ["n"]
        task = await client.trigger("n", {"a": 1})
        assert server.model.tasks[task.id].input_json == '{"a":1}'
        await client.delete_definition("n")
        assert [each.name async for each in client.list_definitions()] == []


async def test_workflows_and_runs(two_steps: Any) -> None:
    async with served() as (server, client):
        stored = await client.apply_workflow(two_steps)
        assert (stored.workflow.version, stored.changed) == (1, True)
        assert not (await client.apply_workflow(two_steps)).changed
        assert (await client.get_workflow("two")).steps[1].needs == ["a"]
        assert [each.name async for each in client.list_workflows()] == ["two"]
        run = await client.start_run("two", {"x": 1})
        assert (await run.status()).inputs_json == '{"x":1}'
        assert [each.run_id async for each in client.list_runs()] == [run.id]
        wait = asyncio.ensure_future(run.result(10))
        await server.model.set_run(run.id, server_state("SUCCEEDED"), output_json='{"y":2}')
        assert await wait == {"y": 2}
        with pytest.raises(ty.AlreadyEnded):
            await run.cancel()
        with pytest.raises(ty.NotFound, match="there is no workflow 'other'"):
            await client.start_run("other")
        outcomes = await client.start_runs([new_run("two"), new_run("other"), new_run("two")])
        assert [outcome.handle is not None for outcome in outcomes] == [True, False, True]


def server_state(name: str) -> Any:
    from scripted_server import RunState

    return RunState.Value(f"RUN_STATE_{name}")


async def test_a_run_that_fails_and_one_that_takes_too_long(two_steps: Any) -> None:
    async with served() as (server, client):
        await client.apply_workflow(two_steps)
        run = await client.start_run("two")
        with pytest.raises(ty.DeadlineExceeded, match="0 of 2 steps"):
            await run.wait(0.1)
        await server.model.set_run(run.id, server_state("FAILED"), error_message="step `b` failed")
        with pytest.raises(ty.RunFailed, match="ended FAILED: step `b` failed"):
            await run.result(10)


async def test_watching_a_run_goes_on_over_a_cut(two_steps: Any) -> None:
    async with served() as (server, client):
        await client.apply_workflow(two_steps)
        run = await client.start_run("two")
        server.script("WatchRun", Fault(after=1))
        states: list[int] = []
        async for change in run.watch():
            states.append(change.run.state)
            if len(states) == 2:
                await server.model.set_run(run.id, server_state("CANCELLED"))
        assert states[-1] == server_state("CANCELLED")
        assert [request.after_revision > 0 for request in server.wire.named("WatchRun")] == [False, True]


async def test_concurrent_starts_share_calls(two_steps: Any) -> None:
    async with served() as (server, client):
        await client.apply_workflow(two_steps)
        runs = await asyncio.gather(*(client.start_run("two") for _ in range(50)))
        assert len({run.id for run in runs}) == 50
        assert len(server.wire.named("StartRuns")) == 1


async def test_fleet() -> None:
    async with served() as (server, client):
        server.model.workers.append(fleet_pb2.Worker(worker_id="w"))
        server.model.queues.append(fleet_pb2.Queue(task_type="shell", waiting=3))
        server.model.status.workers_healthy = 1
        assert [each.worker_id async for each in client.workers()] == ["w"]
        assert (await client.get_worker("w")).worker_id == "w"
        assert [each.waiting async for each in client.queues()] == [3]
        assert (await client.cluster_status()).workers_healthy == 1


async def test_what_people_say_of_tasks_and_steps(two_steps: Any) -> None:
    async with served() as (server, client):
        await client.apply_workflow(two_steps)
        task, run = await client.submit("x"), await client.start_run("two")
        assert await client.mark_task(task.id, Marked.MARKED_AS_SKIPPED) == TaskStatus.TASK_STATUS_SKIPPED
        said = await client.mark_step(run.id, "a", Marked.MARKED_AS_SUCCESS, output=[1, {"é": None}], reason="by phone")
        assert (said.status, said.state, bool(said.task_id)) == (
            TaskStatus.TASK_STATUS_SUCCESS,
            RunState.RUN_STATE_RUNNING,
            True,
        )
        sent = server.wire.named("MarkStep")[0]
        assert (sent.output_json, sent.reason) == ('[1,{"é":null}]', "by phone")
        assert server.wire.named("MarkTask")[0].output_json == ""
        done = await client.submit("x")
        await server.model.end(done.id)
        with pytest.raises(ty.WrongState) as caught:
            await client.mark_task(done.id, Marked.MARKED_AS_SUCCESS, output=False)
        assert caught.value.reason == "ALREADY_SUCCEEDED"
        assert server.wire.named("MarkTask")[-1].output_json == "false"
        with pytest.raises(ty.NotFound):
            await client.mark_step(run.id, "no-such", Marked.MARKED_AS_SUCCESS)
        with pytest.raises(ty.InvalidInput, match="output: cannot be written as JSON"):
            await client.mark_task(task.id, Marked.MARKED_AS_SUCCESS, output=float("nan"))


async def test_a_result_from_outside_is_waited_for_like_any() -> None:
    async with served() as (server, client):
        server.model.first_status = TaskStatus.TASK_STATUS_DEFERRED
        good, bad = await client.submit("x"), await client.submit("x")
        waiting = asyncio.gather(good.result(10), bad.wait(10))
        await server.wire.reached(lambda: bool(server.wire.named("WatchTasks")))
        with pytest.raises(ty.WrongState, match="attempt is over"):
            await client.complete_task(f"{good.id}.stale")
        assert not waiting.done()
        assert await client.complete_task(f"{good.id}.good", {"by": "ann"}, request_id="once") == 2
        failed = await client.fail_task(f"{bad.id}.good", "refused", kind="NON_RETRYABLE")
        assert failed == TaskStatus.TASK_STATUS_FAILED
        output, ended = await waiting
        assert (output, ended.status) == ({"by": "ann"}, TaskStatus.TASK_STATUS_FAILED)
        _, first, second = server.wire.named("CompleteTask")
        assert (first.request_id, first.status) == ("once", TaskStatus.TASK_STATUS_SUCCESS)
        assert (second.error_message, second.error_kind, bool(second.request_id)) == ("refused", "NON_RETRYABLE", True)
        with pytest.raises(ty.NotFound):
            await client.fail_task("nothing.good", "refused")


async def test_work_is_held_back_and_goes_on(two_steps: Any) -> None:
    async with served() as (_, client):
        await client.apply_workflow(two_steps)
        run = await client.start_run("two")
        held = await client.pause_work(PauseScope.PAUSE_SCOPE_TASK_TYPE, "shell", reason="new disk")
        assert (held.name, held.reason, held.paused_by) == ("shell", "new disk", "ann")
        await client.pause_work(PauseScope.PAUSE_SCOPE_ALL)
        assert (await client.pause_run(run.id, "wait")).scope == PauseScope.PAUSE_SCOPE_RUN
        assert [each.name async for each in client.pauses(page_size=1)] == ["shell", run.id, ""]
        assert [each.name async for each in client.pauses(limit=1)] == ["shell"]
        assert (await client.resume_run(run.id)).reason == "wait"
        assert await client.resume_work(PauseScope.PAUSE_SCOPE_TASK_TYPE, "shell") == held
        for call in (client.resume_run(run.id), client.resume_work(PauseScope.PAUSE_SCOPE_TENANT)):
            with pytest.raises(ty.WrongState, match="is not paused"):
                await call
        with pytest.raises(ty.NotFound):
            await client.pause_work(PauseScope.PAUSE_SCOPE_RUN, "no-such")


async def test_a_task_for_each_worker_and_one_for_one() -> None:
    async with served() as (server, client):
        with pytest.raises(ty.WrongState, match="no worker"):
            await client.broadcast_task(new_task("x"))
        for at, state in enumerate(("HEALTHY", "DRAINING", "HEALTHY")):
            value = fleet_pb2.WorkerState.Value(f"WORKER_STATE_{state}")
            server.model.workers.append(fleet_pb2.Worker(worker_id=f"w{at}", state=value))
        sent = await client.broadcast_task(new_task("x", {"a": 1}), request_id="once")
        assert [copy.worker_id for copy in sent.copies] == ["w0", "w2"]
        assert list(sent.left_out_worker_ids) == ["w1"]
        assert server.wire.named("BroadcastTask")[-1].request_id == "once"
        ids = [copy.task_id for copy in sent.copies]
        await server.model.end(*ids)
        assert list(await client.wait_tasks(ids, 10)) == ids
        await client.submit("x", placement=ty.Placement(worker_id="w0"))
        assert server.wire.named("SubmitTasks")[-1].tasks[0].placement.worker_id == "w0"


@pytest.mark.parametrize("bad", ["", "localhost", "http://x:1", "x:0", "x:99999", "a b:1", "::1:9"])
def test_a_bad_address_is_refused_by_name(bad: str) -> None:
    with pytest.raises(ty.InvalidInput, match="host:port"):
        AsyncClient(bad, None)


@pytest.mark.parametrize("bad", ["a\nb", "a\tb", "a b", "\x00", "a\x7f", "é", "a\u00a0b", "\udce9"], ids=ascii)
@pytest.mark.parametrize("make", [AsyncClient, ty.Client])
def test_a_token_that_no_call_can_carry_is_refused_by_name_and_not_shown(make: Any, bad: str) -> None:
    with pytest.raises(ty.InvalidInput, match=r"^token: character \d of \d is U\+[0-9A-F]{4}, .* ASCII") as caught:
        make("127.0.0.1:1", f"{bad}secret")
    assert [each.field for each in caught.value.violations] == ["token"]
    assert "secret" not in str(caught.value)
    assert "taskyard-client" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("token", ["abc\n", " abc", "\tabc\r\n"], ids=ascii)
async def test_white_space_around_a_token_and_an_address_does_not_count(token: str) -> None:
    async with ScriptedServer() as server, AsyncClient(f"{server.address}\n", token) as client:
        await client.cluster_status()
        assert [call.token for call in server.wire.calls] == ["Bearer abc"]


@pytest.mark.parametrize("token", [None, "", " \n"])
async def test_without_a_token_none_is_sent(token: str | None) -> None:
    async with ScriptedServer() as server, AsyncClient(server.address, token) as client:
        await client.cluster_status()
        assert [call.token for call in server.wire.calls] == [""]


@pytest.mark.parametrize("bad", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}])
async def test_input_that_is_not_json_never_leaves(bad: dict[str, Any]) -> None:
    async with served() as (server, client):
        with pytest.raises(ty.InvalidInput, match="input: cannot be written as JSON"):
            await client.submit("x", bad)
        assert server.wire.calls == []


async def test_every_mutating_call_carries_a_request_id(two_steps: Any) -> None:
    async with served() as (server, client):
        await client.apply_workflow(two_steps)
        task, run = await client.submit("x"), await client.start_run("two")
        await client.submit_many([new_task("x")])
        await client.start_runs([new_run("two")])
        await task.cancel()
        await client.retry_task(task.id)
        await run.cancel()
        made = await client.create_definition(tasks_pb2.TaskDefinition(name="n", task_type="x"))
        await client.update_definition(made)
        await client.trigger("n")
        await client.delete_definition("n")
        server.model.workers.append(fleet_pb2.Worker(worker_id="w", state=fleet_pb2.WorkerState.WORKER_STATE_HEALTHY))
        await client.broadcast_task(new_task("x"))
        await client.mark_task(task.id, Marked.MARKED_AS_SKIPPED)
        await client.mark_step(run.id, "a", Marked.MARKED_AS_SKIPPED)
        await client.complete_task(f"{task.id}.good")
        await client.fail_task(f"{task.id}.good", "no")
        await client.pause_run(run.id)
        await client.resume_run(run.id)
        await client.pause_work(PauseScope.PAUSE_SCOPE_ALL)
        await client.resume_work(PauseScope.PAUSE_SCOPE_ALL)
        ids = [
            each.request_id
            for call in server.wire.calls
            for each in getattr(call.request, "tasks", None) or getattr(call.request, "runs", None) or [call.request]
        ]
        assert all(ids)
        assert len(set(ids)) == len(server.wire.calls)


async def test_a_closed_client_says_so() -> None:
    async with ScriptedServer() as server:
        client = AsyncClient(server.address, None)
        await client.close()
        await client.close()
        with pytest.raises(ty.ClientClosed):
            await client.submit("x")
        with pytest.raises(ty.ClientClosed):
            await client.cluster_status()


@pytest.mark.parametrize(
    ("violations", "says"),
    [
        ([("inputs_json.x", "is missing.")], "inputs.x: is missing"),
        ([("runs[0].inputs_json['a b']", "is missing.")], "runs[0].inputs['a b']: is missing"),
        ([("input_json", "is bad. Did you mean `b`?"), ("priority", "is 11")],
         "input: is bad. Did you mean `b`?; priority: is 11"),
        ([("params.input_jsons", "is bad")], "params.input_jsons: is bad"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_words_of_who_gave_it(violations: list[tuple[str, str]], says: str) -> None:
    error = InvalidInput("refused", [Violation(*each) for each in violations])
    assert str(error) == says
    assert [each.field for each in error.violations] == [field for field, _ in violations]
