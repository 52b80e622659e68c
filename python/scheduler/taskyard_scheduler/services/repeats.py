"""Repeats of mutating calls that create neither task nor run: the first answer is kept and given again."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

from google.protobuf.message import Message

from taskyard_core.engine.events import Refused
from taskyard_core.records import Row
from taskyard_scheduler.leader import Leader, Remember
from taskyard_service.errors import FailedPrecondition, FieldViolation, InvalidArgument

Response = TypeVar("Response", bound=Message)
REQUEST_ID_LIMIT = 128


def digest(request: Message) -> bytes:
    """Returns 16 bytes that tell a request's content."""
    return blake2b(request.SerializeToString(deterministic=True), digest_size=16).digest()


async def first_answer(
    leader: Leader, tenant: str, request_id: str, request: Message, make: Callable[[], Response]
) -> Response | None:
    """Returns the answer that this request id was given before, or None for a new one.

    Raises:
        InvalidArgument: the id is too long.
        FailedPrecondition: the id was used for another request.
    """
    if not request_id:
        return None
    if len(request_id) > REQUEST_ID_LIMIT or "\0" in request_id:
        said = f"{request_id[:200]!r}: 1 to {REQUEST_ID_LIMIT} characters without NUL; a UUID does well"
        raise InvalidArgument([FieldViolation("request_id", said)])
    row = await leader.store.get_request(tenant, request_id)
    if row is None:
        return None
    _, _, method, first, response, _ = row
    if method != type(request).__name__ or first != digest(request):
        raise FailedPrecondition(
            "REQUEST_ID_REUSED",
            f"request id {request_id!r} was used for another request: use a new id for a new request",
            metadata={"request_id": request_id},
        )
    answer = make()
    answer.ParseFromString(response)
    return answer


def row_of(leader: Leader, tenant: str, request_id: str, request: Message, response: Message) -> Row | None:
    """Returns the row that makes a repeat recognisable; None for a call without request id."""
    if not request_id:
        return None
    return (
        tenant, request_id, type(request).__name__, digest(request), response.SerializeToString(), leader.clock.now(),
    )  # fmt: skip


def remembering(leader: Leader, tenant: str, request: Any, answer: Callable[[Any], Message]) -> Remember:
    """Returns what makes a repeat of a request that the engine answers recognisable; a refusal is not kept.

    Args:
        leader: The present term.
        tenant: Whose request it is.
        request: It has a `request_id`.
        answer: Makes the response of the engine's answer.
    """

    def remember(value: Any) -> Row | None:
        if isinstance(value, Refused):
            return None
        return row_of(leader, tenant, request.request_id, request, answer(value))

    return remember


async def kept_answer(leader: Leader, tenant: str, request_id: str, request: Message, answer: Response) -> Response:
    """Returns the answer once it is committed, together with what the call changed and its request id."""
    row = row_of(leader, tenant, request_id, request, answer)
    if row is not None:
        leader.engine.cluster.batch.changes.request_inserts.append(row)
    await leader.committed()
    return answer
