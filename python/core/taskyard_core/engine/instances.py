"""How an instance comes to be: from a submission, from a step, from a stored row."""

from __future__ import annotations

from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import NewTask, When
from taskyard_core.policy_codec import load_policy
from taskyard_core.ready import order_key, queue_key
from taskyard_core.records import PENDING, QUEUED, READY, Instance, Phase, Row


def make_instance(c: Cluster, tenant: str, new: NewTask) -> Instance:
    """Makes an instance: QUEUED, or PENDING when it is due later. The caller decides what becomes of it."""
    i = Instance()
    i.tenant = tenant
    i.id = c.ids.next(c.now)
    i.task_name = new.task_name
    i.task_type = new.task_type
    i.workflow = i.run_id = i.step_id = ""
    i.priority = new.priority
    i.params_json = new.params_json
    i.input_json = new.input_json
    i.policy = new.policy
    i.policy_json = new.policy_json
    i.expire_at = None
    i.tags = new.tags
    i.request_id = new.request_id
    i.request_hash = new.request_hash
    i.idempotency_key = new.idempotency_key
    i.traceparent = new.traceparent
    i.created_at = i.queued_at = c.now
    i.state = QUEUED
    i.phase = READY
    i.order_key = order_key(c.now, new.priority)
    i.not_before = i.assigned_at = i.started_at = i.ended_at = None
    i.attempt = i.retries = i.requeues = i.term = i.duration_ms = i.revision = 0
    i.worker_id = i.token = i.output_json = i.error_kind = i.error_message = i.metadata_json = i.cancel_reason = ""
    if new.when is not None:
        _time(i, new.when)
    i.queue = queue_key(new.task_type, new.policy, expires=i.expire_at is not None)
    _blank(i)
    return i


def _time(i: Instance, when: When) -> None:
    i.expire_at = when.expire_at or None
    due = when.due(i.created_at)
    if due:
        i.state = PENDING
        i.phase = Phase.PENDING
        i.queued_at = None
        i.not_before = due


def instance_from_row(row: Row) -> Instance:
    """Makes an instance of a stored row: INSTANCE_COLUMNS, then checkpoint and its number."""
    i = Instance()
    _blank(i)
    # In the order of INSTANCE_COLUMNS, which a test holds it to: a loop over names would take five times as long.
    (
        i.tenant, i.id, i.task_name, i.task_type, i.workflow, i.run_id, i.step_id, i.priority, i.params_json,
        i.input_json, i.policy_json, i.queue, i.request_id, i.request_hash, i.idempotency_key, i.traceparent,
        i.created_at, i.expire_at, i.tags, i.state, i.phase, i.order_key, i.not_before, i.attempt,
        i.retries, i.requeues, i.worker_id,
        i.token, i.term, i.queued_at, i.assigned_at, i.started_at, i.ended_at, i.duration_ms, i.output_json,
        i.error_kind, i.error_message, i.metadata_json, i.cancel_reason, i.revision, *stored,
    ) = row  # fmt: skip
    i.policy = load_policy(i.policy_json)
    if stored:
        i.checkpoint = stored[0]
        i.checkpoint_number = stored[1] or 0
    return i


def _blank(i: Instance) -> None:
    i.lease_until = i.checkpoint_number = 0
    i.cancel_unconfirmed = i.fencing = False
    i.percent = i.checkpoint = None
    i.progress_message = ""
