"""The calls of people and of what is outside, on a leader with a store in memory: roles, refusals, repeats, shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from leaders import leading
from store_rows import NOW

from taskyard.v1 import fleet_pb2, pauses_pb2, policies_pb2, tasks_pb2, workflows_pb2
from taskyard_core.engine.events import Hello, NewRun, NewTask, Register, Result, StartRuns, Submit, WorkerFrame
from taskyard_core.fleet import Registration
from taskyard_core.records import Policy
from taskyard_core.transitions import WorkerState
from taskyard_core.violations import InvalidInput
from taskyard_scheduler.definitions import Definitions
from taskyard_scheduler.ingress.workflows import read_workflow
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.fleet import FleetService
from taskyard_scheduler.services.tasks import TaskService
from taskyard_scheduler.services.workflows import WorkflowService
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_service.errors import FailedPrecondition, NotFound, PermissionDenied
from taskyard_service.identity import CURRENT, Identity, Role

QUEUED, SUCCESS, SKIPPED = tasks_pb2.TASK_STATUS_QUEUED, tasks_pb2.TASK_STATUS_SUCCESS, tasks_pb2.TASK_STATUS_SKIPPED
DEFERRED = tasks_pb2.TASK_STATUS_DEFERRED


class Deaf:
    """A worker's stream that nobody reads."""

    def send(self, frames: object) -> None:
        """Takes frames."""


class Site:
    """A leader and the services in front of it."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        scheduler = cast(Scheduler, self)
        self.tasks = TaskService(scheduler, cast(Any, None))
        self.workflows = WorkflowService(scheduler)
        self.fleet = FleetService(scheduler)
        self.known = leader
        self.leader = lambda: leader  # type: ignore[assignment]
        self.streams: dict[str, object] = {}

    def count_submissions(self, outcomes: object) -> None:
        """What the scheduler's metrics are told."""

    async def add(self, task_type: str = "noop") -> str:
        reply = self.known.future()
        [outcome] = await self.known.ask(Submit(reply, "default", [NewTask(task_type, Policy())]))
        return str(outcome.id)

    async def start_run(self) -> str:
        workflow = workflows_pb2.Workflow(name="flow", version=1)
        workflow.steps.add(id="a", task_type="noop")
        workflow.steps.add(id="b", task_type="noop", needs=["a"])
        definitions: Definitions = self.known.definitions
        plan = read_workflow("default", workflow, {})
        row = ("default", "flow", 1, workflow.SerializeToString(), b"h" * 16, NOW)
        definitions.take_workflow(row, plan)
        [outcome] = await self.known.ask(StartRuns(self.known.future(), "default", [NewRun("flow", 1)]))
        return str(outcome.id)

    async def worker(self, id: str, **parts: Any) -> None:
        registration = Registration(capabilities=("*",), max_concurrency=5, **parts)
        answer = await self.known.ask(Register(self.known.future(), id, "default", registration))
        stream = self.streams[id] = Deaf()
        self.known.handle(Hello(id, answer.epoch, stream, ()))
        self.known.handle(WorkerFrame(id, answer.epoch, credits=5, stream=stream))
        await self.known.committed()

    async def defer(self, id: str) -> str:
        """Has the worker of a task say that its result comes later; returns the token for outside."""
        instance = self.known.engine.cluster.instances[id]
        token, worker = instance.token, self.known.engine.cluster.fleet.workers[instance.worker_id]
        self.known.handle(WorkerFrame(worker.id, worker.epoch, results=[Result(id, token, int(DEFERRED))]))
        await self.known.committed()
        return f"{id}.{token}"


def act_as(role: Role = Role.OPERATOR, tenant: str = "default") -> None:
    CURRENT.set(Identity("ann", tenant, role))


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    act_as()
    async with leading(MemoryStore(MemoryDatabase())) as leader:
        yield Site(leader)


# Pauses.


async def test_what_is_paused_is_listed_shown_and_resumed(site: Site) -> None:
    request = fleet_pb2.PauseWorkRequest(
        request_id="r1", scope=pauses_pb2.PAUSE_SCOPE_TASK_TYPE, name="noop", reason="repairs"
    )
    first = await site.fleet.PauseWork(request, None)
    assert (first.pause.name, first.pause.reason, first.pause.paused_by) == ("noop", "repairs", "ann")
    assert first.pause.create_time.ToMilliseconds() >= NOW
    assert await site.fleet.PauseWork(request, None) == first, "a repeat gets the first answer"
    await site.add()
    [queue] = (await site.fleet.ListQueues(fleet_pb2.ListQueuesRequest(filter='name == "noop"'), None)).queues
    assert (queue.name, queue.pause, queue.waiting) == ("noop", first.pause, 1)
    listed = await site.fleet.ListPauses(fleet_pb2.ListPausesRequest(filter='scope == "TASK_TYPE"'), None)
    assert list(listed.pauses) == [first.pause]
    resume = fleet_pb2.ResumeWorkRequest(scope=pauses_pb2.PAUSE_SCOPE_TASK_TYPE, name="noop")
    assert (await site.fleet.ResumeWork(resume, None)).pause == first.pause
    with pytest.raises(FailedPrecondition, match="is not paused by itself") as refused:
        await site.fleet.ResumeWork(resume, None)
    assert refused.value.reason == "NOT_PAUSED"


async def test_pauses_come_in_pages_by_scope_and_name(site: Site) -> None:
    for scope, paused in ((pauses_pb2.PAUSE_SCOPE_TASK_TYPE, "ba"), (pauses_pb2.PAUSE_SCOPE_QUEUE, "c")):
        for name in paused:
            await site.fleet.PauseWork(fleet_pb2.PauseWorkRequest(scope=scope, name=name), None)
    names: list[str] = []
    token = ""
    while True:
        page = await site.fleet.ListPauses(fleet_pb2.ListPausesRequest(page_size=1, page_token=token), None)
        names += [pause.name for pause in page.pauses]
        token = page.next_page_token
        if not token:
            break
    assert names == ["c", "a", "b"]


async def test_everything_is_paused_by_an_admin_only_and_seen_by_all(site: Site) -> None:
    request = fleet_pb2.PauseWorkRequest(scope=pauses_pb2.PAUSE_SCOPE_ALL)
    with pytest.raises(PermissionDenied, match="takes the role admin"):
        await site.fleet.PauseWork(request, None)
    act_as(Role.ADMIN, "another")
    await site.fleet.PauseWork(request, None)
    await site.fleet.PauseWork(fleet_pb2.PauseWorkRequest(scope=pauses_pb2.PAUSE_SCOPE_TENANT), None)
    act_as()
    [seen] = (await site.fleet.ListPauses(fleet_pb2.ListPausesRequest(), None)).pauses
    assert seen.scope == pauses_pb2.PAUSE_SCOPE_ALL, "another tenant's pauses are not shown"
    with pytest.raises(PermissionDenied):
        await site.fleet.ResumeWork(fleet_pb2.ResumeWorkRequest(scope=pauses_pb2.PAUSE_SCOPE_ALL), None)


@pytest.mark.parametrize(
    ("scope", "name", "said"),
    [
        (0, "", "0 is no scope; give one of QUEUE"),
        (99, "", "99 is no scope"),
        (pauses_pb2.PAUSE_SCOPE_TENANT, "x", "TENANT has no name"),
        (pauses_pb2.PAUSE_SCOPE_WORKFLOW, "", "WORKFLOW needs the name"),
        (pauses_pb2.PAUSE_SCOPE_QUEUE, "a\0b", "contains U+0000"),
    ],
)
async def test_a_pause_of_nothing_is_refused(site: Site, scope: int, name: str, said: str) -> None:
    request = fleet_pb2.PauseWorkRequest(scope=cast(Any, scope), name=name)
    with pytest.raises(InvalidInput) as refused:
        await site.fleet.PauseWork(request, None)
    assert said in str(refused.value)


async def test_a_run_is_paused_by_its_own_call_and_says_so(site: Site) -> None:
    run = await site.start_run()
    answer = await site.workflows.PauseRun(workflows_pb2.PauseRunRequest(run_id=run, reason="look first"), None)
    assert (answer.pause.scope, answer.pause.name) == (pauses_pb2.PAUSE_SCOPE_RUN, run)
    shown = (await site.workflows.GetRun(workflows_pb2.GetRunRequest(run_id=run), None)).run
    assert shown.pause == answer.pause
    act_as(tenant="another")
    with pytest.raises(NotFound):
        await site.workflows.PauseRun(workflows_pb2.PauseRunRequest(run_id=run), None)
    act_as()
    assert (await site.workflows.ResumeRun(workflows_pb2.ResumeRunRequest(run_id=run), None)).pause == answer.pause
    with pytest.raises(NotFound, match="there is no run"):
        await site.workflows.PauseRun(workflows_pb2.PauseRunRequest(run_id="nothing"), None)


# Marks.


def mark(id: str, **parts: Any) -> tasks_pb2.MarkTaskRequest:
    return tasks_pb2.MarkTaskRequest(task_id=id, marked_as=tasks_pb2.MARKED_AS_SUCCESS, **parts)


async def test_a_task_is_marked_once_for_each_request_id(site: Site) -> None:
    id = await site.add()
    request = mark(id, request_id="m", output_json='{"v":1}', reason="it was done by hand")
    for _ in range(2):
        assert (await site.tasks.MarkTask(request, None)).status == SUCCESS
    task = (await site.tasks.GetTask(tasks_pb2.GetTaskRequest(task_id=id), None)).task
    assert (task.output_json, task.error.kind, task.error.message) == ('{"v":1}', "MARKED", "it was done by hand")
    with pytest.raises(FailedPrecondition) as refused:
        await site.tasks.MarkTask(mark(id), None)
    assert refused.value.reason == "ALREADY_SUCCEEDED"
    act_as(tenant="another")
    with pytest.raises(NotFound):
        await site.tasks.MarkTask(mark(id), None)


@pytest.mark.parametrize(
    ("parts", "field", "said"),
    [
        ({"marked_as": 0}, "marked_as", "choose SUCCESS or SKIPPED"),
        ({"output_json": "{"}, "output_json", "JSON"),
        ({"output_json": '"' + "x" * 262_200 + '"'}, "output_json", "are more than 262,144"),
        ({"marked_as": tasks_pb2.MARKED_AS_SKIPPED, "output_json": "1"}, "output_json", "has no output"),
    ],
)
async def test_a_mark_that_says_nothing_good_is_refused(
    site: Site, parts: dict[str, Any], field: str, said: str
) -> None:
    request = mark("x")
    for name, value in parts.items():
        setattr(request, name, value)
    with pytest.raises(InvalidInput) as refused:
        await site.tasks.MarkTask(request, None)
    [violation] = refused.value.violations
    assert violation.field == field
    assert said in violation.description


async def test_a_step_is_marked_whether_or_not_it_has_begun(site: Site) -> None:
    run = await site.start_run()

    def step(id: str, **parts: Any) -> workflows_pb2.MarkStepRequest:
        return workflows_pb2.MarkStepRequest(run_id=run, step_id=id, marked_as=tasks_pb2.MARKED_AS_SKIPPED, **parts)

    first = await site.workflows.MarkStep(step("b", request_id="s"), None)
    assert (first.status, first.state) == (SKIPPED, workflows_pb2.RUN_STATE_RUNNING)
    assert await site.workflows.MarkStep(step("b", request_id="s"), None) == first
    with pytest.raises(NotFound, match="no step 'c'"):
        await site.workflows.MarkStep(step("c"), None)
    last = await site.workflows.MarkStep(step("a"), None)
    assert last.state == workflows_pb2.RUN_STATE_SUCCEEDED
    shown = await site.workflows.GetRun(workflows_pb2.GetRunRequest(run_id=run), None)
    assert [(each.task_id, each.status) for each in shown.steps] == [(last.task_id, SKIPPED), (first.task_id, SKIPPED)]


async def test_all_that_match_are_marked(site: Site) -> None:
    ids = [await site.add() for _ in range(3)]
    request = tasks_pb2.BulkTasksRequest(
        filter='status == "QUEUED"', action=tasks_pb2.BULK_ACTION_MARK_SKIPPED, reason="not needed"
    )
    answer = await site.tasks.BulkTasks(request, None)
    assert {outcome.task_id: outcome.status for outcome in answer.outcomes} == dict.fromkeys(ids, SKIPPED)


async def test_what_was_cancelled_before_is_not_counted_as_done_again(site: Site) -> None:
    ids = [await site.add() for _ in range(2)]
    await site.start_run()
    for action in (tasks_pb2.BULK_ACTION_CANCEL, tasks_pb2.BULK_ACTION_TERMINATE):
        tasks = tasks_pb2.BulkTasksRequest(filter='run_id == ""', action=action)
        runs = workflows_pb2.BulkRunsRequest(filter='run_id != ""', action=action)
        said = [outcome.refusal.reason for outcome in (await site.tasks.BulkTasks(tasks, None)).outcomes]
        said += [outcome.refusal.reason for outcome in (await site.workflows.BulkRuns(runs, None)).outcomes]
        assert said == ["ALREADY_ENDED" if action == tasks_pb2.BULK_ACTION_TERMINATE else ""] * 3
    cancel = tasks_pb2.CancelTaskRequest(task_id=ids[0])
    assert (await site.tasks.CancelTask(cancel, None)).status == tasks_pb2.TASK_STATUS_CANCELLED


async def test_why_says_who_ended_it_and_how_a_model_is_offered(site: Site) -> None:
    marked, waiting = await site.add(), await site.add("llm_call")
    await site.tasks.MarkTask(mark(marked, reason="done by hand"), None)
    why = await site.tasks.ExplainTask(tasks_pb2.ExplainTaskRequest(task_id=marked), None)
    assert why.summary == "A person marked the task as SUCCESS: done by hand."
    why = await site.tasks.ExplainTask(tasks_pb2.ExplainTaskRequest(task_id=waiting), None)
    assert "TASKYARD_LLM_BASE_URL" in why.summary
    assert "TASKYARD_LLM_BASE_URL" in why.reasons[0].message


async def test_a_run_that_cannot_be_read_leaves_no_reply_waiting(site: Site) -> None:
    mark_step = workflows_pb2.MarkStepRequest(run_id="gone", step_id="a", marked_as=tasks_pb2.MARKED_AS_SUCCESS)
    for call in (
        site.workflows.MarkStep(mark_step, None),
        site.workflows.RetryRun(workflows_pb2.RetryRunRequest(run_id="gone"), None),
        site.tasks.MarkTask(mark("gone"), None),
    ):
        with pytest.raises(NotFound):
            await call
    assert not site.known._waiting


# Results from outside.


async def test_a_result_comes_by_its_token(site: Site) -> None:
    await site.worker("w1")
    id = await site.add()
    token = await site.defer(id)
    request = tasks_pb2.CompleteTaskRequest(request_id="c", token=token, status=SUCCESS, output_json='"yes"')
    for _ in range(2):
        assert (await site.tasks.CompleteTask(request, None)).status == SUCCESS
    request.request_id = ""
    with pytest.raises(FailedPrecondition) as refused:
        await site.tasks.CompleteTask(request, None)
    assert refused.value.reason == "STALE_ATTEMPT"
    act_as(tenant="another")
    with pytest.raises(NotFound):
        await site.tasks.CompleteTask(request, None)


@pytest.mark.parametrize(
    ("token", "status", "field"),
    [
        ("", SUCCESS, "token"),
        ("abc", SUCCESS, "token"),
        (".x", SUCCESS, "token"),
        ("x.y", QUEUED, "status"),
        ("x.y", 77, "status"),
    ],
)
async def test_a_result_without_token_or_end_is_refused(site: Site, token: str, status: int, field: str) -> None:
    request = tasks_pb2.CompleteTaskRequest(token=token, status=cast(Any, status))
    with pytest.raises(InvalidInput) as refused:
        await site.tasks.CompleteTask(request, None)
    assert [violation.field for violation in refused.value.violations] == [field]


# Broadcasts.


async def test_every_worker_that_is_well_gets_a_copy_of_its_own(site: Site) -> None:
    for name in ("w1", "w2", "w3"):
        await site.worker(name, labels=(("zone", "a"),))
    await site.worker("w4")
    site.known.engine.cluster.fleet.workers["w3"].draining = True
    site.known.engine.cluster.set_worker_state(site.known.engine.cluster.fleet.workers["w3"], WorkerState.DRAINING)
    task = tasks_pb2.TaskSubmission(task_type="noop", placement=policies_pb2.Placement(selector="zone=a"))
    request = tasks_pb2.BroadcastTaskRequest(request_id="b", task=task)
    answer = await site.tasks.BroadcastTask(request, None)
    assert [copy.worker_id for copy in answer.copies] == ["w1", "w2"]
    assert list(answer.left_out_worker_ids) == ["w3"]
    instances = site.known.engine.cluster.instances
    assert [instances[copy.task_id].worker_id for copy in answer.copies] == ["w1", "w2"]
    assert {instances[copy.task_id].policy.queued_ms for copy in answer.copies} == {24 * 3_600_000}
    assert await site.tasks.BroadcastTask(request, None) == answer, "whoever has come since gets none by a repeat"


async def test_a_broadcast_to_nobody_is_refused(site: Site) -> None:
    request = tasks_pb2.BroadcastTaskRequest(task=tasks_pb2.TaskSubmission(task_type="noop"))
    with pytest.raises(FailedPrecondition, match="no worker offers the task type 'noop'") as refused:
        await site.tasks.BroadcastTask(request, None)
    assert refused.value.reason == "NO_WORKER_MATCHES"
    request.task.idempotency_key, request.task.placement.worker_id, request.task.priority = "k", "w", 99
    with pytest.raises(InvalidInput) as invalid:
        await site.tasks.BroadcastTask(request, None)
    fields = [violation.field for violation in invalid.value.violations]
    assert fields == ["task.idempotency_key", "task.placement.worker_id", "task.priority"]
    unknown = tasks_pb2.BroadcastTaskRequest(task=tasks_pb2.TaskSubmission(task_name="nothing"))
    with pytest.raises(NotFound) as missing:
        await site.tasks.BroadcastTask(unknown, None)
    assert missing.value.reason == "DEFINITION_NOT_FOUND"
