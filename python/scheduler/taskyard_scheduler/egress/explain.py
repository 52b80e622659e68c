"""Answers to why: the reasons that the engine gave for a live instance, or how an ended one ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.attempts import MARKED_KIND
from taskyard_core.engine.explain import WaitReason, asked
from taskyard_core.records import INSTANCE_COLUMNS, Policy, Row, TaskState
from taskyard_core.spans import span


def explain_live(state: int, reasons: Sequence[WaitReason], policy: Policy) -> pb.ExplainTaskResponse:
    """Returns why an instance has not ended.

    Args:
        state: A TaskState.
        reasons: At least one, the most important first.
        policy: What it asks for: said where no reason says it.
    """
    asks = "" if any("asks" in each.variables for each in reasons) else _asks(policy, "asks")
    return pb.ExplainTaskResponse(
        status=state,  # type: ignore[arg-type]  # the numbers are those of the enum
        reasons=wait_reasons(reasons),
        summary=f"The task is {TaskState(state).name}: {reasons[0].message}{_way_out(reasons[0])}.{asks}",
    )


def wait_reasons(reasons: Sequence[WaitReason]) -> list[pb.WaitReason]:
    """Returns reasons as clients see them."""
    return [
        pb.WaitReason(code=each.code, message=each.message + _way_out(each), variables=each.variables)
        for each in reasons
    ]


def _way_out(reason: WaitReason) -> str:
    """Returns what is to be added where the way out is not what the sentence says alone."""
    if reason.code == "NO_WORKER_FOR_TYPE" and reason.variables.get("task_type") == "llm_call":
        return ": workers offer llm_call once they are started with TASKYARD_LLM_BASE_URL"
    return ""


def explain_ended(row: Row, policy: Policy) -> pb.ExplainTaskResponse:
    """Returns how an instance ended.

    Args:
        row: INSTANCE_COLUMNS.
        policy: What it asked for.
    """
    value: dict[str, Any] = dict(zip(INSTANCE_COLUMNS, row, strict=False))
    return pb.ExplainTaskResponse(status=value["state"], summary=_how(value) + _asks(policy, "asked"))


def _asks(policy: Policy, verb: str) -> str:
    return f" It {verb} for {asked(policy)}." if policy.asks else ""


def _how(value: dict[str, Any]) -> str:
    state = TaskState(value["state"])
    attempt, worker = value["attempt"], value["worker_id"]
    where = f" in attempt {attempt} on worker {worker}" if attempt else ""
    if value["error_kind"] == MARKED_KIND:
        reason = f": {value['error_message']}" if value["error_message"] else ""
        return f"A person marked the task as {state.name}{reason}."
    if state == TaskState.SUCCESS:
        return f"The task ended well{where}, after {span(value['duration_ms'])}."
    error = ": ".join(str(part) for part in (value["error_kind"], value["error_message"]) if part)
    told = f": {error}" if error else ""
    if state == TaskState.SKIPPED:
        return f"The task was not run{told or ': the steps before it did not ask for it'}."
    if state == TaskState.CANCELLED:
        reason = f": {value['cancel_reason']}" if value["cancel_reason"] else ""
        return f"The task was cancelled{where}{reason}."
    verb = "timed out" if state == TaskState.TIMEOUT else "failed"
    spent = f", after {span(value['duration_ms'])}" if value["duration_ms"] else ""
    retries = f"{value['retries']} {'retry' if value['retries'] == 1 else 'retries'}"
    return f"The task {verb}{where}{spent}, with {retries} spent{told}."
