"""The `taskyard` command: puts the commands together. What each does is in its own module."""

from __future__ import annotations

import os
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from taskyard_cli import (
    fleet_commands,
    run_commands,
    service_commands,
    task_commands,
    token_command,
    workflow_commands,
)
from taskyard_cli.demo.command import demo
from taskyard_cli.dev.command import dev
from taskyard_cli.exits import HELP
from taskyard_cli.guard import GuardedGroup

SERVE, WORK, LOOK = "Run Taskyard", "Give it work", "Look"


def build() -> typer.Typer:
    """Returns the whole command."""
    app = typer.Typer(
        cls=GuardedGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=HELP,
        help="Taskyard: schedule work across workers. `taskyard dev` starts everything here.",
    )
    app.callback()(_top)
    app.command("dev", rich_help_panel=SERVE)(dev)
    app.command("demo", rich_help_panel=SERVE)(demo)
    app.command("scheduler", rich_help_panel=SERVE, context_settings=service_commands.PASS_ON)(
        service_commands.scheduler
    )
    app.command("worker", rich_help_panel=SERVE, context_settings=service_commands.PASS_ON)(service_commands.worker)
    app.command("token", rich_help_panel=SERVE)(token_command.token)
    app.command("submit", rich_help_panel=WORK)(task_commands.submit)
    app.add_typer(_workflow(), name="workflow", rich_help_panel=WORK)
    app.command("run", rich_help_panel=WORK)(run_commands.run)
    app.command("cancel", rich_help_panel=WORK)(task_commands.cancel)
    app.command("retry", rich_help_panel=WORK)(task_commands.retry)
    app.command("tasks", rich_help_panel=LOOK)(task_commands.list_tasks)
    app.add_typer(_task(), name="task", rich_help_panel=LOOK)
    app.add_typer(_runs(), name="runs", rich_help_panel=LOOK)
    app.command("logs", rich_help_panel=LOOK)(task_commands.logs)
    app.command("explain", rich_help_panel=LOOK)(task_commands.explain)
    app.command("workers", rich_help_panel=LOOK)(fleet_commands.workers)
    app.command("queues", rich_help_panel=LOOK)(fleet_commands.queues)
    app.command("status", rich_help_panel=LOOK)(fleet_commands.status)
    return app


def _workflow() -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help="Store and show workflows.")
    group.command("apply")(workflow_commands.apply)
    group.command("show")(workflow_commands.show)
    group.command("list")(workflow_commands.list_workflows)
    group.command("schema")(workflow_commands.schema)
    return group


def _task() -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help="Show one task.")
    group.callback()(_task_group)
    group.command("show")(task_commands.show_task)
    return group


def _task_group() -> None:
    """Show one task."""


def _runs() -> typer.Typer:
    group = typer.Typer(invoke_without_command=True)
    group.callback()(run_commands.list_runs)
    group.command("show")(run_commands.show_run)
    return group


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"taskyard {installed_version('taskyard')}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Nothing is done here: what is common to all commands is in guard.py."""


def main() -> None:
    """Runs the command and ends the process with its exit code."""
    # gRPC tells people of lost connections in its own words; ours say it better.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    build()()
