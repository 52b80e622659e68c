"""Stands around every command: what goes wrong becomes one sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import typer
from typer.core import TyperGroup

from taskyard_cli.exits import Exit, exit_of


class GuardedGroup(TyperGroup):
    """The top of the command tree."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command and turns its exceptions into exits."""
        try:
            return super().invoke(ctx)
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


def tell(error: Exception) -> Exit:
    """Says on stderr what went wrong and returns the exit code."""
    code = exit_of(error)
    if code is None and isinstance(error, UnicodeEncodeError) and (argument := _not_utf8(sys.argv[1:])):
        code = Exit.USAGE
        message = f"the argument {argument!r} is not UTF-8; write it in UTF-8"
    elif code is None:
        code = Exit.UNEXPECTED
        message = f"{type(error).__name__}: a fault of this program; the details are in {_keep(error)}"
    else:
        message = str(error)
    typer.echo(f"error: {message}", err=True)
    return code


def _not_utf8(arguments: Sequence[str]) -> bytes | None:
    """Returns the first argument that is no text, as the bytes that were given."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            return os.fsencode(argument)
    return None


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
