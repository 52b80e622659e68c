"""A run is taken up again by a person: from some of its steps with all below them, or from all that ended badly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskyard_core.dag import InvalidTransition, StepState
from taskyard_core.engine import attempts, runs
from taskyard_core.engine.cluster import Cluster
from taskyard_core.engine.events import Refused, RetryRun
from taskyard_core.engine.live_run import LiveRun
from taskyard_core.engine.retries import restore_run
from taskyard_core.records import ENDED, PENDING, Instance, RunState

_BAD = (StepState.FAILED, StepState.CANCELLED)


def retry_run(c: Cluster, event: RetryRun) -> None:
    """Runs steps of a run again."""
    run = c.find_run(event.run_id)
    if run is None and event.run_row is not None:
        run = restore_run(c, event.run_row, event.run_instances)
    answer: tuple[RunState, list[str]] | Refused
    if run is None:
        answer = Refused("NOT_FOUND", f"there is no run {event.run_id!r}")
    else:
        answer = _not_now(c, run, event) or _take_up(c, run, event)
    c.batch.answers.append((event.reply, answer))


def _not_now(c: Cluster, run: LiveRun, event: RetryRun) -> Refused | None:
    if run.state == RunState.CANCELLING:
        return Refused("RUN_CANCELLING", "the run is being cancelled: wait until that has ended")
    if run.state == RunState.PENDING:
        return Refused("RUN_PENDING", "the run has not begun: there is nothing to run again")
    unknown = next((id for id in event.from_steps if id not in run.plan.graph.index), None)
    if unknown is not None:
        return Refused("UNKNOWN_STEP", f"the run has no step {unknown!r}")
    known = {instance.id for instance in event.run_instances}
    if not all(id in known or c.find(id) is not None for id in run.instance_ids.values()):
        return Refused("RUN_CHANGING", "the run went on while its steps were read: try again")
    return None


def _take_up(c: Cluster, run: LiveRun, event: RetryRun) -> tuple[RunState, list[str]] | Refused:
    graph, progress = run.plan.graph, run.progress
    bad = [step for step, state in enumerate(progress.states()) if state in _BAD]
    wanted = [graph.index[id] for id in event.from_steps] or [step for step in bad if step in run.instance_ids]
    # What a cancel has kept from beginning begins in any case: the run goes on, and nothing else would ever decide it.
    never_begun = [step for step in bad if step not in run.instance_ids and step not in wanted]
    if not wanted and not never_begun:
        return Refused("NOTHING_TO_RETRY", "no step of the run failed, timed out or was cancelled")
    try:
        undone = progress.reopen(wanted, unbegun=never_begun, redo_downstream=bool(event.from_steps))
    except InvalidTransition as error:
        return Refused("STEP_NOT_ENDED", str(error))
    known = {instance.id: instance for instance in event.run_instances}
    c.runs[run.id] = run
    run.taken_up = True
    if run.state != RunState.RUNNING:
        run.error_message = run.output_json = run.cancel_reason = ""
        run.ended_at = None
        runs.move_run(c, run, RunState.RUNNING)
    c.mark_run(run)
    _begin_anew(c, run, undone, known)
    return RunState(run.state), [graph.ids[step] for step in undone]


def _begin_anew(c: Cluster, run: LiveRun, undone: Sequence[int], known: Mapping[str, Instance]) -> None:
    """Takes back what the undone steps were, then starts those that may run now."""
    for step in undone:
        run.outputs.pop(run.plan.steps[step].id, None)
        id = run.instance_ids.get(step)
        instance = None if id is None else c.find(id) or known.get(id)
        if instance is not None and instance.phase == ENDED:
            _undo(c, run, step, instance)
    ready = [step for step in undone if run.progress.state(step) == StepState.READY]
    runs.start_steps(c, run, ready)
    if run.id in c.runs:
        runs.resume(c, run)


def _undo(c: Cluster, run: LiveRun, step: int, instance: Instance) -> None:
    """Makes of an ended instance one that waits for the steps before it; one that never ran is forgotten instead."""
    if not instance.attempt:
        del run.instance_ids[step]
        c.remove_row(run.tenant, instance.id)
        return
    if instance.token:  # else its last attempt is in the archive already
        attempts.archive(c, instance, instance.state)
    c.instances[instance.id] = instance
    instance.retries = instance.requeues = 0
    instance.started_at = instance.ended_at = instance.not_before = instance.queued_at = None
    instance.token = instance.worker_id = instance.output_json = instance.metadata_json = ""
    instance.cancel_reason = instance.error_kind = instance.error_message = ""
    c.move(instance, PENDING)
