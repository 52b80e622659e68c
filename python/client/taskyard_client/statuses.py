"""Turns what a failed call says (status, details) and what a refused item says into exceptions.

The one place that knows gRPC's status names; transports and calls go through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from taskyard.v1.tasks_pb2 import Refusal
from taskyard_client.errors import (
    AlreadyEnded,
    AlreadyExists,
    DeadlineExceeded,
    Gone,
    InvalidInput,
    NotFound,
    Overloaded,
    PermissionDenied,
    RequestIdReused,
    ServerError,
    TaskyardError,
    Unauthenticated,
    Unavailable,
    Violation,
    WrongState,
)

_ITEM = re.compile(r"^(?:tasks|runs)\[\d+\]\.?")

_PLAIN: dict[str, type[TaskyardError]] = {
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": AlreadyExists,
    "OUT_OF_RANGE": Gone,
    "PERMISSION_DENIED": PermissionDenied,
}


def error_of(
    code: str,
    message: str,
    *,
    address: str,
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
        reason: ErrorInfo's reason; empty when there was no ErrorInfo, so the answer is not the scheduler's.
        facts: ErrorInfo's metadata.
        violations: BadRequest's field violations.
        retry_after: RetryInfo's delay in seconds.
    """
    if code == "INVALID_ARGUMENT":
        return InvalidInput(message, violations, reason=reason or "INVALID_INPUT", facts=facts)
    if code == "RESOURCE_EXHAUSTED":
        return Overloaded(message, reason=reason, facts=facts, retry_after=retry_after)
    if code == "FAILED_PRECONDITION":
        kind = AlreadyEnded if reason == "ALREADY_ENDED" else WrongState
        return kind(message, reason=reason, facts=facts)
    if code == "UNAVAILABLE":
        return Unavailable(_unavailable(message, address, reason), reason=reason, facts=facts)
    if code == "UNAUTHENTICATED":
        text = f"{message}: give a good token (TASKYARD_TOKEN; `taskyard token` makes one)"
        return Unauthenticated(text, reason=reason, facts=facts)
    if code == "DEADLINE_EXCEEDED":
        text = f"no answer from the scheduler at {address} in time: is it overloaded or stopped?"
        return DeadlineExceeded(text, reason=reason, facts=facts)
    if code in _PLAIN:
        return _PLAIN[code](message, reason=reason, facts=facts)
    text = f"the scheduler at {address} failed ({code}): {message}; its log says more"
    return ServerError(text, reason=reason, facts=facts)


def _unavailable(message: str, address: str, reason: str) -> str:
    if reason:
        return f"the scheduler at {address} cannot answer now: {message}"
    return f"the scheduler is not reachable at {address}: is it running? `taskyard dev` starts one ({message})"


def error_of_refusal(refusal: Refusal, *, item: str = "") -> TaskyardError:
    """Returns the exception for one refused item of a list.

    Args:
        refusal: As answered. Its fields' paths begin with the item's place in the call, which is not the
            caller's where calls are gathered or split.
        item: What to put in place of that, for example `tasks[3]`; empty for the field alone.
    """
    violations = [Violation(_relocated(each.field, item), each.description) for each in refusal.violations]
    if refusal.reason == "DEFINITION_NOT_FOUND":
        return NotFound(refusal.message, reason=refusal.reason)
    kind = RequestIdReused if refusal.reason == "REQUEST_ID_REUSED" else InvalidInput
    return kind(refusal.message, violations, reason=refusal.reason)


def _relocated(field: str, item: str) -> str:
    rest = _ITEM.sub("", field)
    return ".".join(part for part in (item, rest) if part)
