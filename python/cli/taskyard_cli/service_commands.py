"""`scheduler` and `worker`: run a service in this process. Its arguments and settings are its own."""

from __future__ import annotations

from pathlib import Path

import typer

from taskyard_cli import interrupts
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.services import service_main

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""How a command hands all its arguments on, `--help` too."""


def scheduler(ctx: typer.Context) -> None:
    """Run a scheduler in the foreground."""
    raise typer.Exit(_serve("scheduler", ctx))


def worker(ctx: typer.Context) -> None:
    """Run a worker in the foreground."""
    raise typer.Exit(_serve("worker", ctx))


def _serve(name: str, ctx: typer.Context) -> int:
    with interrupts.kept():
        return service_main(name)(ctx.args)


def tasks_file(name: str) -> str:
    """Returns the absolute path of a file of handlers.

    Raises:
        CliError: There is none, or its path has a comma, which would make two of it.
    """
    path = Path(name)
    if not path.is_file():
        raise CliError(f"there is no file {name} with handlers", Exit.NOT_FOUND)
    found = str(path.resolve())
    if "," in found:
        raise CliError(f"the file of handlers {found} has a comma in its path; give it another name", Exit.USAGE)
    return found
