"""Workers, queues, definitions and outcomes as their callers see them."""

from __future__ import annotations

import random

import pytest
import store_rows

from taskyard.v1 import fleet_pb2, pauses_pb2, tasks_pb2, workflows_pb2
from taskyard_core.engine.events import Accepted, Outcome, Refused
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.fleet import Fleet, Registration, Worker
from taskyard_core.pauses import Pause, Pauses, PauseScope
from taskyard_core.ready import ReadyQueue
from taskyard_core.records import Policy
from taskyard_core.transitions import WorkerState
from taskyard_core.violations import Violation
from taskyard_scheduler import filters
from taskyard_scheduler.egress.definitions import definition_values
from taskyard_scheduler.egress.outcomes import start_outcomes, submit_outcomes
from taskyard_scheduler.egress.pauses import pause_values
from taskyard_scheduler.egress.queues import queue_message, queue_values
from taskyard_scheduler.egress.workers import worker_message, worker_values

NOW = store_rows.NOW


def worker(state: WorkerState = WorkerState.HEALTHY, **given: object) -> Worker:
    registration = Registration(
        host="h",
        port=8080,
        capabilities=("a", "*"),
        max_concurrency=4,
        labels=(("zone", "x"),),
        build_id="1",
        **given,  # type: ignore[arg-type]
    )
    made = Worker("w1", "default", 9, registration, state)
    made.last_seen, made.heard, made.cpu_usage, made.memory_mb = NOW, True, 1.5, 64
    Fleet(random.Random(1).random).hold(made, instance_from_row(store_rows.instance()))
    return made


def test_a_worker_is_shown_as_it_stands() -> None:
    message = worker_message(worker(cpu_millis=100))
    assert (message.worker_id, message.host, message.port, message.build_id) == ("w1", "h", 8080, "1")
    assert (list(message.capabilities), message.max_concurrency, dict(message.labels)) == (["a", "*"], 4, {"zone": "x"})
    assert (message.state, message.active_tasks, message.session_epoch) == (fleet_pb2.WORKER_STATE_HEALTHY, 1, 9)
    assert (message.cpu_usage, message.memory_mb, message.protocol) == (1.5, 64, "grpc")
    assert message.last_seen_time.ToMilliseconds() == NOW
    assert message.resources.cpu_millis == 100


def test_a_worker_shows_what_it_offers_and_what_is_in_use() -> None:
    made = worker(cpu_millis=1_000, memory_mb=512, gpus=2)
    assert not worker_message(made).HasField("resources_in_use")
    fleet = Fleet(random.Random(1).random)
    asking = instance_from_row(store_rows.instance(id="asks"))
    asking.policy = Policy(cpu_millis=250, gpus=1)
    fleet.hold(made, asking)
    message = worker_message(made)
    offered, in_use = message.resources, message.resources_in_use
    assert (offered.cpu_millis, offered.memory_mb, offered.gpus) == (1_000, 512, 2)
    assert (in_use.cpu_millis, in_use.memory_mb, in_use.gpus) == (250, 0, 1)
    fleet.release(made, asking)
    assert not worker_message(made).HasField("resources_in_use")


@pytest.mark.parametrize("state", list(WorkerState))
def test_every_state_of_a_worker_has_its_name(state: WorkerState) -> None:
    shown = worker_message(worker(state)).state
    assert fleet_pb2.WorkerState.Name(shown) == f"WORKER_STATE_{state.name}"
    [condition] = filters.parse_filter(f"state == {state.name}", filters.WORKER_FIELDS)
    assert filters.matches([condition], worker_values(worker(state)))


def test_a_worker_that_was_never_heard_of_and_offers_nothing() -> None:
    made = worker()
    made.heard = False
    message = worker_message(made)
    assert not message.HasField("last_seen_time")
    assert not message.HasField("resources")
    assert not message.HasField("resources_in_use")
    assert worker_values(made)["last_seen_at"] is None


def test_filters_find_a_value_for_each_of_their_fields() -> None:
    queue = ReadyQueue("default", "k", "shell", Policy())
    definition = tasks_pb2.TaskDefinition(name="d", task_type="shell")
    for fields, values in (
        (filters.WORKER_FIELDS, worker_values(worker())),
        (filters.QUEUE_FIELDS, queue_values(queue)),
        (filters.DEFINITION_FIELDS, definition_values(definition)),
    ):
        assert {spec.column for spec in fields.values()} == set(values)


def test_a_queue_is_shown_as_it_stands() -> None:
    policy = Policy(selector="a=1", gpus=2)
    queue = ReadyQueue("default", "shell#1", "shell", policy)
    assert not queue_message(queue, Pauses()).HasField("head_time")
    for n in range(3):
        queue.push(instance_from_row(store_rows.instance(queue="shell#1", queued_at=NOW + n, order_key=NOW + n)))
    message = queue_message(queue, Pauses())
    assert (message.task_type, message.selector, message.waiting, message.resources.gpus) == ("shell", "a=1", 3, 2)
    assert message.head_time.ToMilliseconds() == NOW
    assert not message.deadlines
    assert queue_message(ReadyQueue("default", "shell#2", "shell", Policy(), deadlines=True), Pauses()).deadlines
    [condition] = filters.parse_filter("waiting > 2", filters.QUEUE_FIELDS)
    assert filters.matches([condition], queue_values(queue))


def test_a_queue_shows_what_holds_it_back_and_how_many_of_it_are_held() -> None:
    queue = ReadyQueue("default", "shell#1", "shell", Policy(worker="w1"))
    pauses = Pauses()
    for n in range(2):
        queue.push(instance_from_row(store_rows.instance(id=f"i{n}", queue="shell#1", order_key=NOW + n)))
    queue.hold()
    pauses.add(Pause("default", PauseScope.QUEUE, "shell#1", "repairs", "ann", NOW))
    message = queue_message(queue, pauses)
    assert (message.name, message.worker_id, message.waiting, message.held) == ("shell#1", "w1", 2, 1)
    assert (message.pause.scope, message.pause.reason) == (pauses_pb2.PAUSE_SCOPE_QUEUE, "repairs")
    assert message.pause.create_time.ToMilliseconds() == NOW
    [condition] = filters.parse_filter('scope == "QUEUE"', filters.PAUSE_FIELDS)
    assert filters.matches([condition], pause_values(next(iter(pauses))))


def test_a_definition_without_a_priority_gives_five() -> None:
    definition = tasks_pb2.TaskDefinition(name="d", task_type="shell", exclusive=True)
    where = filters.parse_filter("priority == 5 && exclusive == true", filters.DEFINITION_FIELDS)
    assert filters.matches(where, definition_values(definition))
    definition.priority = 1
    assert not filters.matches(where, definition_values(definition))


def test_outcomes_go_back_in_order_with_the_callers_ids() -> None:
    items = [
        tasks_pb2.TaskSubmission(request_id="a"),
        tasks_pb2.TaskSubmission(),
        tasks_pb2.TaskSubmission(request_id="c"),
    ]
    outcomes: list[Outcome] = [
        Accepted("id-1"),
        Refused("INVALID_INPUT", "no", [Violation("f", "d")]),
        Accepted("id-3", repeated=True),
    ]
    first, second, third = submit_outcomes(tasks_pb2.SubmitTasksRequest(tasks=items), outcomes).outcomes
    assert first == tasks_pb2.SubmitOutcome(request_id="a", task_id="id-1")
    assert third == tasks_pb2.SubmitOutcome(request_id="c", task_id="id-3", repeated_request=True)
    assert (second.refusal.reason, second.refusal.message, second.task_id) == ("INVALID_INPUT", "no", "")
    assert (second.refusal.violations[0].field, second.refusal.violations[0].description) == ("f", "d")


def test_outcomes_of_starts() -> None:
    request = workflows_pb2.StartRunsRequest(runs=[workflows_pb2.RunSubmission(request_id="a")] * 2)
    first, second = start_outcomes(request, [Accepted("run", repeated=True), Refused("ATOMIC", "other")]).outcomes
    assert first == workflows_pb2.StartOutcome(request_id="a", run_id="run", repeated_request=True)
    assert second.refusal.reason == "ATOMIC"


def test_a_queue_names_the_pauses_of_what_is_held_in_it() -> None:
    queue, pauses = ReadyQueue("default", "shell", "shell", Policy()), Pauses()
    for n in range(30):
        run = {"workflow": "nightly" if n % 2 else "other", "run_id": f"r{n:02}"}
        queue.push(instance_from_row(store_rows.instance(id=f"i{n:02}", queue="shell", order_key=NOW + n, **run)))
        queue.hold()
        if not n % 2:
            pauses.add(Pause("default", PauseScope.RUN, f"r{n:02}", "", "ann", NOW))
    pauses.add(Pause("default", PauseScope.WORKFLOW, "nightly", "month end", "ann", NOW))
    pauses.add(Pause("default", PauseScope.WORKFLOW, "elsewhere", "", "ann", NOW))
    pauses.add(Pause("t", PauseScope.WORKFLOW, "nightly", "another tenant's", "ann", NOW))
    message = queue_message(queue, pauses)
    assert (message.held, message.HasField("pause")) == (30, False)
    assert [(each.scope, each.name) for each in message.held_by] == [
        (pauses_pb2.PAUSE_SCOPE_WORKFLOW, "nightly"),
        *((pauses_pb2.PAUSE_SCOPE_RUN, f"r{n:02}") for n in range(0, 18, 2)),
    ]
    assert message.held_by[0].reason == "month end"
