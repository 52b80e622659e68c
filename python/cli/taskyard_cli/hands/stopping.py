"""`cancel`, `terminate`, `retry`, `requeue`, `prioritize`, `runs retry`: what a person does by hand."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import workflows_pb2
from taskyard.v1.tasks_pb2 import BulkAction
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.hands.bulk import Filter, Runs, Wanted, Yes, act_on_all, ids_or_filter
from taskyard_cli.mistaken import meant_as_run, meant_as_task
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.several import Act, told_each
from taskyard_cli.show import run_word, status_word
from taskyard_cli.values import not_empty, only_alone
from taskyard_client import AsyncClient, NotFound

TaskIds = Annotated[list[str] | None, typer.Argument(callback=not_empty, help="Ids of tasks.", show_default=False)]
Reason = Annotated[str, typer.Option(help="For people; kept with it.")]
AnyIds = Annotated[
    list[str] | None, typer.Argument(callback=not_empty, help="Ids of tasks or runs.", show_default=False)
]


def cancel(
    ids: AnyIds = None,
    reason: Reason = "",
    filter_: Filter = None,
    runs: Runs = False,
    yes: Yes = False,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Cancel tasks or runs: all of them, also when one cannot be; the exit code is that of the worst."""
    wanted = Wanted("cancel", BulkAction.BULK_ACTION_CANCEL, filter_ or "", runs, reason)
    _act(ids, wanted, _stop(reason, terminate=False), yes=yes, address=address, token=token, ca=ca)


def terminate(
    ids: AnyIds = None,
    reason: Reason = "",
    filter_: Filter = None,
    runs: Runs = False,
    yes: Yes = False,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Stop tasks or runs without grace and without waiting for their workers (but for exclusive ones)."""
    wanted = Wanted("terminate", BulkAction.BULK_ACTION_TERMINATE, filter_ or "", runs, reason)
    _act(ids, wanted, _stop(reason, terminate=True), yes=yes, address=address, token=token, ca=ca)


def _stop(reason: str, *, terminate: bool) -> Act:
    async def one(client: AsyncClient, some_id: str) -> str:
        try:
            return status_word(await client.cancel_task(some_id, reason, terminate=terminate))
        except NotFound:
            try:
                return run_word(await client.cancel_run(some_id, reason, terminate=terminate))
            except NotFound:
                raise NotFound(f"there is no task and no run {some_id}; `taskyard tasks` lists tasks") from None

    return one


def retry(
    ids: TaskIds = None,
    filter_: Filter = None,
    yes: Yes = False,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Run ended tasks again, as `cancel` does all of them; a failed step's run goes on from there."""

    async def one(client: AsyncClient, task_id: str) -> str:
        async with meant_as_task(client, task_id, instead="taskyard runs retry"):
            return status_word(await client.retry_task(task_id))

    wanted = Wanted("retry", BulkAction.BULK_ACTION_RETRY, filter_ or "")
    _act(ids, wanted, one, yes=yes, address=address, token=token, ca=ca)


def requeue(
    ids: TaskIds = None,
    filter_: Filter = None,
    yes: Yes = False,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Give tasks back to their queues, from their workers or from a wait; no retry is spent."""

    async def one(client: AsyncClient, task_id: str) -> str:
        async with meant_as_task(client, task_id):
            return status_word(await client.requeue_task(task_id))

    wanted = Wanted("requeue", BulkAction.BULK_ACTION_REQUEUE, filter_ or "")
    _act(ids, wanted, one, yes=yes, address=address, token=token, ca=ca)


def prioritize(
    ids: TaskIds = None,
    *,
    priority: Annotated[int, typer.Option("--priority", "-p", min=1, max=10, help="1 (first) to 10 (last).")],
    filter_: Filter = None,
    yes: Yes = False,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Give tasks another priority, and so another place in their queues."""

    async def one(client: AsyncClient, task_id: str) -> str:
        async with meant_as_task(client, task_id):
            return f"{status_word(await client.prioritize_task(task_id, priority))} priority {priority}"

    wanted = Wanted("prioritize", BulkAction.BULK_ACTION_PRIORITIZE, filter_ or "", priority=priority)
    _act(ids, wanted, one, yes=yes, address=address, token=token, ca=ca)


def _act(
    ids: list[str] | None,
    wanted: Wanted,
    one: Act,
    *,
    yes: bool,
    address: str | None,
    token: str | None,
    ca: str | None,
) -> None:
    """Acts on those that are named, each by `one`, or on all that match the filter of `wanted`."""
    ids_or_filter(ids, wanted.filter, runs=wanted.runs, yes=yes)
    if wanted.filter:
        act_on_all(wanted, yes=yes, address=address, token=token, ca=ca)
        return
    with_client(address, token, ca, lambda client: told_each(client, ids or [], one))


def retry_run(
    run_id: Annotated[str | None, typer.Argument(callback=not_empty, help="The run's id.", show_default=False)] = None,
    from_: Annotated[
        list[str] | None,
        typer.Option("--from", callback=not_empty, help="From this step on, all downstream of it; may be repeated."),
    ] = None,
    filter_: Filter = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Run again what failed in a run, or with --from a step and everything downstream of it."""
    ids_or_filter([run_id] if run_id else None, filter_, runs=False, yes=yes)
    if filter_:
        only_alone("--filter", bool(from_), "--from", "runs that match may be of different workflows")
        wanted = Wanted("retry", BulkAction.BULK_ACTION_RETRY, filter_, runs=True)
        act_on_all(wanted, yes=yes, address=address, token=token, ca=ca)
        return
    some_run = run_id or ""

    async def work(client: AsyncClient) -> workflows_pb2.RetryRunResponse:
        async with meant_as_run(client, some_run):
            return await client.retry_run(some_run, from_ or ())

    found = with_client(address, token, ca, work)
    answer(found, output, lambda: Text(f"{some_run} {run_word(found.state)}, again: {', '.join(found.steps)}"))
