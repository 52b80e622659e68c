"""The one family of exceptions that a server's handlers raise to answer a call with an error.

Each knows its gRPC status and its reason; status.py turns them into what travels. Not for faults of the
machinery: those are any other exception and become INTERNAL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar, Protocol

import grpc


class ViolationLike(Protocol):
    """Anything that names a field and says what is wrong with it, such as the core's Violation."""

    @property
    def field(self) -> str:
        """Path of the field in the request, as in `tasks[3].priority`."""
        ...

    @property
    def description(self) -> str:
        """A sentence that names the value, the rule and the way out."""
        ...


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One rule that one field of a request breaks.

    Attributes:
        field: Path of the field in the request, as in `tasks[3].priority`.
        description: A sentence that names the value, the rule and the way out.
    """

    field: str
    description: str


class ServiceError(Exception):
    """Root of everything that a handler raises to answer a call with an error.

    Attributes:
        code: The gRPC status that the caller gets.
        reason: Machine-readable, UPPER_SNAKE; what a program decides on.
        message: A sentence for a person: what is wrong and what to do.
        metadata: The variables of the sentence, for programs.
        retry_after_s: How long to wait before the next try, in seconds; None when trying again does not help.
    """

    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN
    http_status: ClassVar[HTTPStatus | None] = None
    """What HTTP says where it is more exact than the code; None: what the code stands for."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s


class InvalidArgument(ServiceError):
    """The request breaks a rule; `violations` names each field."""

    code = grpc.StatusCode.INVALID_ARGUMENT

    def __init__(
        self,
        violations: Iterable[ViolationLike],
        *,
        reason: str = "INVALID_INPUT",
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.violations: list[ViolationLike] = list(violations)
        if not self.violations:
            raise ValueError("InvalidArgument needs at least one violation: name the field that is wrong")
        super().__init__(reason, message or _summary(self.violations), metadata=metadata)


class Unauthenticated(ServiceError):
    """The call carries no token that proves who calls."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(ServiceError):
    """The caller is known and may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class NotFound(ServiceError):
    """What the request names does not exist, or belongs to another tenant."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(ServiceError):
    """What the request would make exists already."""

    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(ServiceError):
    """What the request names is not in a state that allows this."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(ServiceError):
    """Something newer has taken this call's place."""

    code = grpc.StatusCode.ABORTED


class OutOfRange(ServiceError):
    """The position asked for is gone, or not there yet."""

    code = grpc.StatusCode.OUT_OF_RANGE


class ResourceExhausted(ServiceError):
    """A limit is reached; `retry_after_s` says when to try again."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unimplemented(ServiceError):
    """This server does not do what was asked for."""

    code = grpc.StatusCode.UNIMPLEMENTED


class DeadlineExceeded(ServiceError):
    """Something took longer than it may."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unavailable(ServiceError):
    """This server cannot answer now; trying again, or elsewhere, can help."""

    code = grpc.StatusCode.UNAVAILABLE


class Internal(ServiceError):
    """A fault of ours; the log has it under the incident id that the message names."""

    code = grpc.StatusCode.INTERNAL


def _summary(violations: list[ViolationLike]) -> str:
    first = violations[0]
    more = len(violations) - 1
    rest = f" (and {more} more {'field' if more == 1 else 'fields'})" if more else ""
    return f"{first.field}: {first.description}{rest}"
