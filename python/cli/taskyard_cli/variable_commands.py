"""`variable set`, `variable get`, `variable list`, `variable delete`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.show import facts, harmless, out, table, when
from taskyard_cli.values import not_empty, typed
from taskyard_client import AsyncClient

Name = Annotated[str, typer.Argument(callback=not_empty, help="The variable's name.", show_default=False)]


def set_variable(
    name: Name,
    value: Annotated[
        str,
        typer.Argument(
            callback=not_empty,
            help='JSON where it is JSON (5, true, [1], "5"; \'""\' for an empty text), else text.',
            show_default=False,
        ),
    ],
    description: Annotated[str | None, typer.Option(callback=not_empty, help="For people.")] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Set a variable, which workflows read as ${vars.NAME}; runs that exist keep the old value."""
    given = typed(value)
    stored = with_client(address, token, ca, lambda client: client.set_variable(name, given, description or ""))
    answer(stored, output, lambda: Text(f"{harmless(stored.name)} = {harmless(stored.value_json)}"))


def get_variable(
    name: Name,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show a variable."""
    found = with_client(address, token, ca, lambda client: client.get_variable(name))
    pairs = [("variable", found.name), ("value", found.value_json), ("description", found.description)]
    answer(found, output, lambda: facts([*pairs, ("set", when(found.update_time))]))


def list_variables(
    filter_: Annotated[
        str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression: docs/filters.md.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 1_000,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List variables by name."""

    async def work(client: AsyncClient) -> pb.ListVariablesResponse:
        found = [each async for each in client.list_variables(filter=filter_ or "", limit=limit)]
        return pb.ListVariablesResponse(variables=found)

    page = with_client(address, token, ca, work)
    rows = ((each.name, each.value_json, when(each.update_time), each.description) for each in page.variables)
    columns = ("NAME", "VALUE", "SET", "DESCRIPTION")
    answer(page, output, lambda: table(columns, rows, empty="no variables; `taskyard variable set` makes one"))


def delete_variable(
    name: Name,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Delete a variable; starts of workflows that read it are refused from then on."""
    with_client(address, token, ca, lambda client: client.delete_variable(name))
    out().print(Text(f"{harmless(name)} deleted"))
