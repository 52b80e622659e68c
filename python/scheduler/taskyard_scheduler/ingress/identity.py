"""What a submission of a task or a run is recognised by when it comes again."""

from __future__ import annotations

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.engine.events import NewRun, NewTask
from taskyard_scheduler.ingress.digests import payload_digest
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.texts import idempotency_key_fault, request_id_fault


def read_identity(
    item: tasks_pb2.TaskSubmission | workflows_pb2.RunSubmission, new: NewTask | NewRun, findings: Findings
) -> None:
    """Reads request id and idempotency key."""
    request_id = item.request_id
    if request_id:
        findings.add("request_id", request_id_fault(request_id))
        new.request_id = request_id
        new.request_hash = payload_digest(item, request_id)
    key = item.idempotency_key
    if key:
        findings.add("idempotency_key", idempotency_key_fault(key))
        new.idempotency_key = key
