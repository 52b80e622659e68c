"""What can go wrong between a program and Taskyard: one tree, each message a sentence with a way out.

Not for how often a call is repeated (calls.py); only for what is said in the end.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from taskyard.v1.tasks_pb2 import TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import Run, RunState


@dataclass(frozen=True, slots=True)
class Violation:
    """One field that breaks its rule.

    Attributes:
        field: Path of the field in what was sent, for example `priority` or `steps.join.input.text`.
        description: A sentence: the value, the rule, the way out.
    """

    field: str
    description: str


_JSON_FIELD = re.compile(r"\b(inputs?|output|default)_json\b")


class TaskyardError(Exception):
    """Root of everything that this package raises on purpose.

    Attributes:
        message: A sentence for people.
        reason: Machine-readable, UPPER_SNAKE; empty when the other side gave none.
        facts: What the other side said beside the sentence, for example the id of the task.
        method: The call that failed, for example `TaskService.GetTask`; empty when none did.
        attempts: How often it was tried.
    """

    names_method: ClassVar[bool] = False
    """Whether the text ends with the call and the tries: where no answer came, not where the answer is the text."""

    def __init__(self, message: str, *, reason: str = "", facts: Mapping[str, str] | None = None) -> None:
        self.message = message
        self.reason = reason
        self.facts: dict[str, str] = dict(facts or {})
        self.method = ""
        self.attempts = 1
        super().__init__(message)

    def __str__(self) -> str:
        if not (self.method and self.names_method):
            return self.message
        tries = f", tried {self.attempts} times" if self.attempts > 1 else ""
        return f"{self.message} [{self.method}{tries}]"


class InvalidInput(TaskyardError):
    """Something that was sent breaks a rule; `violations` says which fields and how to mend them."""

    def __init__(
        self,
        message: str,
        violations: Sequence[Violation] = (),
        *,
        reason: str = "INVALID_INPUT",
        facts: Mapping[str, str] | None = None,
    ) -> None:
        self.violations = list(violations)
        shown = "; ".join(f"{_spoken(each.field)}: {each.description.rstrip('.')}" for each in self.violations[:3])
        more = len(self.violations) - 3
        super().__init__((shown or message) + (f" (and {more} more)" if more > 0 else ""), reason=reason, facts=facts)


def _spoken(field: str) -> str:
    """Returns a field by the name that people give it: that it travels as JSON is not their business."""
    return _JSON_FIELD.sub(r"\1", field)


class RequestIdReused(InvalidInput):
    """The request id was used within 24 hours with other content; take a new id for other content."""


class NotFound(TaskyardError):
    """There is nothing of that name or id, or it is another tenant's."""


class AlreadyExists(TaskyardError):
    """The name is taken."""


class WrongState(TaskyardError):
    """The task or run is in a state in which this cannot be done."""


class AlreadyEnded(WrongState):
    """The task or run has ended; there is nothing left to cancel."""


class Gone(TaskyardError):
    """What was asked for has been removed by retention."""


class PermissionDenied(TaskyardError):
    """The token's role may not do this; ask for a token with a higher role."""


class Unauthenticated(TaskyardError):
    """The token is missing, expired or not signed with the scheduler's secret; `taskyard token` makes one."""


class Unavailable(TaskyardError):
    """The scheduler could not be reached or cannot answer now."""

    names_method = True


class Overloaded(TaskyardError):
    """The cluster takes no more work now.

    Attributes:
        retry_after: Seconds after which another try makes sense; None when the scheduler did not say.
    """

    names_method = True

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        facts: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, facts=facts)
        self.retry_after = retry_after


class DeadlineExceeded(TaskyardError):
    """No answer, or no end of a task or run, within the time given."""

    names_method = True


class ServerError(TaskyardError):
    """The scheduler failed in a way that it should not; its log says more."""

    names_method = True


class ClientClosed(TaskyardError):
    """The client was closed while this was under way."""


class TaskFailed(TaskyardError):
    """The task has ended, and not well.

    Attributes:
        task: How it ended.
    """

    def __init__(self, task: TaskInstance) -> None:
        self.task = task
        status = TaskStatus.Name(task.status).removeprefix("TASK_STATUS_")
        why = f" ({task.error.kind}): {task.error.message}" if task.HasField("error") else ""
        following = f"`taskyard logs {task.task_id}` shows what it wrote"
        if not task.attempt:  # its log is empty; what it waited for in vain is a matter of the workers
            late = task.status == TaskStatus.TASK_STATUS_TIMEOUT
            following = "it never ran" + ("; `taskyard workers` shows who is there and what they run" if late else "")
        super().__init__(f"task {task.task_id} ended {status}{why}; {following}", reason=task.error.kind or status)


class RunFailed(TaskyardError):
    """The run has ended, and not well.

    Attributes:
        run: How it ended.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        state = RunState.Name(run.state).removeprefix("RUN_STATE_")
        why = f": {run.error_message}" if run.error_message else ""
        super().__init__(
            f"run {run.run_id} of `{run.workflow}` ended {state}{why}; "
            f"`taskyard runs show {run.run_id}` shows its steps",
            reason=state,
        )


CLOSED_MEANWHILE = "the client was closed while this was under way; it may have arrived"
"""What ClientClosed says to those whose calls it ended."""


def own_copy(error: Exception) -> Exception:
    """Returns a copy for one of several callers: a shared one would gather all their tracebacks."""
    copied = copy.copy(error)
    copied.__cause__ = None if isinstance(error, TaskyardError) else error  # ours says all that the first says
    copied.__suppress_context__ = True
    return copied
