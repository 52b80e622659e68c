"""A person says how an instance or a step has ended, and somebody brings the result of an attempt from outside."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard_core.dag import StepState
from taskyard_core.engine import attempts, retries, runs
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import Complete, Mark, Marked, MarkStep, Refused
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.records import (
    CANCELLING,
    DEFERRED,
    ENDED,
    IN_FLIGHT,
    QUEUED,
    SKIPPED,
    SUCCESS,
    Instance,
    Row,
    RunState,
    TaskState,
)

_KINDS = {SUCCESS: attempts.MARKED_SUCCESS_KIND, SKIPPED: attempts.MARKED_SKIPPED_KIND}


def complete(c: Cluster, event: Complete) -> None:
    """Ends the attempt of a token as if its worker had."""
    instance = c.find(event.task_id) or event.row
    refusal = _not_completed(instance, event)
    if refusal is not None or instance is None:
        c.batch.answers.append((event.reply, refusal))
        return
    if instance.phase == IN_FLIGHT:  # the result is quicker than the handler's end
        c.order_stop(instance, "fenced")
    if instance.started_at is None:
        instance.started_at = instance.assigned_at
    attempts.count_wait(c, instance)
    if event.status == SUCCESS:
        instance.output_json = event.output_json
        instance.error_kind = instance.error_message = ""
        attempts.end(c, instance, SUCCESS)
    else:
        attempts.failure(c, instance, attempts.failure_kind(event.error_kind), event.error_message)
    c.batch.answers.append((event.reply, TaskState(instance.state)))


def _not_completed(instance: Instance | None, event: Complete) -> Refused | None:
    if instance is None:
        return Refused("NOT_FOUND", "there is no task of that token")
    state = TaskState(instance.state).name
    if instance.token != event.token or not (instance.phase == IN_FLIGHT or instance.state == DEFERRED):
        return Refused("STALE_ATTEMPT", f"the token's attempt is over (the task is {state}): nothing was changed")
    if instance.state == CANCELLING:
        return Refused("CANCELLING", "the task is being stopped: its result is not wanted any more")
    if instance.state != DEFERRED and instance.policy.exclusive:
        return Refused("NOT_DEFERRED", "the task is exclusive and its handler has not ended yet: try again in a moment")
    return None


def mark(c: Cluster, event: Mark) -> None:
    """Ends an instance as a person says it has ended, or has its worker stop it first."""
    instance = c.find(event.task_id) or event.row
    refusal = Refused("NOT_FOUND", f"there is no task {event.task_id!r}") if instance is None else None
    if instance is not None:
        refusal = _not_marked(instance, event.state) or _not_in_run(c, instance)
    if refusal is not None or instance is None:
        c.batch.answers.append((event.reply, refusal))
        return
    run = _run_of(c, instance.run_id, event.run_row, event.run_instances)
    _mark(c, run, instance, event)
    c.batch.answers.append((event.reply, TaskState(instance.state)))


def _not_marked(instance: Instance, state: int) -> Refused | None:
    if instance.state == SUCCESS:
        return Refused("ALREADY_SUCCEEDED", "the task has succeeded: run it again if its result is wrong")
    if instance.state == state:
        return Refused("ALREADY_SKIPPED", "the task is skipped already: mark the step that failed, or this as SUCCESS")
    if instance.state == CANCELLING:
        return Refused("CANCELLING", "the task is being stopped: wait until that is confirmed, then mark it")
    return None


def _not_in_run(c: Cluster, instance: Instance) -> Refused | None:
    run = c.find_run(instance.run_id) if instance.run_id else None
    if run is not None and run.state == RunState.CANCELLING:
        return Refused("RUN_CANCELLING", "its run is being cancelled: wait until that has ended")
    if run is not None and instance.id not in run.instance_ids.values():
        return Refused("NOT_ENDED", "a step before it runs again, so this one begins anew: mark the step of the run")
    return None


def _run_of(c: Cluster, run_id: str, row: Row | None, instances: Sequence[Instance]) -> LiveRun | None:
    """Returns the run, taken into memory again if it has ended; None for none."""
    run = c.find_run(run_id) if run_id else None
    if run is None and row is not None:
        run = retries.restore_run(c, row, instances)
    if run is not None:
        c.runs[run.id] = run
    return run


def _mark(c: Cluster, run: LiveRun | None, instance: Instance, event: Mark | MarkStep) -> None:
    if instance.phase == IN_FLIGHT:
        _stop_first(c, instance, event)
        return
    if instance.state == QUEUED:
        c.leave_queue(instance)
    if instance.phase != ENDED or run is None:
        attempts.end_marked(c, instance, event.state, event.output_json, event.reason)
        return
    step = run.plan.graph.index[instance.step_id]
    undone = runs.undo_end(c, run, step)
    attempts.end_marked(c, instance, event.state, event.output_json, event.reason)
    _go_on(c, run, undone, step)


def _go_on(c: Cluster, run: LiveRun, undone: Sequence[int], step: int) -> None:
    """Lets what the end of the run, or of the step, had kept from beginning begin."""
    if run.id in c.runs:
        runs.begin_undone(c, run, undone, step)
    if run.id in c.runs:
        runs.resume(c, run)


def _stop_first(c: Cluster, instance: Instance, event: Mark | MarkStep) -> None:
    """Has the worker stop the attempt; what was said is kept with the instance until that is confirmed."""
    c.move(instance, CANCELLING)
    instance.output_json = event.output_json
    instance.error_kind, instance.error_message = _KINDS[event.state], event.reason
    c.order_stop(instance, attempts.stop_reason(instance))
    c.timers.cancel(instance.id)  # from here on the lease bounds it


def mark_step(c: Cluster, event: MarkStep) -> None:
    """Marks the task of a step, or makes one that has ended so for a step that has none yet."""
    run = c.find_run(event.run_id)
    if run is None and event.run_row is not None:
        run = retries.restore_run(c, event.run_row, event.run_instances)
    answer: Marked | Refused
    if run is None:
        answer = Refused("NOT_FOUND", f"there is no run {event.run_id!r}")
    else:
        answer = _not_now(run, event) or _mark_step(c, run, event)
    c.batch.answers.append((event.reply, answer))


def _not_now(run: LiveRun, event: MarkStep) -> Refused | None:
    if event.step_id not in run.plan.graph.index:
        return Refused("UNKNOWN_STEP", f"the run has no step {event.step_id!r}")
    if run.state == RunState.CANCELLING:
        return Refused("RUN_CANCELLING", "the run is being cancelled: wait until that has ended")
    if run.state == RunState.PENDING:
        return Refused("RUN_PENDING", "the run has not begun: none of its steps can have ended")
    return None


def _mark_step(c: Cluster, run: LiveRun, event: MarkStep) -> Marked | Refused:
    step = run.plan.graph.index[event.step_id]
    id = run.instance_ids.get(step)
    if id is None:
        c.runs[run.id] = run
        undone = runs.undo_end(c, run, step) if run.progress.state(step) > StepState.READY else ()
        made = runs.end_unbegun(c, run, step, event.state, event.output_json, event.reason)
        _go_on(c, run, undone, step)
        return Marked(event.state, run.state, made.id)
    known = {instance.id: instance for instance in event.run_instances}
    instance = c.find(id) or known.get(id)
    if instance is None:
        return Refused("RUN_CHANGING", "the run went on while its steps were read: try again")
    refusal = _not_marked(instance, event.state)
    if refusal is not None:
        return refusal
    c.runs[run.id] = run
    _mark(c, run, instance, event)
    return Marked(instance.state, run.state, instance.id)
