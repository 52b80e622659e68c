"""Retries by hand: an ended instance runs again, and the run that it is a step of goes on from there."""

from __future__ import annotations

from collections.abc import Iterable

from taskyard_core.dag import StepState
from taskyard_core.engine import attempts, runs
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import Refused, Retry
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.records import RUN_COLUMNS, Instance, Phase, Row, RunState, TaskState
from taskyard_core.retry import FailureKind
from taskyard_core.spans import span

_STEP_STATES = {
    TaskState.SUCCESS: StepState.SUCCESS,
    TaskState.FAILED: StepState.FAILED,
    TaskState.TIMEOUT: StepState.FAILED,
    TaskState.CANCELLED: StepState.CANCELLED,
}


def retry(c: Cluster, event: Retry) -> None:
    """Runs an ended instance again with all its attempts."""
    instance = c.find(event.task_id) or event.row
    refusal = _refusal(c, instance, event)
    if refusal is None and instance is not None:
        run = _run_of(c, instance, event)
        if run is not None:
            step = run.plan.graph.index[instance.step_id]
            runs.reopen(c, run, step)
            runs.resume(c, run)
        _again(c, instance)
        c.batch.answers.append((event.reply, TaskState(instance.state)))
        return
    c.batch.answers.append((event.reply, refusal))


def _refusal(c: Cluster, instance: Instance | None, event: Retry) -> Refused | None:
    if instance is None:
        return Refused("NOT_FOUND", f"there is no task {event.task_id!r}")
    state = TaskState(instance.state)
    if instance.phase != Phase.ENDED:
        return Refused("NOT_ENDED", f"the task is {state.name}: wait for its end, or cancel it first")
    if state in (TaskState.SUCCESS, TaskState.SKIPPED):
        return Refused(
            "ALREADY_SUCCEEDED" if state == TaskState.SUCCESS else "NEVER_RAN",
            f"the task is {state.name}: only what failed, timed out or was cancelled can be retried",
        )
    return _why_not_now(c, instance)


def _why_not_now(c: Cluster, instance: Instance) -> Refused | None:
    if instance.error_kind == FailureKind.TEMPLATE_ERROR and not instance.attempt:
        message = f"its input could not be made ({instance.error_message}), so it has none to run with: start a new run"
        return Refused("NEVER_RAN", message)
    total = instance.policy.total_ms
    if total and c.now >= instance.created_at + total:
        message = f"its total timeout of {span(total)} since its submission has passed: submit it anew"
        return Refused("TOTAL_TIMEOUT_PASSED", message)
    if instance.error_kind == attempts.EXPIRED_KIND:
        return Refused("EXPIRED", "it expired before it started, and its time does not come again: submit it anew")
    run = c.find_run(instance.run_id)
    if run is not None and run.state == RunState.CANCELLING:
        return Refused("RUN_CANCELLING", "its run is being cancelled: wait until that has ended")
    if run is not None and instance.id not in run.instance_ids.values():
        message = "a step before it was retried meanwhile: the step waits for that, and begins anew by itself"
        return Refused("NOT_ENDED", message)
    return None


def _run_of(c: Cluster, instance: Instance, event: Retry) -> LiveRun | None:
    if not instance.run_id:
        return None
    run = c.find_run(instance.run_id)
    if run is None and event.run_row is not None:
        run = restore_run(c, event.run_row, event.run_instances)
    if run is not None:
        c.runs[run.id] = run
    return run


def restore_run(c: Cluster, row: Row, instances: Iterable[Instance]) -> LiveRun:
    """Makes a run of its stored row and the instances of its steps."""
    values = dict(zip(RUN_COLUMNS, row, strict=True))
    plan = c.workflows[values["tenant"], values["workflow"], values["version"]]
    run = LiveRun(values["tenant"], values["id"], plan)
    for name, value in values.items():
        if name not in ("steps_total", "steps_ended"):
            setattr(run, name, value)
    run.is_new = False
    run.open_scope()
    # Of a run that somebody ended, a step without instance never began and never will.
    missing = StepState.CANCELLED if run.state in (RunState.CANCELLING, RunState.CANCELLED) else StepState.WAITING
    states = [int(missing)] * len(plan.steps)
    for instance in instances:
        step = plan.graph.index[instance.step_id]
        run.instance_ids[step] = instance.id
        states[step] = step_state(instance)
        if instance.state == TaskState.SUCCESS:
            run.keep_output(step, instance.output_json)
    if run.state != RunState.PENDING:  # else no step has begun
        run.progress.restore(states)
    return run


def step_state(instance: Instance) -> int:
    """Returns where a step stands by its instance."""
    if instance.state == TaskState.SKIPPED:
        upstream = instance.error_kind == runs.UPSTREAM_FAILED_KIND
        return int(StepState.UPSTREAM_FAILED if upstream else StepState.SKIPPED)
    if instance.state == TaskState.PENDING and instance.not_before is None:
        return int(StepState.WAITING)  # it is to run again once the steps before it have
    return int(_STEP_STATES.get(TaskState(instance.state), StepState.READY))


def _again(c: Cluster, instance: Instance) -> None:
    if instance.token:  # else its last attempt is in the archive already
        attempts.archive(c, instance, instance.state)
    c.instances[instance.id] = instance
    instance.retries = instance.requeues = 0
    instance.ended_at = None
    instance.token = ""
    instance.cancel_reason = ""
    attempts.to_queue(c, instance, keep_place=False)
