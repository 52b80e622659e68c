"""How tasks and runs may end, told by the contract's words and nothing of the engine: too simple to be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulation.history import History
from simulation.ledger import Ledger, Record, short
from simulation.workload import TaskWish
from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.records import TaskState as S

SUCCEEDED, FAILED, CANCELLED = 2, 3, 5
LOST = ("WORKER_LOST", "NEVER_STARTED")

OK, BAD, STOPPED, SKIP = "ok", "failed", "cancelled", "skipped"


def outcome_of(record: Record) -> str:
    """Returns how a step ended, as trigger rules see it."""
    if record.state == S.SUCCESS:
        return OK
    if record.state == S.SKIPPED:
        return BAD if record.get("error_kind") == "UPSTREAM_FAILED" else SKIP
    return STOPPED if record.state == S.CANCELLED else BAD


def may_start(rule: int, upstream: Sequence[str]) -> bool:
    """Tells whether a rule lets a step start after its upstream ended so."""
    if not upstream or rule == pb.TRIGGER_RULE_ALL_DONE:
        return True
    bad = sum(each in (BAD, STOPPED) for each in upstream)
    if rule in (pb.TRIGGER_RULE_ALL_SUCCESS, pb.TRIGGER_RULE_UNSPECIFIED):
        return all(each == OK for each in upstream)
    if rule == pb.TRIGGER_RULE_ONE_SUCCESS:
        return OK in upstream
    if rule == pb.TRIGGER_RULE_ONE_FAILED:
        return BAD in upstream
    return bad == 0


def run_problems(run: dict[str, Any], ledger: Ledger, workflows: Sequence[pb.Workflow]) -> Iterator[str]:
    """Yields what is wrong with how a run and its steps ended."""
    steps = {record.get("step_id"): record for record in ledger.instances.values() if record.get("run_id") == run["id"]}
    (workflow,) = (each for each in workflows if each.name == run["workflow"])
    name = f"run {short(run['id'])} of {workflow.name}"
    if run["ended_at"] is None:
        yield f"{name} has not ended"
        return
    if any(_denied(record) for record in steps.values()):
        return
    cancelled = run["state"] == CANCELLED
    outcomes = {id: outcome_of(record) for id, record in steps.items()}
    for step in workflow.steps:
        if step.id not in steps:
            if not cancelled and run["id"] not in ledger.reopened_runs:
                yield f"{name}: step {step.id} has neither run nor been skipped"
            continue
        record = steps[step.id]
        upstream = [outcomes.get(need, STOPPED) for need in step.needs]
        started = may_start(step.trigger_rule, upstream)
        if run["id"] in ledger.reopened_runs or cancelled:
            continue
        if (record.state != S.SKIPPED) != started:
            rule = pb.TriggerRule.Name(step.trigger_rule)
            yield f"{name}: step {step.id} is {S(record.state).name} under {rule} after {upstream}"
    needed = {need for step in workflow.steps for need in step.needs}
    leaves = [outcomes.get(step.id, STOPPED) for step in workflow.steps if step.id not in needed]
    expected = FAILED if any(each in (BAD, STOPPED) for each in leaves) else SUCCEEDED
    if not cancelled and run["state"] != expected:
        yield f"{name} is in state {run['state']} after leaves that ended {leaves}"


def _denied(record: Record) -> bool:
    """A success that the database would not take: its run had gone on from it by then."""
    return bool(record.get("error_kind") == "RESULT_NOT_STORABLE")


def fate_problems(wish: TaskWish, record: Record, history: History, *, cancelled: bool) -> Iterator[str]:
    """Yields what is wrong with how a task ended, given what it does."""
    if record.get("error_kind") == "MARKED":
        return  # a person has said so, whatever it did
    if record.state == S.CANCELLED and not cancelled:
        yield "nobody cancelled it"
    if record.state == S.TIMEOUT:
        yield from _timeout_problems(wish, record.get("error_kind"))
    outside = record.get("token") in history.completed  # whose result may be quicker than its handler's beginning
    if record.state == S.SUCCESS and not history.by_task.get(record.id) and not outside:
        yield "it succeeded and never ran"
    due = record.get("created_at") + round(wish.settings.get("start_delay", 0.0) * 1000)
    hurried = record.reopened or record.id in history.ledger.hurried
    if record.queued_at is not None and record.queued_at < due and not hurried:
        yield f"it was queued {due - record.queued_at} ms before its time"
    yield from _handler_problems(wish, record)
    yield from _retry_problems(wish, record)


def _timeout_problems(wish: TaskWish, kind: str) -> Iterator[str]:
    timeouts = wish.settings["timeouts"]
    if kind not in ("TIMEOUT", "TOTAL_TIMEOUT", "QUEUED_TIMEOUT", "EXPIRED"):
        yield "a timeout does not say which"
    if kind == "TOTAL_TIMEOUT" and timeouts.total is None:
        yield "it has no total timeout"
    if kind == "QUEUED_TIMEOUT" and timeouts.queued is None:
        yield "it has no queued timeout"
    if kind == "EXPIRED" and "expire_time" not in wish.settings:
        yield "it does not expire"


def _handler_problems(wish: TaskWish, record: Record) -> Iterator[str]:
    kind, state = record.get("error_kind"), record.state
    if wish.task_type == "nobody" and record.get("attempt"):
        yield "no worker offers its type"
    if state == S.SUCCESS and wish.fate == "defer" and wish.completed is None:
        yield "nobody has brought its result"
    if state == S.SUCCESS and wish.fate in ("fail", "reject", "hang"):
        yield "it cannot succeed"
    if state == S.FAILED and wish.fate in ("return", "stubborn", "checkpoint") and not _may_fail(wish, kind, record):
        yield "it cannot fail"
    if state == S.FAILED and wish.fate == "reject" and kind == "HANDLER_ERROR" and wish.task_type != "alone":
        yield "an input that a handler refuses is not tried again"


def _retry_problems(wish: TaskWish, record: Record) -> Iterator[str]:
    limit, kind = wish.settings["retry"].max_attempts, record.get("error_kind")
    last = record.state in (S.FAILED, S.TIMEOUT) and kind in ("HANDLER_ERROR", "TIMEOUT", "WORKER_LOST")
    failures = record.failures + last
    if failures > limit:
        yield f"{failures} attempts failed and {limit} may"
    retried = record.state == S.FAILED and kind in ("HANDLER_ERROR", "WORKER_LOST")
    if retried and failures < limit and wish.settings["timeouts"].total is None:
        yield f"{failures} attempts failed and {limit} may: the others were not made"


def _may_fail(wish: TaskWish, kind: str, record: Record) -> bool:
    if kind in (*LOST, "RESULT_NOT_STORABLE"):
        return True
    # An exclusive attempt is killed by its watchdog before its lease ends, which its handler cannot help.
    return bool(wish.task_type == "alone" and kind == "HANDLER_ERROR") or record.reopened
