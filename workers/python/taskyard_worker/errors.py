"""Every error of the worker: what handlers raise to say how they failed, and what stops the worker itself.

Not for errors of the connection: those are `taskyard_worker.link.LinkError`.
"""

from __future__ import annotations


class WorkerError(Exception):
    """Something about the worker is wrong; the message says what and the way out."""


class NonRetryable(WorkerError):
    """A handler raises it: the task failed and trying again would not help. The message goes to people."""

    kind = "NON_RETRYABLE"


class InvalidInput(NonRetryable):
    """A handler raises it: the task's input is wrong, so no attempt can succeed. Name the field and the rule."""

    kind = "INVALID_INPUT"


class PermissionDenied(NonRetryable):
    """A handler raises it: what the task needs is not allowed to it, so trying again would not help."""

    kind = "PERMISSION_DENIED"


class OutputTooLarge(NonRetryable):
    """A handler returned, or wanted to store, more than an artifact may have; it should split it."""

    kind = "OUTPUT_TOO_LARGE"


class Retryable(WorkerError):
    """A handler raises it: the task failed and another attempt may help. Its message says all: no traceback."""


class ArtifactsUnavailable(Retryable):
    """An artifact could not be stored or had for now; another attempt may succeed. Let it pass through a handler."""


class TaskStopped(WorkerError):
    """The attempt was told to stop (cancelled, timed out, or the worker stops). Let it pass through a handler."""


class RegistrationError(WorkerError):
    """A handler cannot be registered; the message names it and the rule that it breaks."""


class LoadError(WorkerError):
    """A file or module with handlers cannot be loaded; the message names it and says why."""


class DataDirectoryError(WorkerError):
    """The worker's data directory cannot be used; the message names it and says why."""


class NotAccepted(WorkerError):
    """The scheduler does not want this worker; the message is the scheduler's."""


class SessionSuperseded(WorkerError):
    """Another worker process registered with the same worker id later than this one; this one must stop."""


class Unauthenticated(WorkerError):
    """The scheduler refuses the worker's token; the message says which setting to look at."""
