"""Runs: they start, their steps become instances, and they end. How an instance lives is in `attempts`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from taskyard_core.dag import Decision, RunOutcome, StepOutcome, StepState
from taskyard_core.engine import attempts, holding
from taskyard_core.engine.cluster import RUN, Cluster
from taskyard_core.engine.events import Accepted, CancelRun, Known, NewRun, NewTask, Outcome, Refused, StartRuns, When
from taskyard_core.engine.instances import make_instance
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.engine.submit import find_clash, recognise, refuse_whole, remember
from taskyard_core.pauses import PauseScope
from taskyard_core.ready import queue_key
from taskyard_core.records import Instance, Phase, RunState, TaskState
from taskyard_core.retry import FailureKind
from taskyard_core.templates import RenderError
from taskyard_core.transitions import RUN_MOVES, IllegalTransition
from taskyard_core.workflow import StepPlan

UPSTREAM_FAILED_KIND = "UPSTREAM_FAILED"
"""Error kind of a step that was skipped because a step before it failed."""

SKIPPED_WHY = "a step that it waits for did not succeed"

OUTCOMES = {
    TaskState.SUCCESS: StepOutcome.SUCCESS,
    TaskState.FAILED: StepOutcome.FAILED,
    TaskState.TIMEOUT: StepOutcome.FAILED,
    TaskState.CANCELLED: StepOutcome.CANCELLED,
    TaskState.SKIPPED: StepOutcome.SKIPPED,
}


def start_runs(c: Cluster, event: StartRuns) -> None:
    """Creates the runs of a call; the answer goes out with the commit."""
    outcomes = refuse_whole(event.runs) if event.atomic else None
    if outcomes is None:
        if event.atomic and (clash := find_clash(c, event.tenant, event.runs, event.known)):
            outcomes = clash
        else:
            outcomes = [_start_one(c, event.tenant, run, event.known) for run in event.runs]
    c.batch.answers.append((event.reply, outcomes))


def _start_one(c: Cluster, tenant: str, new: NewRun | Refused, known: Known) -> Outcome:
    if isinstance(new, Refused):
        return new
    repeat = recognise(c, tenant, new, known)
    if repeat is not None:
        return repeat
    run = make_run(c, tenant, new)
    c.runs[run.id] = run
    c.mark_run(run)
    remember(c, tenant, new, run.id)
    if run.state == RunState.RUNNING:
        _begin(c, run)
    else:
        c.timers.arm(RUN + run.id, run.start_at or c.now)
    return Accepted(run.id)


def make_run(c: Cluster, tenant: str, new: NewRun) -> LiveRun:
    """Makes a run: RUNNING, or PENDING when it is due later. The caller decides what becomes of it."""
    plan = c.workflows[tenant, new.workflow, new.version]
    run = LiveRun(tenant, c.ids.next(c.now), plan)
    run.inputs_json = new.inputs_json
    run.priority = new.priority
    run.request_id = new.request_id
    run.request_hash = new.request_hash
    run.idempotency_key = new.idempotency_key
    run.created_at = c.now
    run.tags = new.tags
    run.variables_json = new.variables_json
    if new.when is not None:
        run.start_at = new.when.due(c.now) or None
        run.expire_at = new.when.expire_at or None
    if run.start_at is not None:
        run.state = RunState.PENDING
    run.open_scope()
    return run


def due(c: Cluster, run_id: str) -> None:
    """The time of a PENDING run has come."""
    run = c.runs.get(run_id)
    if run is not None and run.state == RunState.PENDING:
        move_run(c, run, RunState.RUNNING)
        _begin(c, run)


def _begin(c: Cluster, run: LiveRun) -> None:
    start_steps(c, run, run.progress.start())


def start_steps(c: Cluster, run: LiveRun, steps: Iterable[int]) -> None:
    """Makes, or makes anew, the instances of steps that are ready."""
    failed: list[int] = []
    for step in steps:
        _make_step(c, run, step, failed)
    _settle(c, run, failed)


def _make_step(c: Cluster, run: LiveRun, step: int, failed: list[int]) -> None:
    """Makes the instance of a step that is ready. One whose templates find no value ends at once and joins `failed`."""
    again = c.instances.get(run.instance_ids.get(step, ""))
    problem = ""
    try:
        new = task_of(run, step)
    except RenderError as error:
        problem = error.told(run.plan.steps[step].id)
        new = _bare_task(run, step)
    if again is not None:
        redo(c, run, again, new, problem, failed)
        return
    instance = make_instance(c, run.tenant, new)
    _bind(run, step, instance)
    c.add(instance)
    if not problem:
        c.enqueue(instance)
        return
    instance.error_kind = FailureKind.TEMPLATE_ERROR.value
    instance.error_message = problem
    _end_unrun(c, instance, TaskState.FAILED)
    failed.append(step)


def redo(c: Cluster, run: LiveRun, instance: Instance, new: NewTask, problem: str, failed: list[int]) -> None:
    """Runs the instance of a step anew, with the input that its templates yield now.

    It keeps its id and its earlier attempts; its total timeout counts from now, and it does not expire.
    """
    instance.expire_at = None
    instance.queue = queue_key(instance.task_type, instance.policy)
    instance.params_json, instance.input_json = new.params_json, new.input_json
    instance.created_at = c.now
    c.rewrite(instance)
    if not problem:
        attempts.to_queue(c, instance, keep_place=False)
        return
    instance.error_kind = FailureKind.TEMPLATE_ERROR.value
    instance.error_message = problem
    _end_unrun(c, instance, TaskState.FAILED)
    failed.append(run.plan.graph.index[instance.step_id])


def prospects(run: LiveRun) -> list[NewTask] | Refused:
    """Returns the tasks of all steps of a run that has not begun, or why one of them could not be made."""
    run.scope = replace(run.scope, begun=False)
    tasks = []
    for step, plan in enumerate(run.plan.steps):
        try:
            tasks.append(task_of(run, step))
        except RenderError as error:
            return Refused(FailureKind.TEMPLATE_ERROR.value, error.told(plan.id))
    return tasks


def task_of(run: LiveRun, step: int) -> NewTask:
    """Returns the task of a step that is ready.

    Raises:
        RenderError: a template finds no value.
    """
    new = _bare_task(run, step)
    plan = run.plan.steps[step]
    new.params_json = _params(plan, run)
    new.input_json = _input(plan, run)
    return new


def _bare_task(run: LiveRun, step: int) -> NewTask:
    plan = run.plan.steps[step]
    priority = run.priority or plan.priority
    new = NewTask(plan.task_type, plan.policy, plan.policy_json, plan.task_name, priority, tags=run.tags)
    if run.expire_at is not None and not run.taken_up and not run.plan.graph.upstream[step]:
        new.when = When(expire_at=run.expire_at)
    return new


def _params(plan: StepPlan, run: LiveRun) -> str:
    if plan.constant_params is not None:
        return plan.constant_params
    return json.dumps({name: template.render(run.scope) for name, template in plan.params})


def _input(plan: StepPlan, run: LiveRun) -> str:
    if plan.constant_input is not None:
        return plan.constant_input
    return json.dumps(plan.input.render(run.scope)) if plan.input is not None else ""


def _bind(run: LiveRun, step: int, instance: Instance) -> None:
    instance.run_id = run.id
    instance.workflow = run.workflow
    instance.step_id = run.plan.steps[step].id
    run.instance_ids[step] = instance.id


def _end_unrun(c: Cluster, instance: Instance, state: int) -> None:
    """Ends an instance that has just been made, or made anew, and was never queued since."""
    instance.state = state
    instance.phase = Phase.ENDED
    instance.queued_at = None
    instance.ended_at = c.now
    c.count_end(instance)
    c.forget(instance)


def step_ended(c: Cluster, instance: Instance) -> None:
    """A step's instance has ended: what follows becomes ready or is skipped, and the run may end."""
    run = c.runs.get(instance.run_id)
    if run is None:
        return
    step = run.plan.graph.index[instance.step_id]
    if run.state == RunState.CANCELLING:
        if run.progress.state(step) == StepState.READY:  # else it waited, and its run's cancel has ended it
            run.progress.end(step, OUTCOMES[TaskState(instance.state)])
        _finish_if_done(c, run)
        return
    if instance.state == TaskState.SUCCESS:
        run.keep_output(step, instance.output_json)
    failed: list[int] = []
    _decide(c, run, run.progress.end(step, OUTCOMES[TaskState(instance.state)]), failed)
    _settle(c, run, failed)


def resume(c: Cluster, run: LiveRun) -> None:
    """Makes the instances that a restored run lacks: of steps that its stored ends decide otherwise than it went on.

    That is so only after the database did not take a result: the run went on from a success, and a failure was stored.
    """
    failed: list[int] = []
    for step, state in enumerate(run.progress.states()):
        if step in run.instance_ids:
            continue
        if state == StepState.READY:
            _make_step(c, run, step, failed)
        elif state in (StepState.SKIPPED, StepState.UPSTREAM_FAILED):
            _make_skipped(c, run, step, Decision(int(state)))
    _settle(c, run, failed)


def resume_step(c: Cluster, instance: Instance) -> None:
    """Lets a restored step that is to run again do so, if its stored upstream lets it: see `resume`."""
    run = c.runs.get(instance.run_id)
    if run is None or instance.not_before is not None or run.state != RunState.RUNNING:
        return
    step = run.plan.graph.index[instance.step_id]
    if run.progress.state(step) == StepState.READY:
        start_steps(c, run, [step])


def _settle(c: Cluster, run: LiveRun, failed: list[int]) -> None:
    """Lets the ends of steps that failed at once have their consequences, then ends the run if all is over."""
    while failed:
        _decide(c, run, run.progress.end(failed.pop(), StepOutcome.FAILED), failed)
    _finish_if_done(c, run)


def _decide(c: Cluster, run: LiveRun, decisions: Iterable[tuple[int, Decision]], failed: list[int]) -> None:
    for step, decision in decisions:
        if decision == Decision.READY:
            _make_step(c, run, step, failed)
        else:
            _make_skipped(c, run, step, decision)


def _make_skipped(c: Cluster, run: LiveRun, step: int, decision: Decision) -> None:
    again = c.instances.get(run.instance_ids.get(step, ""))
    if again is not None:
        _skip(c, again, decision)
        return
    instance = make_instance(c, run.tenant, _bare_task(run, step))
    _bind(run, step, instance)
    if decision == Decision.UPSTREAM_FAILED:
        instance.error_kind = UPSTREAM_FAILED_KIND
        instance.error_message = SKIPPED_WHY
    c.add(instance)
    _end_unrun(c, instance, TaskState.SKIPPED)


def end_unbegun(c: Cluster, run: LiveRun, step: int, state: int, output_json: str, reason: str) -> Instance:
    """Ends a step that has no instance as a person says it has ended; returns the instance made for it."""
    instance = make_instance(c, run.tenant, _bare_task(run, step))
    _bind(run, step, instance)
    instance.output_json = output_json
    instance.error_kind, instance.error_message = attempts.MARKED_KIND, reason
    c.add(instance)
    _end_unrun(c, instance, state)
    step_ended(c, instance)
    return instance


def _skip(c: Cluster, instance: Instance, decision: Decision) -> None:
    """Skips a step that ran once and was to run again."""
    if decision == Decision.UPSTREAM_FAILED:
        instance.error_kind = UPSTREAM_FAILED_KIND
        instance.error_message = SKIPPED_WHY
    c.move(instance, TaskState.SKIPPED)
    instance.ended_at = c.now
    c.count_end(instance)
    c.forget(instance)


def _finish_if_done(c: Cluster, run: LiveRun) -> None:
    if not run.progress.finished:
        return
    if run.state == RunState.CANCELLING:
        state = RunState.CANCELLED
    elif run.progress.outcome() == RunOutcome.SUCCESS:
        state = RunState.SUCCEEDED
        _render_output(run)
    else:
        state = RunState.FAILED
        run.error_message = _first_failure(run)
    _close(c, run, state)


def _close(c: Cluster, run: LiveRun, state: RunState) -> None:
    _let_go(c, run)
    move_run(c, run, state)
    run.ended_at = c.now
    c.batch.ended_runs.append((run.tenant, int(state)))
    c.forget_run(run)


def _let_go(c: Cluster, run: LiveRun) -> None:
    """Ends the pause of a run that ends or is to end; what waits of it is cancelled when it comes back from SQL."""
    if not c.pauses.of_runs:
        return
    held = c.pauses.get(run.tenant, PauseScope.RUN, run.id)
    if held is not None:
        holding.lift(c, held)
    elif c.pauses.of_run(run.tenant, run.workflow, run.id) is not None:
        holding.give_back(c)


def _render_output(run: LiveRun) -> None:
    if run.plan.output is None:
        return
    try:
        run.output_json = json.dumps(run.plan.output.render(run.scope))
    except RenderError as error:
        run.error_message = f"the run's output could not be made: {error.told()}"


def _first_failure(run: LiveRun) -> str:
    failed = [run.plan.steps[step].id for step, state in enumerate(run.progress.states()) if state == StepState.FAILED]
    if failed:
        return f"step {failed[0]!r} failed" + (f", and {len(failed) - 1} more" if len(failed) > 1 else "")
    return "a step was cancelled"


def move_run(c: Cluster, run: LiveRun, to: int) -> None:
    """Moves a run to another state and marks it."""
    if to not in RUN_MOVES[run.state]:
        raise IllegalTransition(run.id, RunState(to), f"it is {RunState(run.state).name}")
    if c.observe is not None:
        c.observe("run", run.state, to)
    run.state = to
    c.mark_run(run)


def cancel_run(c: Cluster, event: CancelRun) -> None:
    """Cancels every step that has not ended; steps that have not begun never will."""
    run = c.runs[event.run_id]
    if run.state == RunState.PENDING:
        _cancel_pending(c, run, event.reason)
    elif run.state == RunState.RUNNING or event.kill:
        run.cancel_reason = event.reason
        if run.state == RunState.RUNNING:
            move_run(c, run, RunState.CANCELLING)
            run.progress.cancel()
        _let_go(c, run)
        for id in list(run.instance_ids.values()):
            instance = c.instances.get(id)
            if instance is not None and instance.phase != Phase.ENDED:
                attempts.cancel(c, instance, event.reason, kill=event.kill)
        if run.id in c.runs:
            _finish_if_done(c, run)
    c.batch.answers.append((event.reply, RunState(run.state)))


def _cancel_pending(c: Cluster, run: LiveRun, reason: str) -> None:
    """Ends a run of which no step has begun."""
    c.timers.cancel(RUN + run.id)
    run.cancel_reason = reason
    run.progress.cancel()
    _close(c, run, RunState.CANCELLED)


def reopen(c: Cluster, run: LiveRun, step: int) -> None:
    """A failed step runs again: what its failure decided is undone, and what the run's cancel kept from beginning."""
    begin_undone(c, run, undo_end(c, run, step), step)


def undo_end(c: Cluster, run: LiveRun, step: int) -> list[int]:
    """Takes back that a step has ended, and what followed from that; returns the steps undone, it among them."""
    never_begun = [
        other
        for other, state in enumerate(run.progress.states())
        if state == StepState.CANCELLED and other not in run.instance_ids
    ]
    undone_steps = run.progress.reopen([step], unbegun=never_begun)
    for undone in undone_steps:
        id = run.instance_ids.pop(undone, None) if undone != step else None
        if id is not None:
            c.remove_row(run.tenant, id)
    if run.state != RunState.RUNNING:
        run.error_message = run.output_json = run.cancel_reason = ""
        run.ended_at = None
        move_run(c, run, RunState.RUNNING)
    return undone_steps


def begin_undone(c: Cluster, run: LiveRun, undone: Iterable[int], but: int) -> None:
    """Starts those of the undone steps that may run now and that nothing has started meanwhile, but for one."""
    failed: list[int] = []
    for step in undone:
        if step != but and step not in run.instance_ids and run.progress.state(step) == StepState.READY:
            _make_step(c, run, step, failed)
    _settle(c, run, failed)
