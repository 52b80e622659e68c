"""`--count` and `--by` of the lists: how many match, in all and by the values of a field."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from taskyard.v1.tasks_pb2 import CountTasksResponse
from taskyard.v1.workflows_pb2 import CountRunsResponse
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.show import table

Count = Annotated[bool, typer.Option("--count", help="Only how many match.")]


def wants_count(ctx: typer.Context, count: bool, by: str | None) -> bool:
    """Tells whether a list is to be counted.

    Raises:
        CliError: It is to be cut as well.
    """
    limit = ctx.get_parameter_source("limit")
    if (count or by) and limit is not None and limit.name == "COMMANDLINE":
        option = "--by" if by else "--count"
        raise CliError(f"{option} counts all that match, and --limit cuts a list; leave one of the two out", Exit.USAGE)
    return count or by is not None


def counted(found: CountTasksResponse | CountRunsResponse, by: str | None) -> Table | Group | Text:
    """Returns the number; with a field its values above it, the most frequent first."""
    if by is None:
        return Text(str(found.count))
    rows = [(group.value or Text("(none)", style="dim"), group.count) for group in found.groups]
    if found.other:
        rows.append((Text("(all others)", style="dim"), found.other))
    shown = table((by.upper(), "COUNT"), rows, empty="")
    return Group(shown, Text(f"{found.count:,} in all")) if rows else Text("0 in all")
