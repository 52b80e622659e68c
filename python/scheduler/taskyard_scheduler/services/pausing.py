"""Work is held back and goes on again: what the calls of several services have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message

from taskyard_core.engine.events import PauseWork, Refused, ResumeWork
from taskyard_core.pauses import Pause, PauseScope
from taskyard_scheduler.egress.pauses import pause_message
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.lookups import no_run
from taskyard_scheduler.services.repeats import first_answer, remembering
from taskyard_service.errors import FailedPrecondition, PermissionDenied
from taskyard_service.identity import Role, current_identity

REASON_LIMIT = 1_000
Answer = TypeVar("Answer", bound=Message)


async def pause(
    scheduler: Scheduler, request: Any, scope: PauseScope, name: str, answer: Callable[..., Answer]
) -> Answer:
    """Holds something back, once for each request id.

    Args:
        scheduler: Which leads, or says that it does not.
        request: It has a `request_id` and a `reason`.
        scope: How much.
        name: Which.
        answer: The response's type; it has a `pause`.

    Raises:
        PermissionDenied: All tenants' work is meant, and the caller is no admin.
        NotFound: There is no such run, or it has ended.
    """

    def make(reply: object, now: int) -> PauseWork:
        who = current_identity()
        reason = request.reason[:REASON_LIMIT]
        return PauseWork(reply, Pause(_owner(scope), scope, name, reason, who.subject[:255], now))

    return await _ask(scheduler, request, scope, name, answer, make)


async def resume(
    scheduler: Scheduler, request: Any, scope: PauseScope, name: str, answer: Callable[..., Answer]
) -> Answer:
    """Lets something go on, once for each request id; arguments as for `pause`.

    Raises:
        PermissionDenied: All tenants' work is meant, and the caller is no admin.
        FailedPrecondition: It is not paused by itself.
    """
    return await _ask(
        scheduler, request, scope, name, answer, lambda reply, _: ResumeWork(reply, _owner(scope), scope, name)
    )


async def _ask(
    scheduler: Scheduler,
    request: Any,
    scope: PauseScope,
    name: str,
    answer: Callable[..., Answer],
    make: Callable[[object, int], PauseWork | ResumeWork],
) -> Answer:
    _check_role(scope)
    tenant = current_identity().tenant
    leader = scheduler.leader()
    first = await first_answer(leader, tenant, request.request_id, request, answer)
    if first is not None:
        return first
    remember = remembering(leader, tenant, request, lambda held: answer(pause=pause_message(held)))
    outcome: Pause | Refused = await leader.ask(make(leader.future(), leader.clock.now()), remember)
    if isinstance(outcome, Pause):
        return answer(pause=pause_message(outcome))
    if outcome.reason == "NOT_FOUND":
        raise no_run(name)
    raise FailedPrecondition(outcome.reason, outcome.message, metadata={"scope": scope.name, "name": name})


def _owner(scope: PauseScope) -> str:
    return "" if scope == PauseScope.ALL else current_identity().tenant


def _check_role(scope: PauseScope) -> None:
    role = current_identity().role
    if scope == PauseScope.ALL and role != Role.ADMIN:
        said = f"scope ALL is the work of all tenants, which takes the role admin; this token's is {role.value}"
        raise PermissionDenied("ROLE_NOT_ALLOWED", f"{said}: pause the scope TENANT, or less")
