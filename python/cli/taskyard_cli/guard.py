"""Stands around every command: what goes wrong becomes one sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import typer
from typer.core import TyperGroup

from taskyard_cli.exits import Exit, exit_of


class GuardedGroup(TyperGroup):
    """The top of the command tree."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Reads the command line, which prints help and version, under the same guard."""
        with guarded():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command and turns its exceptions into exits."""
        with guarded():
            return super().invoke(ctx)


@contextmanager
def guarded() -> Iterator[None]:
    """Turns exceptions into exits; the command-line parser's own pass through."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        _leave_pipe()
        raise typer.Exit(Exit.OK) from None
    except Exception as error:
        if is_usage(error):
            name_value(error)
            raise
        raise typer.Exit(tell(error)) from None


def is_usage(error: Exception) -> bool:
    """Tells whether an exception is the command-line parser's own, which says and exits by itself."""
    return type(error).__module__.startswith(("typer.", "click.", "typer._click"))


def name_value(error: Exception) -> None:
    """Puts the value that was given into the parser's refusal of it: its library says the rule alone."""
    message, faults = getattr(error, "message", None), getattr(error.__cause__, "errors", None)
    if not isinstance(message, str) or faults is None:
        return
    said = message.removeprefix("Value error, ").replace("Input should be", "it should be")
    given = str(faults()[0]["input"])
    error.message = said if repr(given) in said else f"{given!r}: {said}"  # type: ignore[attr-defined]  # it has one


def tell(raised: Exception, about: str = "") -> Exit:
    """Says on stderr what went wrong and returns the exit code. `about`: with which of several things."""
    error = the_one(raised)
    code = exit_of(error)
    if code is None and isinstance(error, UnicodeEncodeError) and (argument := _not_utf8(sys.argv[1:])):
        code = Exit.USAGE
        message = f"the argument {argument!r} is not UTF-8; write it in UTF-8"
    elif code is None:
        code = Exit.UNEXPECTED
        message = f"{type(error).__name__}: a fault of this program; {_kept(raised)}"
    elif code is Exit.NOT_WRITTEN and isinstance(error, OSError):
        message = _not_written(error)
    else:
        message = str(error)
    if about not in message:
        message = f"{about}: {message}"
    with suppress(OSError):  # nobody can be told; the exit code is left
        typer.echo(f"error: {message}", err=True)
    return code


def the_one(error: Exception) -> Exception:
    """Returns what to tell of several things that went wrong together: the first that is meant for people."""
    if not isinstance(error, ExceptionGroup):
        return error
    found = [the_one(each) for each in error.exceptions]
    return next((each for each in found if exit_of(each) is not None), found[0])


def _not_written(error: OSError) -> str:
    """Returns what could not be written and why. Only what is printed has no name."""
    if error.filename:
        return f"{error.filename} cannot be written: {error.strerror}; make room there and try again"
    with suppress(OSError, ValueError):  # it is nobody's any more, or no file
        _leave_pipe()
    return f"the output cannot be written: {error.strerror}; send it elsewhere, or make room where it goes"


def _not_utf8(arguments: Sequence[str]) -> bytes | None:
    """Returns the first argument that is no text, as the bytes that were given."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            return os.fsencode(argument)
    return None


def _kept(error: Exception) -> str:
    """Returns where the details are; where they cannot be kept, what there is to say in short."""
    try:
        return f"the details are in {_keep(error)}"
    except OSError as full:
        return f"it says {str(error)[:500]!r}, and the details cannot be kept ({full.strerror})"


def _keep(error: Exception) -> str:
    """Writes the traceback to a file that only its owner can read, and returns its name."""
    stamp = datetime.now().astimezone().isoformat(timespec="seconds")
    handle, path = tempfile.mkstemp(prefix="taskyard-error-", suffix=".log")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{stamp} taskyard {' '.join(sys.argv[1:2])}\n")
        file.writelines(traceback.format_exception(error))
    return path


def _leave_pipe() -> None:
    # The reader went (`| head`): without this, Python complains when it closes stdout.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
