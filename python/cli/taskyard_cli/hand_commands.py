"""`terminate`, `requeue`, `prioritize`, `runs retry`: what a person does by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import workflows_pb2
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.mistaken import meant_as_run, meant_as_task
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.show import out, run_word, status_word
from taskyard_cli.values import not_empty
from taskyard_client import AsyncClient, NotFound

TaskIds = Annotated[list[str], typer.Argument(callback=not_empty, help="Ids of tasks.", show_default=False)]


def terminate(
    ids: Annotated[list[str], typer.Argument(callback=not_empty, help="Ids of tasks or runs.", show_default=False)],
    reason: Annotated[str, typer.Option(help="For people; kept with it.")] = "",
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Stop tasks or runs without grace and without waiting for their workers (but for exclusive ones)."""

    async def one(client: AsyncClient, some_id: str) -> str:
        try:
            return status_word(await client.cancel_task(some_id, reason, terminate=True))
        except NotFound:
            async with meant_as_run(client, some_id):
                return run_word(await client.cancel_run(some_id, reason, terminate=True))

    with_client(address, token, ca, lambda client: _each(client, ids, one))


def requeue(
    ids: TaskIds,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Give tasks back to their queues, from their workers or from a wait; no retry is spent."""

    async def one(client: AsyncClient, task_id: str) -> str:
        async with meant_as_task(client, task_id):
            return status_word(await client.requeue_task(task_id))

    with_client(address, token, ca, lambda client: _each(client, ids, one))


def prioritize(
    ids: TaskIds,
    priority: Annotated[int, typer.Option("--priority", "-p", min=1, max=10, help="1 (first) to 10 (last).")],
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Give tasks another priority, and so another place in their queues."""

    async def one(client: AsyncClient, task_id: str) -> str:
        async with meant_as_task(client, task_id):
            return f"{status_word(await client.prioritize_task(task_id, priority))} priority {priority}"

    with_client(address, token, ca, lambda client: _each(client, ids, one))


async def _each(client: AsyncClient, ids: list[str], one: Callable[[AsyncClient, str], Awaitable[str]]) -> None:
    for some_id in ids:
        out().print(Text(f"{some_id} {await one(client, some_id)}"))


def retry_run(
    run_id: Annotated[str, typer.Argument(callback=not_empty, help="The run's id.", show_default=False)],
    from_: Annotated[
        list[str] | None,
        typer.Option("--from", callback=not_empty, help="From this step on, all downstream of it; may be repeated."),
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Run again what failed in a run, or with --from a step and everything downstream of it."""

    async def work(client: AsyncClient) -> workflows_pb2.RetryRunResponse:
        async with meant_as_run(client, run_id):
            return await client.retry_run(run_id, from_ or ())

    found = with_client(address, token, ca, work)
    answer(found, output, lambda: Text(f"{run_id} {run_word(found.state)}, again: {', '.join(found.steps)}"))
