"""Frames for workers: assignments, acknowledgements, orders to stop. Hot path.

Messages are made where they are to stay: handing over a finished one would copy it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from taskyard.v1 import workers_pb2 as pb
from taskyard_core.engine.effects import Ack, Assign, CancelOrder, Outgoing
from taskyard_core.records import Instance
from taskyard_core.templates import fill_input, fill_params
from taskyard_scheduler.egress.values import put_texts, utf8_size

FRAME_TASKS: Final = 512
FRAME_BYTES: Final = 1 << 20
FRAME_CONTROLS: Final = 4_096
"""Acknowledgements and orders in one frame: well below 1 MiB, at about 100 bytes each."""
SMALL: Final = 1_000
"""Characters of params, input and checkpoint below which a task counts as this many bytes."""

_Item = TypeVar("_Item")


def assignment(instance: Instance, token: str, lease_ms: int) -> pb.TaskAssignment:
    """Returns the present attempt of an instance as its worker is given it.

    Args:
        instance: The instance.
        token: The attempt's token.
        lease_ms: How long the attempt stays the worker's without a sign of life.
    """
    message = pb.TaskAssignment()
    _fill(message, instance, token, lease_ms)
    return message


def frame(outgoing: Outgoing, lease_ms: int, grace_ms: int) -> list[pb.AssignTaskResponse]:
    """Returns what goes to one stream, control first; a frame closes at 512 tasks or about 1 MiB.

    An assignment whose attempt has been replaced meanwhile is left out.

    Args:
        outgoing: What goes out.
        lease_ms: How long an attempt stays the worker's without a sign of life.
        grace_ms: How long a worker waits between the polite request to stop and the kill.
    """
    frames = _controls(outgoing, grace_ms)
    if outgoing.drain:
        frames = frames or [pb.AssignTaskResponse()]
        frames[0].drain = True
    wanted = [each for each in outgoing.assignments if each.instance.token == each.token]
    for part in _split(wanted):
        if len(frames) == 1 and not frames[0].assignments:
            response = frames[0]
        else:
            response = pb.AssignTaskResponse()
            frames.append(response)
        add = response.assignments.add
        for instance, token in part:
            _fill(add(), instance, token, lease_ms)
    return frames


def _fill(message: pb.TaskAssignment, instance: Instance, token: str, lease_ms: int) -> None:
    policy = instance.policy
    message.task_id = instance.id
    message.task_type = instance.task_type
    message.priority = instance.priority
    message.timeout_ms = policy.run_ms
    message.created_at = instance.created_at
    message.attempt = instance.attempt
    message.attempt_token = token
    message.term = instance.term
    message.lease_ms = lease_ms
    message.tenant = instance.tenant
    params, input = instance.params_json, instance.input_json
    if instance.run_id:
        params, input = fill_params(params, instance.attempt), fill_input(input, instance.attempt)
        message.run_id = instance.run_id
        message.step_id = instance.step_id
        message.workflow_id = instance.workflow
    if params:
        put_texts(message.params, params)
    if input:
        message.input_json = input
    if instance.task_name:
        message.task_name = instance.task_name
    if instance.retries:
        message.retry_count = instance.retries
    if instance.idempotency_key:
        message.idempotency_key = instance.idempotency_key
    if instance.traceparent:
        message.traceparent = instance.traceparent
    if policy.exclusive:
        message.exclusive = True
    if instance.checkpoint is not None:
        message.checkpoint = instance.checkpoint


def _controls(outgoing: Outgoing, grace_ms: int) -> list[pb.AssignTaskResponse]:
    cancels, acks, kept = outgoing.cancels, outgoing.acks, outgoing.checkpoint_acks
    count = len(cancels) + len(acks) + len(kept)
    if not count:
        return []
    if count <= FRAME_CONTROLS:
        return [_control(grace_ms, cancels, acks, kept)]
    frames = [_control(grace_ms, cancels=part) for part in _slices(cancels)]
    frames += [_control(grace_ms, acks=part) for part in _slices(acks)]
    frames += [_control(grace_ms, kept=part) for part in _slices(kept)]
    return frames


def _control(
    grace_ms: int,
    cancels: Sequence[CancelOrder] = (),
    acks: Sequence[Ack] = (),
    kept: Sequence[tuple[str, str, int]] = (),
) -> pb.AssignTaskResponse:
    response = pb.AssignTaskResponse()
    for id, token, reason, kill in cancels:
        response.cancels.add(task_id=id, attempt_token=token, reason=reason, grace_ms=0 if kill else grace_ms)
    add = response.result_acks.add
    for id, token, outcome in acks:
        add(task_id=id, attempt_token=token, outcome=outcome)
    for id, token, number in kept:
        response.checkpoint_acks.add(task_id=id, attempt_token=token, checkpoint_number=number)
    return response


def _slices(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), FRAME_CONTROLS):
        yield items[start : start + FRAME_CONTROLS]


def _split(tasks: Sequence[Assign]) -> Iterator[Sequence[Assign]]:
    start = weight = 0
    for place, each in enumerate(tasks):
        size = _weight(each.instance)
        if place > start and (weight + size > FRAME_BYTES or place - start == FRAME_TASKS):
            yield tasks[start:place]
            start, weight = place, 0
        weight += size
    if len(tasks) > start:
        yield tasks[start:]


def _weight(instance: Instance) -> int:
    """Returns about how many bytes an assignment takes; never much less."""
    checkpoint = instance.checkpoint
    size = len(instance.input_json) + len(instance.params_json) + (len(checkpoint) if checkpoint else 0)
    if size <= SMALL:
        return SMALL
    return SMALL + utf8_size(instance.input_json) + utf8_size(instance.params_json) + utf8_size(checkpoint or "")
