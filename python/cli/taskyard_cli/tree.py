"""Puts the commands together. What each does is in its own module."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from taskyard_cli.exits import HELP
from taskyard_cli.guard import GuardedGroup
from taskyard_cli.service_commands import PASS_ON

SERVE, WORK, LOOK = "Run Taskyard", "Give it work", "Look"

_COMMANDS = {
    "dev": (SERVE, "dev.command:dev"),
    "demo": (SERVE, "demo.command:demo"),
    "scheduler": (SERVE, "service_commands:scheduler"),
    "worker": (SERVE, "service_commands:worker"),
    "token": (SERVE, "token_command:token"),
    "submit": (WORK, "submitting.submit:submit"),
    "workflow": (WORK, ""),
    "import": (WORK, ""),
    "variable": (WORK, ""),
    "artifacts": (WORK, ""),
    "run": (WORK, "run_commands:run"),
    "cancel": (WORK, "hands.stopping:cancel"),
    "terminate": (WORK, "hands.stopping:terminate"),
    "retry": (WORK, "hands.stopping:retry"),
    "requeue": (WORK, "hands.stopping:requeue"),
    "prioritize": (WORK, "hands.stopping:prioritize"),
    "mark": (WORK, ""),
    "complete": (WORK, "hands.completing:complete"),
    "broadcast": (WORK, "submitting.broadcast:broadcast"),
    "pause": (WORK, "hands.pausing:pause"),
    "resume": (WORK, "hands.pausing:resume"),
    "top": (LOOK, "top.command:top"),
    "tasks": (LOOK, "task_commands:list_tasks"),
    "task": (LOOK, ""),
    "runs": (LOOK, ""),
    "logs": (LOOK, "task_commands:logs"),
    "explain": (LOOK, "task_commands:explain"),
    "workers": (LOOK, ""),
    "queues": (LOOK, "fleet_commands:queues"),
    "pauses": (LOOK, "hands.pausing:pauses"),
    "status": (LOOK, "fleet_commands:status"),
}
"""By name, in the order of the help: the panel, and the function in its module; empty: a group of commands."""


def build(first: str = "") -> typer.Typer:
    """Returns the command.

    Args:
        first: The first word of the command line. When it names a command, only that one is loaded: all of them take
            several times as long. Otherwise all are there, for the help and for suggestions.
    """
    app = typer.Typer(
        cls=GuardedGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=HELP,
        help="Taskyard: schedule work across workers. `taskyard dev` starts everything here.",
    )
    app.callback()(_top)
    for name in [first] if first in _COMMANDS else _COMMANDS:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    panel, place = _COMMANDS[name]
    if name in _GROUPS:
        app.add_typer(_GROUPS[name](), name=name, rich_help_panel=panel)
        return
    module, _, function = place.partition(":")
    settings = PASS_ON if name in ("scheduler", "worker") else None
    command = getattr(import_module(f"taskyard_cli.{module}"), function)
    app.command(name, rich_help_panel=panel, context_settings=settings)(command)


def _workflow() -> typer.Typer:
    from taskyard_cli.workflows import (
        commands as workflow_commands,  # here, since a group is loaded when it is asked for
    )

    group = typer.Typer(no_args_is_help=True, help="Store and show workflows.")
    group.command("apply")(workflow_commands.apply)
    group.command("plan")(workflow_commands.plan)
    group.command("show")(workflow_commands.show)
    group.command("list")(workflow_commands.list_workflows)
    group.command("delete")(workflow_commands.delete)
    group.command("schema")(workflow_commands.schema)
    return group


def _import() -> typer.Typer:
    from taskyard_cli.importing import command  # here, since a group is loaded when it is asked for

    group = typer.Typer(no_args_is_help=True, help="Make workflows of what other systems have recorded.")
    group.callback()(_import_group)
    group.command("wfformat")(command.wfformat)
    return group


def _import_group() -> None:
    """Make workflows of what other systems have recorded."""


def _variable() -> typer.Typer:
    from taskyard_cli import variable_commands  # here, since a group is loaded when it is asked for

    group = typer.Typer(no_args_is_help=True, help="Set and show the values that workflows share.")
    group.command("set")(variable_commands.set_variable)
    group.command("get")(variable_commands.get_variable)
    group.command("list")(variable_commands.list_variables)
    group.command("delete")(variable_commands.delete_variable)
    return group


def _artifacts() -> typer.Typer:
    from taskyard_cli import artifact_commands  # here, since a group is loaded when it is asked for

    group = typer.Typer(no_args_is_help=True, help="Store and fetch bytes that are too large for inputs and outputs.")
    group.command("list")(artifact_commands.list_artifacts)
    group.command("show")(artifact_commands.show_artifact)
    group.command("get")(artifact_commands.get_artifact)
    group.command("put")(artifact_commands.put_artifact)
    group.command("delete")(artifact_commands.delete_artifacts)
    return group


def _mark() -> typer.Typer:
    from taskyard_cli.hands import marking  # here, since a group is loaded when it is asked for

    group = typer.Typer(no_args_is_help=True, help="Say how tasks, or a step of a run, have ended.")
    group.command("success")(marking.success)
    group.command("skipped")(marking.skipped)
    return group


def _task() -> typer.Typer:
    from taskyard_cli import task_commands  # here, since a group is loaded when it is asked for

    group = typer.Typer(no_args_is_help=True, help="Show one task.")
    group.callback()(_task_group)
    group.command("show")(task_commands.show_task)
    return group


def _task_group() -> None:
    """Show one task."""


def _runs() -> typer.Typer:
    from taskyard_cli import run_commands  # here, since a group is loaded when it is asked for
    from taskyard_cli.hands import stopping

    group = typer.Typer(invoke_without_command=True)
    group.callback()(run_commands.list_runs)
    group.command("show")(run_commands.show_run)
    group.command("retry")(stopping.retry_run)
    return group


def _workers() -> typer.Typer:
    from taskyard_cli import fleet_commands  # here, since a group is loaded when it is asked for

    group = typer.Typer(invoke_without_command=True)
    group.callback()(fleet_commands.workers)
    group.command("drain")(fleet_commands.drain)
    group.command("forget")(fleet_commands.forget)
    return group


_GROUPS = {
    "workflow": _workflow,
    "import": _import,
    "variable": _variable,
    "artifacts": _artifacts,
    "mark": _mark,
    "task": _task,
    "runs": _runs,
    "workers": _workers,
}


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as installed_version  # here, since nothing else needs it

        typer.echo(f"taskyard {installed_version('taskyard')}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Nothing is done here: what is common to all commands is in guard.py."""
