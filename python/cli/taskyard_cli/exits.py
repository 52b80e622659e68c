"""Exit codes, the one place where an error becomes a sentence and a number."""

from __future__ import annotations

import errno
from enum import IntEnum

from taskyard_cli import interrupts
from taskyard_cli.problems import BadFile


class Exit(IntEnum):
    """What the command's exit code says. `taskyard --help` has the table."""

    OK = 0
    """Done."""
    FAILED = 1
    """The task or the run failed, or what was started ended badly."""
    USAGE = 2
    """The command line is wrong."""
    REFUSED = 3
    """The input was refused: a file, a value, or what does not fit the state of things."""
    NOT_FOUND = 4
    """There is nothing of that name or id."""
    NOT_REACHABLE = 5
    """The scheduler cannot be reached, or cannot answer now."""
    NOT_ALLOWED = 6
    """The token is missing or bad, or its role may not."""
    TIMED_OUT = 7
    """It had not ended within the time given; it goes on."""
    UNEXPECTED = 70
    """A fault of this program; the details are in the file that is named."""
    NOT_WRITTEN = 74
    """What it prints or keeps cannot be written, on a full disk for example; it says what and why."""
    INTERRUPTED = interrupts.INTERRUPTED
    """Ctrl-C. What runs services (`dev`, `scheduler`, `worker`) stops them in order then, and ends with 0."""


HELP = (
    "Exit codes: 0 done; 1 the task or run failed; 2 wrong command line; 3 input refused; 4 not found; "
    "5 scheduler not reachable; 6 not allowed; 7 timed out waiting; 70 a fault of this program; 74 cannot write; "
    "130 interrupted (services stop in order and end with 0)."
)
"""The same for people, in short."""


CANNOT_WRITE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})
"""What the system says of a disk that takes no more: nothing else makes it say so."""


class CliError(Exception):
    """Something that the command itself finds wrong; its text is the sentence for the person.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


def exit_of(error: Exception) -> Exit | None:
    """Returns the exit code of an error that is meant for people; None for a fault of this program."""
    if isinstance(error, CliError):
        return error.code
    if isinstance(error, OSError) and error.errno in CANNOT_WRITE:
        return Exit.NOT_WRITTEN
    # Here, since only what went wrong needs the client's errors, and gRPC with them takes long to load.
    from taskyard_client import errors

    codes: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Exit], ...] = (
        ((errors.TaskFailed, errors.RunFailed), Exit.FAILED),
        ((BadFile, errors.InvalidInput, errors.WrongState, errors.AlreadyExists), Exit.REFUSED),
        ((errors.NotFound, errors.Gone), Exit.NOT_FOUND),
        ((errors.Unauthenticated, errors.PermissionDenied), Exit.NOT_ALLOWED),
        ((errors.Unavailable, errors.Overloaded, errors.ClientClosed), Exit.NOT_REACHABLE),
        (errors.DeadlineExceeded, Exit.TIMED_OUT),
        (errors.TaskyardError, Exit.UNEXPECTED),
    )
    if isinstance(error, errors.DeadlineExceeded) and error.method:
        return Exit.NOT_REACHABLE  # a call had no answer; no task or run was waited for
    return next((code for kind, code in codes if isinstance(error, kind)), None)
