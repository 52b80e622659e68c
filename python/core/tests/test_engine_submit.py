"""Submissions: accepted, recognised as repeats, or refused, each on its own; what is made is committed first."""

from __future__ import annotations

from enginekit import TENANT, Lab, make_plan, task

from taskyard_core.engine.events import Accepted, Known, NewRun, Refused, StartRuns, Submit
from taskyard_core.records import TaskState

S = TaskState
HASH = b"0" * 16
OTHER = b"1" * 16


def test_each_item_has_its_own_outcome() -> None:
    lab = Lab()
    bad = Refused("INVALID_INPUT", "priority 11 is outside 1 to 10")
    good, refused, other = lab.submit(task(), bad, task("b"))
    assert isinstance(good, Accepted)
    assert isinstance(other, Accepted)
    assert refused is bad
    assert [values["task_type"] for values in lab.tables.instances.values()] == ["noop", "b"]
    assert good.id < other.id


def test_nothing_is_answered_before_its_commit() -> None:
    lab = Lab()
    lab.handle(Submit("reply", TENANT, [task()]))
    batch = lab.seal()
    assert [reply for reply, _ in batch.answers] == ["reply"]
    assert len(batch.changes.instance_inserts) == 1
    assert batch.changes.revision == 1


def test_a_free_slot_puts_insert_and_assignment_in_one_commit() -> None:
    lab = Lab()
    worker = lab.worker()
    before = lab.tables.revision
    id = lab.add()
    assert lab.tables.revision == before + 1
    assert lab.state(id) == S.ASSIGNED
    assert id in worker.held


def test_a_repeat_gets_the_first_answer_and_makes_nothing() -> None:
    lab = Lab()
    first = lab.submit(task(request_id="r", request_hash=HASH))[0]
    again = lab.submit(task(request_id="r", request_hash=HASH), task(request_id="r", request_hash=HASH))
    assert again == [Accepted(first.id, repeated=True)] * 2
    assert len(lab.tables.instances) == 1


def test_a_request_id_with_another_payload_is_refused_and_says_what_to_do() -> None:
    lab = Lab()
    first = lab.submit(task(request_id="r", request_hash=HASH))[0]
    refused = lab.submit(task(request_id="r", request_hash=OTHER))[0]
    assert refused.reason == "REQUEST_ID_REUSED"
    assert first.id in refused.message
    assert "use a new id" in refused.message


def test_request_ids_are_of_their_tenant() -> None:
    lab = Lab()
    mine = lab.submit(task(request_id="r", request_hash=HASH))[0]
    theirs = lab.submit(task(request_id="r", request_hash=OTHER), tenant="other")[0]
    assert isinstance(theirs, Accepted)
    assert theirs.id != mine.id


def test_an_idempotency_key_names_one_instance_whatever_the_payload() -> None:
    lab = Lab()
    first = lab.submit(task(idempotency_key="k"))[0]
    again = lab.submit(task("other", idempotency_key="k"))[0]
    assert again == Accepted(first.id, repeated=True)


def test_idempotency_keys_of_tasks_and_runs_are_apart() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {})])
    made = lab.submit(task(idempotency_key="k"))[0]
    run = lab.ask(StartRuns(object(), TENANT, [NewRun("wf", 1, idempotency_key="k")]))[0]
    assert not run.repeated
    assert run.id != made.id
    again = lab.ask(StartRuns(object(), TENANT, [NewRun("wf", 1, idempotency_key="k")]))[0]
    assert again == Accepted(run.id, repeated=True)


def test_what_only_sql_remembers_is_recognised_too() -> None:
    lab = Lab()
    known = Known({"old": ("id-1", HASH)}, {"key": "id-2"})
    outcomes = lab.submit(
        task(request_id="old", request_hash=HASH),
        task(request_id="old", request_hash=OTHER),
        task(idempotency_key="key"),
        known=known,
    )
    assert outcomes[0] == Accepted("id-1", repeated=True)
    assert outcomes[1].reason == "REQUEST_ID_REUSED"
    assert outcomes[2] == Accepted("id-2", repeated=True)


def test_the_oldest_request_ids_are_left_to_sql() -> None:
    lab = Lab(limits=type(Lab().limits)(remembered_requests=2))
    lab.engine.cluster.requests_complete = True
    for n in range(3):
        lab.submit(task(request_id=f"r{n}", request_hash=HASH, idempotency_key=f"k{n}"))
    assert [key for _, key in lab.engine.cluster.requests] == ["r1", "r2"]
    assert [key for _, key in lab.engine.cluster.keys] == ["k1", "k2"]
    assert not lab.engine.cluster.requests_complete


def test_atomic_takes_all_or_nothing() -> None:
    lab = Lab()
    bad = Refused("INVALID_INPUT", "no")
    outcomes = lab.submit(task(), bad, atomic=True)
    assert [outcome.reason for outcome in outcomes] == ["ATOMIC", "INVALID_INPUT"]
    assert not lab.tables.instances
    assert all(isinstance(outcome, Accepted) for outcome in lab.submit(task(), task(), atomic=True))


def test_atomic_counts_a_reused_request_id_as_refused() -> None:
    lab = Lab()
    lab.submit(task(request_id="r", request_hash=HASH))
    outcomes = lab.submit(task(), task(request_id="r", request_hash=OTHER), atomic=True)
    assert [outcome.reason for outcome in outcomes] == ["ATOMIC", "REQUEST_ID_REUSED"]
    within = lab.submit(task(request_id="n", request_hash=HASH), task(request_id="n", request_hash=OTHER), atomic=True)
    assert [outcome.reason for outcome in within] == ["ATOMIC", "REQUEST_ID_REUSED"]
    assert len(lab.tables.instances) == 1


def test_atomic_accepts_repeats() -> None:
    lab = Lab()
    first = lab.submit(task(request_id="r", request_hash=HASH))[0]
    outcomes = lab.submit(task(), task(request_id="r", request_hash=HASH), atomic=True)
    assert outcomes[1] == Accepted(first.id, repeated=True)


def test_atomic_starts_of_runs() -> None:
    lab = Lab()
    lab.plan("wf", [("a", [], {})])
    bad = Refused("NOT_FOUND", "no such workflow")
    outcomes = lab.ask(StartRuns(object(), TENANT, [NewRun("wf", 1), bad], atomic=True))
    assert [outcome.reason for outcome in outcomes] == ["ATOMIC", "NOT_FOUND"]
    assert not lab.tables.runs


def test_a_workflow_of_no_steps_ends_at_once() -> None:
    lab = Lab()
    lab.plans.append(make_plan("empty", []))
    lab.plan("empty", [])
    run = lab.start_run("empty")
    assert lab.run_state(run).name == "SUCCEEDED"
