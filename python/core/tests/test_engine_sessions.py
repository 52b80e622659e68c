"""Workers come, speak, fall silent and go: sessions, streams, leases, drains, and who is believed."""

from __future__ import annotations

import pytest
from enginekit import Lab, retrying

from taskyard_core.engine import Standing
from taskyard_core.engine.effects import RECORDED
from taskyard_core.engine.events import Deregister, Heartbeat, Hello, Register, Result, StreamClosed, WorkerFrame
from taskyard_core.fleet import Worker
from taskyard_core.records import TaskState
from taskyard_core.transitions import WorkerState

S = TaskState
W = WorkerState
DAY = 24 * 3_600_000


def known(lab: Lab, id: str = "w1") -> Worker:
    return lab.engine.cluster.fleet.workers[id]


# Sessions.


def test_a_registration_is_stored_and_answered_with_its_commit() -> None:
    lab = Lab()
    worker = lab.make_worker("w1", "a", slots=3, labels={"x": "y"})
    worker.register()
    assert worker.epoch > 0
    row = lab.tables.workers["w1"]
    assert (row[0], row[1], row[2]) == ("w1", "default", worker.epoch)
    assert known(lab).state == W.UNHEALTHY
    assert lab.state(lab.add("a")) == S.QUEUED, "no stream, no tasks"


def test_the_newer_session_wins_and_the_older_is_told() -> None:
    lab = Lab()
    old = lab.worker("w1")
    id = lab.add()
    stream, epoch = old.stream, old.epoch
    new = lab.make_worker("w1")
    new.register()
    assert new.epoch > epoch
    assert (stream, "SESSION_SUPERSEDED") in [close for batch in lab.batches for close in batch.closes]
    assert lab.handle(Heartbeat("w1", epoch, [])) == Standing.SUPERSEDED
    assert lab.handle(Hello("w1", epoch, object(), [])) == Standing.SUPERSEDED
    assert lab.handle(WorkerFrame("w1", epoch, results=[Result(id, "t", 2)])) == Standing.SUPERSEDED
    assert lab.handle(Deregister("r", "w1", epoch)) == Standing.SUPERSEDED
    assert lab.state(id) == S.ASSIGNED, "it is judged by the new session's hello, or by its lease"
    assert new.hello() == Standing.GOOD
    lab.settle()
    assert lab.get(id).attempt == 2


def test_epochs_grow_across_terms() -> None:
    lab = Lab()
    worker = lab.worker()
    before = worker.epoch
    lab.recover()
    worker.connect()
    assert worker.epoch > before


def test_an_unknown_worker_must_register() -> None:
    lab = Lab()
    assert lab.handle(Heartbeat("w9", 1, [])) == Standing.UNKNOWN
    lab.worker("w1")
    assert lab.handle(Heartbeat("w1", 1 << 60, [])) == Standing.UNKNOWN, "an epoch that this leader never gave"


def test_a_worker_id_belongs_to_one_tenant() -> None:
    lab = Lab()
    lab.worker("w1")
    thief = lab.make_worker("w1", tenant="other")
    thief.register()
    assert thief.epoch == 0
    assert "another tenant" in thief.refused
    assert known(lab).tenant == "default"


def test_a_second_stream_of_a_session_replaces_the_first() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    id = lab.add()
    first = worker.stream
    assert worker.hello() == Standing.GOOD
    lab.settle()
    assert (first, "STREAM_REPLACED") in [close for batch in lab.batches for close in batch.closes]
    late = WorkerFrame("w1", worker.epoch, results=[Result(id, worker.held[id], 2)], stream=first)
    assert lab.handle(late) == Standing.NO_STREAM, "not superseded: the worker would stop"
    assert lab.state(id) == S.RUNNING
    lab.handle(StreamClosed("w1", first or object()))
    assert known(lab).state == W.HEALTHY, "the end of the old stream is no news of the new one"


def test_register_twice_in_one_batch_is_one_row() -> None:
    lab = Lab()
    worker = lab.make_worker("w1")
    for _ in range(2):
        lab.handle(Register(object(), "w1", "default", worker.registration))
    lab.settle()
    assert lab.tables.workers["w1"][2] == known(lab).epoch


def test_register_and_leave_in_one_batch_leave_no_ghost() -> None:
    lab = Lab()
    worker = lab.worker()
    for _ in range(2):
        lab.handle(Register(object(), "w1", "default", worker.registration))
        lab.handle(Deregister(object(), "w1", known(lab).epoch))
    lab.settle()
    assert lab.tables.workers == {}
    assert lab.engine.cluster.fleet.workers == {}


# Hello.


def test_hello_ends_what_the_worker_does_not_hold_any_more() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    running, assigned, cancelling = (lab.add() for _ in range(3))
    worker.start(running, cancelling)
    lab.cancel(cancelling)
    worker.drop_stream()
    worker.held.clear()
    worker.hello()
    lab.settle()
    assert (lab.state(running), lab.get(running).error_kind) == (S.PENDING, "WORKER_LOST")
    assert (lab.get(assigned).retries, lab.get(assigned).requeues) == (0, 1)
    assert lab.state(cancelling) == S.CANCELLED


@pytest.mark.parametrize("recovered", [False, True])
@pytest.mark.parametrize("state", [S.ASSIGNED, S.RUNNING, S.CANCELLING])
def test_a_hello_that_was_long_on_the_way_says_nothing_about_an_exclusive_attempt(state: S, recovered: bool) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    if state != S.ASSIGNED:
        worker.start(id)
    if state == S.CANCELLING:
        lab.cancel(id)
    lab.settle()
    token = lab.get(id).token
    if recovered:
        lab.recover()
    late = object()
    lab.handle(Hello(worker.id, worker.epoch, late, []))  # said before the attempt was given to it
    lab.settle()
    assert (lab.state(id), lab.get(id).token) == (state, token)
    worker.stream = object()
    lab.handle(Hello(worker.id, worker.epoch, worker.stream, [(id, token)]))
    worker.finish(id, S.CANCELLED if state == S.CANCELLING else S.SUCCESS)
    lab.settle()
    assert lab.state(id) == (S.CANCELLED if state == S.CANCELLING else S.SUCCESS)


def test_an_exclusive_attempt_that_got_lost_on_the_way_is_over_with_its_lease() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    token = lab.get(id).token
    worker.drop_stream()
    worker.held.clear()
    worker.hello()
    lab.settle()
    lab.wait(50_000)
    worker.beat()
    assert lab.get(id).token == token
    lab.wait(10_001)
    assert (lab.get(id).token != token, lab.get(id).attempt) == (True, 2)
    assert id in worker.held


@pytest.mark.parametrize("recovered", [False, True])
def test_a_new_session_confirms_that_what_it_does_not_hold_is_dead(recovered: bool) -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add(exclusive=True)
    worker.start(id)
    lab.settle()
    if recovered:
        lab.recover()
    worker.held.clear()  # it was killed, and its handlers with it
    worker.connect()
    lab.settle()
    assert (lab.state(id), lab.get(id).error_kind) == (S.PENDING, "WORKER_LOST")


def test_hello_renews_what_it_holds_and_counts_as_a_start() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    id = lab.add()
    worker.drop_stream()
    lab.wait(4_000)
    worker.hello()
    lab.settle()
    assert lab.state(id) == S.RUNNING
    assert lab.engine.cluster.instances[id].lease_until == lab.now + 60_000
    lab.wait(30_000)
    assert lab.get(id).attempt == 1


def test_hello_fences_what_the_worker_should_not_hold() -> None:
    lab = Lab()
    worker = lab.worker()
    worker.drop_stream()
    worker.held["gone"] = "old-token"
    worker.hello()
    lab.settle()
    assert [(order.task_id, order.reason) for order in worker.cancels] == [("gone", "fenced")]
    assert worker.held == {}


def test_a_spooled_result_is_recorded_after_a_reconnect() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add()
    worker.start(id)
    worker.drop_stream()
    token = worker.held.pop(id)
    worker.spool[token] = Result(id, token, S.SUCCESS, output_json="7")
    worker.hello()
    lab.settle()
    assert (lab.state(id), lab.get(id).output_json) == (S.SUCCESS, "7")
    assert [ack.outcome for ack in worker.acks] == [RECORDED]
    assert worker.spool == {}


@pytest.mark.parametrize("order", [1, -1], ids=["attempt first", "result first"])
@pytest.mark.parametrize("exclusive", [False, True])
def test_an_attempt_lives_on_beside_the_result_of_an_earlier_one_that_was_not_acknowledged(
    order: int, exclusive: bool
) -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(exclusive=exclusive, retry=retrying(3, first_ms=100))
    worker.start(id)
    earlier = worker.finish(id, S.FAILED, error_kind="HANDLER_ERROR")
    batch = lab.seal()
    batch.frames.clear()  # the acknowledgement is lost
    lab.commit(batch)
    lab.wait(200)
    token = worker.held[id]
    worker.start(id)
    lab.settle()
    held = [(id, token), (id, earlier.token)][::order]
    worker.stream = object()
    lab.handle(Hello(worker.id, worker.epoch, worker.stream, held))
    lab.settle()
    assert (lab.state(id), lab.get(id).token) == (S.RUNNING, token)
    worker.finish(id)
    lab.settle()
    assert lab.state(id) == S.SUCCESS


def test_hello_says_again_what_was_to_be_stopped_and_why() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(run_ms=1_000)
    worker.start(id)
    worker.drop_stream()
    lab.wait(21_000)
    assert lab.state(id) == S.CANCELLING
    worker.hello()
    lab.settle()
    assert [order.reason for order in worker.cancels] == ["timeout"]


# Liveness.


def test_a_dead_stream_makes_it_unroutable_at_once_whatever_its_heartbeat_says() -> None:
    lab = Lab()
    worker = lab.worker(slots=5)
    running = lab.add()
    worker.start(running)
    worker.drop_stream()
    assert worker.beat() == Standing.NO_STREAM
    assert lab.state(lab.add()) == S.QUEUED
    for _ in range(20):
        lab.wait(10_000)
        worker.beat()
    assert lab.state(running) == S.RUNNING, "it lives, and its lease is renewed"


def test_silence_makes_it_unhealthy_and_the_next_sign_of_life_well() -> None:
    lab = Lab()
    worker = lab.worker(slots=5)
    lab.wait(29_999)
    assert known(lab).state == W.HEALTHY
    lab.wait(1)
    assert known(lab).state == W.UNHEALTHY
    id = lab.add()
    assert lab.state(id) == S.QUEUED
    assert worker.beat() == Standing.GOOD
    lab.settle()
    assert lab.state(id) == S.ASSIGNED


def test_a_frame_is_a_sign_of_life_too() -> None:
    lab = Lab()
    worker = lab.worker()
    lab.wait(40_000)
    worker.frame()
    assert known(lab).state == W.HEALTHY


@pytest.mark.parametrize("how", ["silence", "stream"])
def test_a_second_silence_is_noticed_as_fast_as_the_first(how: str) -> None:
    lab = Lab()
    worker = lab.worker()
    if how == "stream":
        worker.drop_stream()
    lab.wait(40_000)
    assert known(lab).state == W.UNHEALTHY
    worker.hello() if how == "stream" else worker.beat()
    assert known(lab).state == W.HEALTHY
    lab.wait(30_000)
    assert known(lab).state == W.UNHEALTHY


def test_a_worker_is_forgotten_after_a_day_of_silence() -> None:
    lab = Lab()
    lab.worker()
    lab.wait(DAY - 1)
    assert "w1" in lab.tables.workers
    lab.wait(1)
    assert lab.tables.workers == {}
    assert lab.handle(Heartbeat("w1", 1, [])) == Standing.UNKNOWN
    assert lab.engine.next_deadline() is None


def test_a_worker_that_speaks_is_not_forgotten() -> None:
    lab = Lab()
    worker = lab.worker()
    for _ in range(50):
        lab.wait(3_600_000)
        worker.beat()
    assert known(lab).state == W.HEALTHY


# Leases.


def test_a_lease_that_is_not_renewed_ends_the_attempt_and_spends_a_retry() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    id = lab.add()
    worker.start(id)
    lab.wait(59_999)
    assert lab.state(id) == S.RUNNING
    lab.wait(1)
    assert (lab.state(id), lab.get(id).error_kind, lab.get(id).retries) == (S.PENDING, "WORKER_LOST", 1)
    assert known(lab).attempts == {}, "the slot ended with the lease"
    assert worker.cancels[-1].reason == "fenced"


def test_a_heartbeat_names_the_attempts_that_are_no_longer_the_workers() -> None:
    lab = Lab()
    worker = lab.worker(slots=4)
    kept, ended, given_up = lab.add(), lab.add(), lab.add(retry=retrying(1))
    worker.start(kept, given_up)
    tokens = dict(worker.held)
    for _ in range(6):
        lab.wait(10_000)
        worker.beat(kept)
        assert worker.lost == []
    assert lab.get(given_up).error_kind == "WORKER_LOST"
    worker.held = dict(tokens)  # the order to stop it was lost
    lab.engine.seal()
    worker.finish(ended)
    worker.beat()
    assert worker.lost == [tokens[given_up], tokens[ended]], "ended, though its result is not acknowledged yet"
    assert list(worker.held) == [kept]


def test_a_token_of_another_worker_or_of_nobody_is_lost() -> None:
    lab = Lab()
    first, second = lab.worker("w1"), lab.worker("w2")
    lab.add()
    lab.add()
    (token,) = first.held.values()
    for given in (token, "made up", ""):
        assert lab.engine.lost_tokens("w2", [given]) == [given]
    assert lab.engine.lost_tokens("w1", [token]) == []
    assert lab.engine.lost_tokens("unknown", [token]) == [token]
    assert second.beat() == Standing.GOOD
    assert second.lost == []


def test_an_exclusive_lease_that_is_over_is_not_renewed_before_its_timer_fires() -> None:
    """As in a leader that was stopped: a follower may have taken over and started another attempt."""
    lab = Lab()
    worker = lab.worker(slots=2)
    alone, other = lab.add(exclusive=True), lab.add()
    worker.start(alone, other)
    lab.settle()
    lab.now += 60_000
    token = worker.held[alone]
    worker.beat()
    assert worker.lost == [token]
    assert list(worker.held) == [other]


def test_an_exclusive_lease_that_is_over_is_not_renewed_by_a_hello() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    id = lab.add(exclusive=True, retry=retrying(1))
    worker.start(id)
    lab.settle()
    lab.now += 60_000
    worker.hello()
    lab.settle()
    assert (lab.state(id), lab.get(id).error_kind) == (S.FAILED, "WORKER_LOST")
    assert worker.held == {}, "fenced"


def test_a_heartbeat_renews_only_what_it_lists() -> None:
    lab = Lab()
    worker = lab.worker(slots=2)
    kept, forgotten = lab.add(), lab.add()
    worker.start(kept, forgotten)
    for _ in range(7):
        lab.wait(10_000)
        worker.beat(kept)
    assert lab.state(kept) == S.RUNNING
    assert (lab.get(forgotten).error_kind, lab.get(forgotten).retries) == ("WORKER_LOST", 1)


def test_the_last_attempts_worker_is_lost() -> None:
    lab = Lab()
    worker = lab.worker()
    id = lab.add(retry=retrying(1))
    worker.start(id)
    lab.wait(60_000)
    assert (lab.state(id), lab.get(id).error_kind) == (S.FAILED, "WORKER_LOST")


# Going.


def test_drain_stops_intake_and_hands_the_rest_back_without_a_retry() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    done, rest = lab.add(), lab.add()
    worker.start(done, rest)
    worker.frame(draining=True)
    new = lab.add()
    assert known(lab).state == W.DRAINING
    assert lab.state(new) == S.QUEUED
    worker.finish(done)
    worker.finish(rest, 11)
    lab.settle()
    assert lab.state(done) == S.SUCCESS
    assert (lab.state(rest), lab.get(rest).retries, lab.get(rest).requeues) == (S.QUEUED, 0, 0)
    assert lab.tables.attempts[rest, 1]["status"] == 11
    assert worker.leave() == Standing.GOOD
    lab.settle()
    assert lab.engine.cluster.fleet.workers == {}


@pytest.mark.parametrize("how", ["silence", "stream"])
def test_a_draining_worker_gets_nothing_after_a_hiccup_either(how: str) -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    worker.frame(draining=True)
    if how == "stream":
        worker.drop_stream()
        worker.stream = object()
        lab.handle(Hello("w1", worker.epoch, worker.stream, []))
        lab.handle(WorkerFrame("w1", worker.epoch, credits=3, stream=worker.stream))
    else:
        lab.wait(31_000)
        worker.beat()
    assert known(lab).state == W.DRAINING
    assert lab.state(lab.add()) == S.QUEUED
    worker.register()
    worker.hello()
    assert known(lab).state == W.HEALTHY, "a new session takes tasks again"


def test_leaving_hands_back_what_is_held() -> None:
    lab = Lab()
    worker = lab.worker(slots=3)
    running, assigned, cancelling = (lab.add() for _ in range(3))
    worker.start(running, cancelling)
    lab.cancel(cancelling)
    stream = worker.stream
    worker.leave()
    lab.settle()
    assert {lab.state(running), lab.state(assigned)} == {S.QUEUED}
    assert lab.get(running).retries == lab.get(assigned).requeues == 0
    assert lab.get(running).error_kind == "INTERRUPTED"
    assert lab.state(cancelling) == S.CANCELLED
    assert (stream, "DEREGISTERED") in [close for batch in lab.batches for close in batch.closes]
    assert lab.engine.cluster.fleet.healthy == 0
    assert lab.engine.cluster.fleet.classes == {}


def test_a_crashed_run_leaks_no_slot() -> None:
    lab = Lab()
    worker = lab.worker(slots=1)
    for _ in range(5):
        id = lab.add(retry=retrying(1))
        worker.start(id)
        worker.held.clear()
        worker.connect()
        lab.settle()
        assert lab.state(id) == S.FAILED
    assert known(lab).attempts == {}
    assert known(lab).room() == 1
