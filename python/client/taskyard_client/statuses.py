"""Turns what a failed call says (status, details) and what a refused item says into exceptions.

The one place that knows gRPC's status names; transports and calls go through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from taskyard.v1.tasks_pb2 import Refusal
from taskyard_client import errors
from taskyard_client.errors import TaskyardError, Violation

_ITEM = re.compile(r"^(?:tasks|runs)\[\d+\]\.?")
_HANDSHAKE = re.compile("handshake|certificate", re.IGNORECASE)

_PLAIN: dict[str, type[TaskyardError]] = {
    "NOT_FOUND": errors.NotFound,
    "ALREADY_EXISTS": errors.AlreadyExists,
    "OUT_OF_RANGE": errors.Gone,
    "PERMISSION_DENIED": errors.PermissionDenied,
}


def error_of(
    code: str,
    message: str,
    *,
    address: str,
    changes: bool = False,
    reason: str = "",
    facts: Mapping[str, str] | None = None,
    violations: Sequence[Violation] = (),
    retry_after: float | None = None,
) -> TaskyardError:
    """Returns the exception for a call that ended with a status other than OK.

    Args:
        code: gRPC's name of the status, for example `UNAVAILABLE`.
        message: What came with it.
        address: Where the call went, for people.
        changes: The call changes something, so that without an answer it may be done all the same.
        reason: ErrorInfo's reason; empty when there was no ErrorInfo, so the answer is not the scheduler's.
        facts: ErrorInfo's metadata.
        violations: BadRequest's field violations.
        retry_after: RetryInfo's delay in seconds.
    """
    if code == "INVALID_ARGUMENT" or reason == "ARTIFACT_TOO_LARGE":
        return errors.InvalidInput(message, violations, reason=reason or "INVALID_INPUT", facts=facts)
    if code == "RESOURCE_EXHAUSTED":
        return errors.Overloaded(message, reason=reason, facts=facts, retry_after=retry_after)
    if code == "FAILED_PRECONDITION":
        kind = errors.AlreadyEnded if reason == "ALREADY_ENDED" else errors.WrongState
        return kind(message, reason=reason, facts=facts)
    if code == "UNAVAILABLE":
        return errors.Unavailable(_unavailable(message, address, reason), reason=reason, facts=facts)
    if code == "UNAUTHENTICATED":
        text = f"{message}: give a good token (TASKYARD_TOKEN; `taskyard token` makes one)"
        return errors.Unauthenticated(text, reason=reason, facts=facts)
    if code == "DEADLINE_EXCEEDED":
        still = " What was asked may still be done." if changes else ""
        text = f"no answer from the scheduler at {address} in time: is it overloaded or stopped?{still}"
        return errors.DeadlineExceeded(text, reason=reason, facts=facts)
    if code in _PLAIN:
        return _PLAIN[code](message, reason=reason, facts=facts)
    text = f"the scheduler at {address} failed ({code}): {message}; its log says more"
    return errors.ServerError(text, reason=reason, facts=facts)


def _unavailable(message: str, address: str, reason: str) -> str:
    if reason:
        # Why a database does not answer (a full disk, a lost server) may not be everybody's business.
        where = "; the scheduler's log says why" if reason == "DATABASE_UNAVAILABLE" else ""
        return f"the scheduler at {address} cannot answer now: {message}{where}"
    if _HANDSHAKE.search(message):
        return (
            f"there is no encrypted connection to the scheduler at {address} ({message}): does it serve TLS at all, "
            "with a certificate for this host that those given as `ca` sign?"
        )
    return f"the scheduler is not reachable at {address}: is it running? `taskyard dev` starts one ({message})"


def error_of_refusal(refusal: Refusal, *, item: str = "") -> TaskyardError:
    """Returns the exception for one refused item of a list.

    Args:
        refusal: As answered. Its fields' paths begin with the item's place in the call, which is not the
            caller's where calls are gathered or split.
        item: What to put in place of that, for example `tasks[3]`; empty for the field alone.
    """
    violations = [Violation(_relocated(each.field, item), each.description) for each in refusal.violations]
    message = _ITEM.sub(f"{item}." if item else "", refusal.message)
    if refusal.reason == "DEFINITION_NOT_FOUND":
        return errors.NotFound(message, reason=refusal.reason)
    kind = errors.RequestIdReused if refusal.reason == "REQUEST_ID_REUSED" else errors.InvalidInput
    return kind(message, violations, reason=refusal.reason)


def _relocated(field: str, item: str) -> str:
    rest = _ITEM.sub("", field)
    return ".".join(part for part in (item, rest) if part)
