"""The same for each of several things: all are done, each is reported, and the exit code is that of the worst."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import typer
from rich.text import Text

from taskyard_cli.exits import Exit, exit_of
from taskyard_cli.guard import tell
from taskyard_cli.show import out
from taskyard_client import AsyncClient

_IN_VAIN = frozenset({Exit.NOT_REACHABLE, Exit.NOT_ALLOWED})
"""What is so for the others too: trying them one after another would only take long."""


async def each_of(names: Sequence[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Does `work` for each; what goes wrong with one is said on stderr and does not keep the others from it.

    Args:
        names: What people gave: ids, files.
        work: Does it and reports it.

    Raises:
        Exception: There is one name alone, and this went wrong with it.
        typer.Exit: Something went wrong with one of several; the code is the highest.
    """
    if len(names) == 1:
        await work(names[0])
        return
    worst = Exit.OK
    for at, name in enumerate(names):
        try:
            await work(name)
        except Exception as error:
            worst = max(worst, tell(error, about=name))
            if exit_of(error) in _IN_VAIN and (left := names[at + 1 :]):
                typer.echo(f"not tried: {' '.join(left)}", err=True)
                break
    if worst:
        raise typer.Exit(worst)


Act = Callable[[AsyncClient, str], Awaitable[str]]
"""Does something to one that is named by its id, and returns how it stands then, in words."""


async def told_each(client: AsyncClient, ids: Sequence[str], act: Act) -> None:
    """Does `act` for each, as `each_of` does, and prints of each what it returned."""

    async def one(some_id: str) -> None:
        out().print(Text(f"{some_id} {await act(client, some_id)}"))

    await each_of(ids, one)


def all_of(names: Sequence[str], check: Callable[[str], object]) -> None:
    """Checks each, and says of all what is wrong before the first is used.

    Raises:
        Exception: It is wrong with one, which is the only one.
        typer.Exit: Several names were given and one of them is wrong; the code is the highest.
    """
    if len(names) == 1:
        check(names[0])
        return
    worst = Exit.OK
    for name in names:
        try:
            check(name)
        except Exception as error:
            worst = max(worst, tell(error, about=name))
    if worst:
        raise typer.Exit(worst)
