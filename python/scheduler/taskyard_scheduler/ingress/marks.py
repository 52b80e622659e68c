"""What people say by hand of how a task has ended, and what comes from outside: outputs, ends, tokens. Not reasons."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import SKIPPED, SUCCESS
from taskyard_core.violations import InvalidInput, Violation
from taskyard_scheduler.ingress import json_text
from taskyard_scheduler.ingress.results import ERROR_BYTES, OUTPUT_BYTES, shown

_STATES: Final[dict[int, int]] = {pb.MARKED_AS_SUCCESS: SUCCESS, pb.MARKED_AS_SKIPPED: SKIPPED}
_COMPLETING: Final = (pb.TASK_STATUS_SUCCESS, pb.TASK_STATUS_FAILED)


def read_mark(marked_as: int, output_json: str) -> int:
    """Returns the state that a mark gives.

    Raises:
        InvalidInput: There is none, or the output is no JSON, too large, or of a step that is skipped.
    """
    state = _STATES.get(marked_as)
    if state is None:
        raise InvalidInput([Violation("marked_as", f"{marked_as} says nothing; choose SUCCESS or SKIPPED")])
    if state == SKIPPED and output_json:
        said = "what is skipped has no output; leave it out, or mark the task as SUCCESS"
        raise InvalidInput([Violation("output_json", said)])
    check_output(output_json)
    return state


def check_output(output_json: str) -> None:
    """Checks an output that a person, or a program outside, gives.

    Raises:
        InvalidInput: It is no JSON, or too large.
    """
    if json_text.exceeds(output_json, OUTPUT_BYTES):
        size = json_text.size(output_json)
        said = f"{size:,} bytes are more than {OUTPUT_BYTES:,}: store it elsewhere and give a reference to it"
        raise InvalidInput([Violation("output_json", said)])
    if not output_json:
        return
    try:
        json_text.parse(output_json)
    except json_text.NotJson as error:
        raise InvalidInput([Violation("output_json", str(error))]) from None


def read_completion(request: pb.CompleteTaskRequest) -> tuple[str, str, str]:
    """Returns the task's id and the attempt's token, and the error message as it is kept.

    Raises:
        InvalidInput: The token is none, or the result is no result.
    """
    task_id, dot, token = request.token.partition(".")
    if not (task_id and dot and token):
        said = "it is no token of an attempt; give the whole text that the handler's `completion_token` was"
        raise InvalidInput([Violation("token", said)])
    if request.status not in _COMPLETING:
        said = f"{pb.TaskStatus.Name(request.status) if request.status in pb.TaskStatus.values() else request.status}"
        raise InvalidInput([Violation("status", f"{said} is no end that comes from outside; choose SUCCESS or FAILED")])
    check_output(request.output_json)
    return task_id, token, shown(request.error_message, ERROR_BYTES)
