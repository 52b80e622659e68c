"""Frames for workers: what an assignment says, and how frames are closed."""

from __future__ import annotations

from typing import Any

import pytest
import store_rows

from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.effects import RECORDED, STALE_ATTEMPT, Ack, Assign, CancelOrder, Outgoing
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.policy_codec import dump_policy
from taskyard_core.records import Instance, Policy
from taskyard_scheduler.egress.assignments import FRAME_BYTES, assignment, frame

LEASE, GRACE = 60_000, 10_000


def live(**columns: Any) -> Instance:
    return instance_from_row(store_rows.instance(**{"params_json": "", "attempt": 1, "token": "t", **columns}))


def frames(*instances: Instance, **parts: Any) -> list[pb.AssignTaskResponse]:
    outgoing = Outgoing("w", [Assign(each, each.token) for each in instances], **parts)
    return frame(outgoing, LEASE, GRACE)


def test_a_plain_assignment() -> None:
    instance = live(term=3)
    assert assignment(instance, "t", LEASE) == pb.TaskAssignment(
        task_id=instance.id, task_type="greet", priority=5, timeout_ms=3_600_000, created_at=store_rows.NOW,
        task_name="greet", attempt=1, attempt_token="t", term=3, lease_ms=LEASE, tenant="default",
    )  # fmt: skip


def test_everything_that_an_instance_has_arrives() -> None:
    policy = Policy(run_ms=1_234, exclusive=True)
    instance = live(
        tenant="t1", workflow="flow", run_id="run", step_id="step", params_json='{"a":"é"}', input_json='{"n":1}',
        policy_json=dump_policy(policy), retries=2, idempotency_key="key", traceparent="tp", task_name="",
    )  # fmt: skip
    instance.checkpoint = ""
    told = assignment(instance, "t", LEASE)
    assert (told.tenant, told.workflow_id, told.run_id, told.step_id) == ("t1", "flow", "run", "step")
    assert (dict(told.params), told.input_json) == ({"a": "é"}, '{"n":1}')
    assert (told.timeout_ms, told.exclusive, told.retry_count) == (1_234, True, 2)
    assert (told.idempotency_key, told.traceparent) == ("key", "tp")
    assert told.HasField("checkpoint"), "an empty checkpoint is one"


def test_control_shares_the_first_frame_with_assignments() -> None:
    [only] = frames(
        live(),
        acks=[Ack("a", "ta", RECORDED), Ack("b", "tb", STALE_ATTEMPT)],
        cancels=[CancelOrder("c", "tc", "timeout")],
        checkpoint_acks=[("d", "td", 4)],
    )
    assert len(only.assignments) == 1
    assert [(each.task_id, each.outcome) for each in only.result_acks] == [("a", 1), ("b", 2)]
    [cancel] = only.cancels
    assert (cancel.task_id, cancel.attempt_token, cancel.reason, cancel.grace_ms) == ("c", "tc", "timeout", GRACE)
    assert only.checkpoint_acks[0].checkpoint_number == 4


def test_an_attempt_that_was_replaced_meanwhile_is_not_sent() -> None:
    gone, there = live(), live()
    outgoing = Outgoing("w", [Assign(gone, "t"), Assign(there, "t")])
    gone.token = "newer"
    [only] = frame(outgoing, LEASE, GRACE)
    assert [each.task_id for each in only.assignments] == [there.id]
    there.token = ""
    assert frame(outgoing, LEASE, GRACE) == []


def test_nothing_is_no_frame() -> None:
    assert frames() == []


def test_a_frame_closes_at_512_tasks() -> None:
    made = frames(*(live() for _ in range(1_100)), acks=[Ack("a", "t", 1)])
    assert [len(each.assignments) for each in made] == [512, 512, 76]
    assert [len(each.result_acks) for each in made] == [1, 0, 0]


@pytest.mark.parametrize("text", ["x", "é", "日", "🙂"])
def test_a_frame_closes_at_a_mebibyte_and_a_larger_task_travels_alone(text: str) -> None:
    size = 300_000 // len(text.encode())
    large = live(input_json=f'"{text * (5 * size)}"')
    instances = [*(live(input_json=f'"{text * size}"') for _ in range(4)), large, live()]
    made = frames(*instances)
    assert [len(each.assignments) for each in made] == [3, 1, 1, 1]
    assert all(each.ByteSize() <= FRAME_BYTES for each in made if len(each.assignments) > 1)
    order = [told.task_id for each in made for told in each.assignments]
    assert order == [instance.id for instance in instances]


def test_checkpoints_count_towards_a_frames_bytes() -> None:
    instances = [live() for _ in range(6)]
    for each in instances:
        each.checkpoint = "x" * 262_144
    assert [len(each.assignments) for each in frames(*instances)] == [3, 3]


def test_small_tasks_never_make_a_large_frame() -> None:
    text = "日" * 300
    for each in frames(*(live(params_json=f'{{"a":"{text}"}}', input_json=f'"{text}"') for _ in range(600))):
        assert each.ByteSize() < 1.5 * FRAME_BYTES


def test_many_acknowledgements_are_split_and_go_before_assignments() -> None:
    made = frames(live(), acks=[Ack(f"{n}", "t", 1) for n in range(10_000)], cancels=[CancelOrder("c", "t", "fenced")])
    assert [len(each.result_acks) for each in made] == [0, 4_096, 4_096, 1_808, 0]
    assert [len(each.cancels) for each in made] == [1, 0, 0, 0, 0]
    assert [len(each.assignments) for each in made] == [0, 0, 0, 0, 1]
