"""A new leader goes on where the committed rows say that the last one was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from enginekit import TENANT, Lab, retrying, task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard_core.engine import Standing
from taskyard_core.engine.events import Submit
from taskyard_core.records import TaskState, instance_row
from taskyard_core.transitions import WorkerState

S = TaskState
KINDS: tuple[dict[str, Any], ...] = (
    {"retry": retrying(3, 2_000)},
    {"retry": retrying(2, 0)},
    {"exclusive": True},
    {"total_ms": 40_000},
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "finish", "finish", "cancel", "wait", "retry", "run"]),
        st.integers(0, 50),
        st.sampled_from([S.SUCCESS, S.FAILED, S.TIMEOUT, 11]),
    ),
    min_size=3,
    max_size=25,
)


def play(script: list[tuple[str, int, int]], pauses: set[int], *, recover: bool) -> list[tuple[Any, ...]]:
    """Plays a script, with new leaders in its pauses or without; returns how every instance stands at the end."""
    lab = Lab()
    lab.plan("wf", [("a", [], {"retry": retrying(1)}), ("b", ["a"], {"rule": "all_done"}), ("c", ["a"], {})])
    worker = lab.worker(slots=4)
    ids: list[str] = []
    for n, (what, pick, status) in enumerate(script):
        if n in pauses:
            lab.now += 1  # ids of two leaders within one millisecond have no order
            if recover:
                lab.recover()
                worker.hello()
                lab.settle()
        perform(lab, ids, what, pick, status)
        worker.start(*[id for id in worker.held if lab.state(id) == S.ASSIGNED])
        lab.settle()
        ids = list(lab.tables.instances)
    return [
        (row["step_id"], row["state"], row["attempt"], row["retries"], row["requeues"], row["error_kind"])
        for row in lab.tables.instances.values()
    ]


def perform(lab: Lab, ids: list[str], what: str, pick: int, status: int) -> None:
    worker = lab.workers["w1"]
    held = [id for id in ids if id in worker.held]
    if what == "add":
        lab.add(**KINDS[pick % len(KINDS)])
    elif what == "run":
        lab.start_run("wf")
    elif what == "finish" and held:
        worker.finish(held[pick % len(held)], status)
        lab.settle()
    elif what == "cancel" and ids:
        lab.cancel(ids[pick % len(ids)])
    elif what == "retry" and ids:
        lab.retry(ids[pick % len(ids)])
    elif what == "wait":
        lab.wait(pick * 100)
        worker.beat()


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(script=steps, pauses=st.sets(st.integers(0, 24), min_size=1, max_size=4))
def test_a_history_with_new_leaders_ends_like_one_without(script: list[tuple[str, int, int]], pauses: set[int]) -> None:
    assert play(script, pauses, recover=True) == play(script, pauses, recover=False)


def test_what_was_not_committed_never_was() -> None:
    lab = Lab()
    kept = lab.add()
    lab.handle(Submit("lost", TENANT, [task()]))
    lab.engine.seal()
    lab.recover()
    assert list(lab.tables.instances) == [kept]
    assert lab.engine.cluster.waiting_count() == 1


def test_memory_is_the_rows() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    pending, running, assigned = (lab.add(retry=retrying(3, 9_000)) for _ in range(3))
    worker.start(running)
    worker.checkpoint(running, 2, "data")
    worker.finish(pending, S.FAILED)
    lab.settle()
    rows = {id: lab.tables.row(id) for id in lab.tables.instances}
    lab.recover()
    memory = lab.engine.cluster.instances
    assert {id: instance_row(memory[id]) for id in memory} == {id: row[:-2] for id, row in rows.items()}
    assert memory[running].checkpoint == "data"
    assert set(lab.engine.cluster.fleet.workers["w1"].attempts) == {running, assigned}


def test_an_old_session_goes_on_with_the_new_leader() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    id = lab.add()
    worker.start(id)
    lab.settle()
    lab.recover()
    assert lab.engine.cluster.fleet.workers["w1"].state == WorkerState.EXPECTED
    assert worker.beat() == Standing.NO_STREAM
    assert worker.hello() == Standing.GOOD
    lab.wait(50_000)
    assert lab.state(id) == S.RUNNING
    worker.finish(id)
    lab.settle()
    assert lab.state(id) == S.SUCCESS


def test_leases_count_as_renewed_when_a_leader_begins() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.wait(50_000)
    lab.recover()
    lab.wait(59_000)
    assert lab.state(id) == S.RUNNING
    lab.wait(1_000)
    assert lab.get(id).error_kind == "WORKER_LOST"


def test_new_work_is_dispatched_at_once_and_old_assignments_get_a_grace() -> None:
    lab = Lab()
    lab.worker("old", slots=1)
    id = lab.add()
    lab.recover()
    new = lab.worker("new", slots=1)
    fresh = lab.add()
    assert fresh in new.held
    lab.wait(4_000)
    new.start(fresh)
    lab.wait(5_999)
    assert lab.state(id) == S.ASSIGNED
    lab.wait(1)
    assert lab.get(id).requeues == 1


def test_a_worker_whose_row_is_gone_still_has_its_slots_counted() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    lab.settle()
    lab.tables.workers.clear()
    lab.recover()
    assert set(lab.engine.cluster.fleet.workers["w1"].attempts) == {id}
    lab.wait(60_000)
    assert lab.get(id).error_kind == "WORKER_LOST"


def test_a_token_of_an_older_term_still_counts() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    lab.recover()
    worker.hello()
    worker.finish(id)
    lab.settle()
    assert (lab.state(id), lab.get(id).term) == (S.SUCCESS, 1)


def test_request_ids_are_remembered() -> None:
    lab = Lab()
    first = lab.submit(task(request_id="r", request_hash=b"h" * 16))[0]
    lab.recover()
    again = lab.submit(task(request_id="r", request_hash=b"h" * 16))[0]
    assert (again.id, again.repeated) == (first.id, True)


def test_a_repeated_recovery_of_the_same_rows_is_the_same() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    for _ in range(3):
        lab.add()
    worker.drop_stream()
    lab.settle()
    tables = copy.deepcopy(lab.tables)
    lab.recover()
    lab.recover()
    assert lab.tables.instances == tables.instances


def test_time_never_steps_back() -> None:
    lab = Lab()
    id = lab.add()
    lab.now -= 3_600_000
    later = lab.add()
    assert lab.get(later).created_at == lab.get(id).created_at


@pytest.mark.parametrize("state", ["cancelling", "fencing"])
def test_what_was_being_stopped_is_stopped_by_the_new_leader(state: str) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    if state == "cancelling":
        worker.start(id)
        lab.cancel(id)
    else:
        lab.wait(5_000)
    worker.cancels.clear()
    lab.recover()
    if state == "cancelling":
        worker.hello()
        lab.settle()
        assert [order.reason for order in worker.cancels] == ["cancelled"]
    else:
        lab.wait(61_000)
        assert (lab.state(id), lab.get(id).requeues) == (S.QUEUED, 1)
