"""Rows for the store's tests: each builder gives a valid row and takes the columns a test cares about."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from taskyard_core import records
from taskyard_core.records import Changes, Phase, Row, TaskState

NOW = 1_760_000_000_000
_NUMBERS = itertools.count(1)


def new_id(at: int = NOW) -> str:
    """Returns an id that is larger than those before it made at the same time."""
    digits = f"{at:012x}"
    return f"{digits[:8]}-{digits[8:]}-7000-8000-{next(_NUMBERS):012x}"


def _row(columns: Sequence[str], defaults: dict[str, Any], given: dict[str, Any]) -> Row:
    unknown = set(given) - set(columns)
    assert not unknown, unknown
    return tuple((defaults | given)[column] for column in columns)


INSTANCE: dict[str, Any] = {
    "tenant": "default", "task_name": "greet", "task_type": "greet", "workflow": "", "run_id": "",
    "step_id": "",
    "priority": 5, "params_json": '{"a": "1"}', "input_json": "", "policy_json": "", "queue": "greet",
    "request_id": None, "request_hash": None, "idempotency_key": None, "traceparent": "", "created_at": NOW,
    "expire_at": None, "tags": None,
    "state": TaskState.QUEUED, "phase": Phase.READY, "order_key": NOW, "not_before": None, "attempt": 0,
    "retries": 0,
    "requeues": 0, "worker_id": "", "token": "", "term": 0, "queued_at": NOW, "assigned_at": None,
    "started_at": None, "ended_at": None, "duration_ms": 0, "output_json": "", "error_kind": "",
    "error_message": "",
    "metadata_json": "", "cancel_reason": "", "revision": 1,
}  # fmt: skip


def instance(**given: Any) -> Row:
    at = given.get("created_at", NOW)
    return _row(records.INSTANCE_COLUMNS, {**INSTANCE, "id": given.get("id") or new_id(at)}, given)


def instance_update(id: str, **given: Any) -> Row:
    ended = {
        "state": TaskState.SUCCESS,
        "phase": Phase.ENDED,
        "ended_at": NOW + 5,
        "output_json": "{}",
        "id": id,
    }
    return _row(records.INSTANCE_UPDATE, INSTANCE | ended, given)


RUN: dict[str, Any] = {
    "tenant": "default", "workflow": "flow", "version": 1, "inputs_json": "{}", "priority": 0,
    "request_id": None,
    "request_hash": None, "idempotency_key": None, "created_at": NOW, "start_at": None, "expire_at": None, "tags": None,
    "variables_json": None, "state": 1, "output_json": "",
    "error_message": "", "ended_at": None, "steps_total": 1, "steps_ended": 0, "cancel_reason": "",
    "revision": 1,
}  # fmt: skip


def run(**given: Any) -> Row:
    return _row(records.RUN_COLUMNS, {**RUN, "id": given.get("id") or new_id(given.get("created_at", NOW))}, given)


def run_update(id: str, **given: Any) -> Row:
    return _row(records.RUN_UPDATE, {**RUN, "id": id, "state": 2, "ended_at": NOW + 5}, given)


def attempt(id: str, number: int, **given: Any) -> Row:
    defaults = {
        "tenant": "default", "id": id, "attempt": number, "token": f"{number:016x}", "worker_id": "w1",
        "term": 1,
        "status": 3, "assigned_at": NOW, "started_at": None, "ended_at": NOW, "error_kind": "",
        "error_message": "",
    }  # fmt: skip
    return _row(records.ATTEMPT_COLUMNS, defaults, given)


def checkpoint(id: str, number: int, data: str, tenant: str = "default") -> Row:
    return (tenant, id, number, data)


def worker(id: str, **given: Any) -> Row:
    defaults = {
        "id": id, "tenant": "default", "epoch": 1, "registration_json": "{}", "registered_at": NOW,
        "last_seen_at": NOW,
    }  # fmt: skip
    return _row(records.WORKER_COLUMNS, defaults, given)


def request(request_id: str, **given: Any) -> Row:
    defaults = {
        "tenant": "default", "request_id": request_id, "method": "CancelTasks", "request_hash": b"h" * 16,
        "response": b"\x00\xff", "created_at": NOW,
    }  # fmt: skip
    return _row(records.REQUEST_COLUMNS, defaults, given)


def task_definition(name: str, **given: Any) -> Row:
    defaults = {
        "tenant": "default", "name": name, "number": 1, "definition": b"\x0a\x00", "created_at": NOW,
        "updated_at": NOW,
    }  # fmt: skip
    return _row(records.TASK_DEFINITION_COLUMNS, defaults, given)


def workflow(name: str, version: int, **given: Any) -> Row:
    defaults = {
        "tenant": "default", "name": name, "version": version, "definition": b"w%d" % version,
        "content_hash": b"h" * 16, "created_at": NOW,
    }  # fmt: skip
    return _row(records.WORKFLOW_COLUMNS, defaults, given)


def workflow_head(name: str, **given: Any) -> Row:
    defaults = {"tenant": "default", "name": name, "source": "", "deleted_version": 0, "updated_at": NOW}
    return _row(records.WORKFLOW_HEAD_COLUMNS, defaults, given)


def column(row: Row, name: str) -> Any:
    """Returns one column of an instance's row."""
    return row[records.INSTANCE_COLUMNS.index(name)]


def changes(revision: int, **lists: Any) -> Changes:
    return Changes(revision=revision, **lists)
