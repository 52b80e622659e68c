"""Answers to why: the reasons that the engine gave for a live instance, or how an ended one ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.explain import WaitReason
from taskyard_core.records import INSTANCE_COLUMNS, Policy, Row, TaskState


def explain_live(state: int, reasons: Sequence[WaitReason], policy: Policy) -> pb.ExplainTaskResponse:
    """Returns why an instance has not ended.

    Args:
        state: A TaskState.
        reasons: At least one, the most important first.
        policy: What it asks for: said where no reason says it.
    """
    told = [_reason(each, policy) for each in reasons]
    asks = "" if any("asks" in each.variables for each in told) else _asks(policy, "asks")
    return pb.ExplainTaskResponse(
        status=state,  # type: ignore[arg-type]  # the numbers are those of the enum
        reasons=told,
        summary=f"The task is {TaskState(state).name}: {told[0].message}.{asks}",
    )


def _reason(reason: WaitReason, policy: Policy) -> pb.WaitReason:
    message, variables = reason.message, dict(reason.variables)
    if counted := variables.get("asks"):
        # The engine counts as it stores; people are told in the units in which they ask.
        variables["asks"] = _amounts(policy)
        message = message.replace(counted, variables["asks"])
    return pb.WaitReason(code=reason.code, message=message, variables=variables)


def explain_ended(row: Row, policy: Policy) -> pb.ExplainTaskResponse:
    """Returns how an instance ended.

    Args:
        row: INSTANCE_COLUMNS.
        policy: What it asked for.
    """
    value: dict[str, Any] = dict(zip(INSTANCE_COLUMNS, row, strict=False))
    return pb.ExplainTaskResponse(status=value["state"], summary=_how(value) + _asks(policy, "asked"))


def _asks(policy: Policy, verb: str) -> str:
    return f" It {verb} for {_amounts(policy)}." if policy.asks else ""


def _amounts(policy: Policy) -> str:
    """Returns the resources in the units in which they are asked for and offered: `0.5 cores, 2048 MiB, 1 GPU`."""
    cpus, memory, gpus = policy.cpu_millis, policy.memory_mb, policy.gpus
    amounts = (
        f"{cpus / 1_000:g} {'core' if cpus == 1_000 else 'cores'}" if cpus else "",
        f"{memory} MiB" if memory else "",
        f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}" if gpus else "",
    )
    return ", ".join(filter(None, amounts))


def _how(value: dict[str, Any]) -> str:
    state = TaskState(value["state"])
    attempt, worker = value["attempt"], value["worker_id"]
    where = f" in attempt {attempt} on worker {worker}" if attempt else ""
    if state == TaskState.SUCCESS:
        return f"The task ended well{where}, after {value['duration_ms']} ms."
    error = ": ".join(str(part) for part in (value["error_kind"], value["error_message"]) if part)
    told = f": {error}" if error else ""
    if state == TaskState.SKIPPED:
        return f"The task was not run{told or ': the steps before it did not ask for it'}."
    if state == TaskState.CANCELLED:
        reason = f": {value['cancel_reason']}" if value["cancel_reason"] else ""
        return f"The task was cancelled{where}{reason}."
    verb = "timed out" if state == TaskState.TIMEOUT else "failed"
    spent = f", after {value['duration_ms']} ms" if value["duration_ms"] else ""
    retries = f"{value['retries']} {'retry' if value['retries'] == 1 else 'retries'}"
    return f"The task {verb}{where}{spent}, with {retries} spent{told}."
