"""WorkflowService, the calls by which a person acts on one run: cancel it, take it up again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from taskyard.v1 import tasks_pb2
from taskyard.v1 import workflows_pb2 as pb
from taskyard_core.engine.events import CancelRun, Marked, MarkStep, Refused, RetryRun
from taskyard_core.engine.instances import instance_from_row
from taskyard_core.pauses import PauseScope
from taskyard_core.records import RUN_COLUMNS, Instance, RunState
from taskyard_core.violations import InvalidInput, Violation
from taskyard_scheduler.ingress.marks import read_mark
from taskyard_scheduler.ingress.named import require_run, require_step
from taskyard_scheduler.leader import Leader, Remember
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.hand_calls import REASON_LIMIT, is_terminate
from taskyard_scheduler.services.lookups import kept_run, no_run, stored_run
from taskyard_scheduler.services.pausing import pause, resume
from taskyard_scheduler.services.repeats import first_answer, remembering
from taskyard_service.errors import FailedPrecondition, NotFound, Unavailable
from taskyard_service.identity import current_identity

STEPS_LIMIT = 1_000
TRIES = 5
"""How often the steps of a run are read that goes on meanwhile."""


class RunHandCalls:
    """Calls on one run. The interceptors have checked token and role."""

    _scheduler: Scheduler

    async def CancelRun(self, request: pb.CancelRunRequest, context: Any) -> pb.CancelRunResponse:
        require_run(request.run_id)
        kill = is_terminate(request.mode)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.CancelRunResponse)
        if first is not None:
            return first
        remember = remembering(leader, tenant, request, _cancelled)
        state = await cancel_run(leader, tenant, request.run_id, request.reason, kill=kill, remember=remember)
        if isinstance(state, Refused):
            raise FailedPrecondition(state.reason, state.message, metadata={"run_id": request.run_id})
        return _cancelled(state)

    async def RetryRun(self, request: pb.RetryRunRequest, context: Any) -> pb.RetryRunResponse:
        require_run(request.run_id)
        if len(request.from_steps) > STEPS_LIMIT:
            count = len(request.from_steps)
            said = f"{count} steps are more than {STEPS_LIMIT}; name fewer, or none for all that failed"
            raise InvalidInput([Violation("from_steps", said)])
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.RetryRunResponse)
        if first is not None:
            return first
        remember = remembering(leader, tenant, request, _retried)
        outcome = await retry_run(leader, tenant, request.run_id, tuple(request.from_steps), remember)
        if isinstance(outcome, Refused):
            raise _refusal(outcome, request)
        return _retried(outcome)

    async def MarkStep(self, request: pb.MarkStepRequest, context: Any) -> pb.MarkStepResponse:
        require_run(request.run_id)
        require_step(request.step_id)
        state = read_mark(request.marked_as, request.output_json)
        tenant = current_identity().tenant
        leader = self._scheduler.leader()
        first = await first_answer(leader, tenant, request.request_id, request, pb.MarkStepResponse)
        if first is not None:
            return first
        remember = remembering(leader, tenant, request, _marked)
        reason = request.reason[:REASON_LIMIT]
        event = MarkStep(None, request.run_id, request.step_id, state, request.output_json, reason)
        outcome: Marked | Refused = await _with_steps(leader, tenant, event, remember)
        if isinstance(outcome, Refused):
            raise _refusal(outcome, request)
        return _marked(outcome)

    async def PauseRun(self, request: pb.PauseRunRequest, context: Any) -> pb.PauseRunResponse:
        require_run(request.run_id)
        return await pause(self._scheduler, request, PauseScope.RUN, request.run_id, pb.PauseRunResponse)

    async def ResumeRun(self, request: pb.ResumeRunRequest, context: Any) -> pb.ResumeRunResponse:
        require_run(request.run_id)
        return await resume(self._scheduler, request, PauseScope.RUN, request.run_id, pb.ResumeRunResponse)


async def cancel_run(
    leader: Leader, tenant: str, run_id: str, reason: str, *, kill: bool, remember: Remember | None = None
) -> RunState | Refused:
    """Has the engine cancel a run; returns how it stands then, or why nothing was done.

    Raises:
        NotFound: There is no such run.
    """
    live = leader.engine.cluster.runs.get(run_id)
    if live is None or live.tenant != tenant:
        state = RunState((await stored_run(leader, tenant, run_id))[RUN_COLUMNS.index("state")])
        if state == RunState.CANCELLED:
            return state
        return Refused("ALREADY_ENDED", f"the run has ended as {state.name}: there is nothing to cancel")
    outcome: RunState | Refused = await leader.ask(
        CancelRun(leader.future(), run_id, reason[:REASON_LIMIT], kill), remember
    )
    return outcome


async def retry_run(
    leader: Leader, tenant: str, run_id: str, from_steps: Sequence[str], remember: Remember | None = None
) -> tuple[RunState, list[str]] | Refused:
    """Has the engine take up a run; returns how it stands then and the steps that run again, or why nothing was done.

    Raises:
        NotFound: There is no such run.
        Unavailable: It goes on so fast that its steps cannot be read.
    """
    event = RetryRun(None, run_id, from_steps)
    outcome: tuple[RunState, list[str]] | Refused = await _with_steps(leader, tenant, event, remember)
    return outcome


async def _with_steps(leader: Leader, tenant: str, event: RetryRun | MarkStep, remember: Remember | None) -> Any:
    """Has the engine act on a run that may have ended, with all its steps before it. Raises as `retry_run`."""
    async with kept_run(leader, event.run_id):
        pinned = await _add_steps(leader, tenant, event)
        try:
            event.reply = leader.future()  # not before: where the run cannot be read nobody would ever answer it
            return await leader.ask(event, remember)
        finally:
            _unpin(leader, pinned)


def _cancelled(state: Any) -> pb.CancelRunResponse:
    return pb.CancelRunResponse(state=pb.RunState.ValueType(state))


def _retried(outcome: Any) -> pb.RetryRunResponse:
    state, steps = outcome
    return pb.RetryRunResponse(state=pb.RunState.ValueType(state), steps=steps)


def _marked(outcome: Any) -> pb.MarkStepResponse:
    return pb.MarkStepResponse(
        status=tasks_pb2.TaskStatus.ValueType(outcome.state),
        state=pb.RunState.ValueType(outcome.run_state),
        task_id=outcome.task_id,
    )


def _refusal(refused: Refused, request: pb.RetryRunRequest | pb.MarkStepRequest) -> Exception:
    if refused.reason == "RUN_CHANGING":
        return Unavailable(refused.reason, refused.message)
    if refused.reason == "UNKNOWN_STEP" and isinstance(request, pb.MarkStepRequest):
        return NotFound("STEP_NOT_FOUND", refused.message, metadata={"step_id": request.step_id[:200]})
    if refused.reason == "UNKNOWN_STEP":
        return InvalidInput([Violation("from_steps", refused.message)])
    return FailedPrecondition(refused.reason, refused.message, metadata={"run_id": request.run_id})


async def _add_steps(leader: Leader, tenant: str, event: RetryRun | MarkStep) -> list[str]:
    """Adds a run and its instances as SQL has them, pinned so that nothing can outdate them meanwhile.

    Returns:
        The ids that the caller unpins.

    Raises:
        NotFound: There is no such run.
        Unavailable: It goes on so fast that its steps cannot be read.
    """
    row = await stored_run(leader, tenant, event.run_id)
    values = dict(zip(RUN_COLUMNS, row, strict=True))
    if await leader.definitions.fetch(tenant, values["workflow"], values["version"]) is None:
        raise no_run(event.run_id)
    for _ in range(TRIES):
        event.run_row = await stored_run(leader, tenant, event.run_id)
        live = leader.engine.cluster.find_run(event.run_id)
        known = set(live.instance_ids.values()) if live is not None else set()
        pinned = _pin(leader, known)
        steps = [instance_from_row(step) for step in await leader.store.run_instances(tenant, event.run_id)]
        if _complete(leader, event.run_id, known, steps):
            event.run_instances = steps  # and nothing is awaited from here on until the event is taken in
            return pinned
        _unpin(leader, pinned)
    raise Unavailable("RUN_CHANGING", "the run goes on so fast that its steps could not be read: try again")


def _pin(leader: Leader, ids: Iterable[str]) -> list[str]:
    pinned = list(ids)
    for id in pinned:
        leader.engine.cluster.pin(id)
    return pinned


def _unpin(leader: Leader, ids: Iterable[str]) -> None:
    for id in ids:
        leader.engine.cluster.unpin(id)


def _complete(leader: Leader, run_id: str, known: set[str], steps: list[Instance]) -> bool:
    """Tells whether every instance that the run has now is pinned, or was read."""
    c = leader.engine.cluster
    live = c.find_run(run_id)
    if live is None:
        return True
    read = {step.id for step in steps}
    return all(id in known and (id in read or c.find(id) is not None) for id in live.instance_ids.values())
