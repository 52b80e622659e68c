"""`workers`, `workers drain`, `workers forget`, `queues`, `status`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from taskyard.v1 import fleet_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.resources import asked_for, in_use
from taskyard_cli.several import told_each
from taskyard_cli.show import facts, pause_word, state, table, when, worker_word
from taskyard_cli.values import not_empty, refuse_options_before
from taskyard_client import AsyncClient

Filter = Annotated[
    str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression: docs/filters.md.")
]
Ids = Annotated[list[str], typer.Argument(callback=not_empty, help="Ids of workers.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]


def workers(
    ctx: typer.Context,
    filter_: Filter = None,
    limit: Limit = 1_000,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List workers. TASKS and RESOURCES say what is in use of what is offered."""
    if ctx.invoked_subcommand is not None:
        refuse_options_before(ctx, ctx.invoked_subcommand)
        return

    async def work(client: AsyncClient) -> pb.ListWorkersResponse:
        found = [each async for each in client.workers(filter=filter_ or "", limit=limit)]
        return pb.ListWorkersResponse(workers=found)

    page = with_client(address, token, ca, work)
    columns = ("ID", "STATE", "TASKS", "RESOURCES", "TYPES", "LABELS", "HOST", "LAST SEEN")
    rows = (_worker_row(each) for each in page.workers)
    answer(page, output, lambda: table(columns, rows, empty="no workers; `taskyard worker` starts one"))


def drain(
    ids: Ids,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Have workers take no new tasks and stop. What outlasts a worker's grace (10 s) runs again elsewhere."""

    async def one(client: AsyncClient, worker_id: str) -> str:
        active = await client.drain_worker(worker_id)
        left = f"drains, {active:,} task{'' if active == 1 else 's'} left"
        return left + (": what outlasts the worker's grace runs again elsewhere" if active else "")

    with_client(address, token, ca, lambda client: told_each(client, ids, one))


def forget(
    ids: Ids,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Forget workers that are gone for good; what they held is over and runs again elsewhere, or fails."""

    async def one(client: AsyncClient, worker_id: str) -> str:
        lost = await client.forget_worker(worker_id)
        return f"is forgotten, {lost:,} task{'' if lost == 1 else 's'} taken from it"

    with_client(address, token, ca, lambda client: told_each(client, ids, one))


def _worker_row(each: pb.Worker) -> tuple[Any, ...]:
    labels = ",".join(f"{name}={value}" for name, value in sorted(each.labels.items()))
    tasks = f"{each.active_tasks}/{each.max_concurrency}"
    resources = in_use(each.resources_in_use, each.resources)
    host = f"{each.host}:{each.port}" if each.port else each.host
    word = state(worker_word(each.state))
    types = ",".join(each.capabilities)
    return each.worker_id, word, tasks, resources, types, labels, host, when(each.last_seen_time)


def queues(
    filter_: Filter = None,
    limit: Limit = 1_000,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List the queues in which something waits for a worker.

    HELD counts what is held back with its workflow or run; PAUSED names what holds the queue back, or these.
    """

    async def work(client: AsyncClient) -> pb.ListQueuesResponse:
        found = [each async for each in client.queues(filter=filter_ or "", limit=limit)]
        return pb.ListQueuesResponse(queues=found)

    page = with_client(address, token, ca, work)
    columns = ("QUEUE", "TYPE", "WAITING", "HELD", "PAUSED", "SINCE", "SELECTOR", "WORKER", "RESOURCES", "DEADLINES")
    rows = (
        (
            each.name,
            each.task_type,
            each.waiting,
            each.held,
            _paused(each),
            when(each.head_time),
            each.selector,
            each.worker_id,
            asked_for(each.resources),
            "yes" if each.deadlines else "",
        )
        for each in page.queues
    )
    answer(page, output, lambda: table(columns, rows, empty="nothing waits"))


def _paused(each: pb.Queue) -> str:
    pauses = [*([each.pause] if each.HasField("pause") else []), *each.held_by]
    return "; ".join(pause_word(pause) + (f": {pause.reason}" if pause.reason else "") for pause in pauses)


def status(
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Tell who leads and how much is going on."""
    found = with_client(address, token, ca, lambda client: client.cluster_status())
    answer(
        found,
        output,
        lambda: facts(
            [
                ("scheduler", f"{found.scheduler_id}, version {found.version}"),
                ("leads", f"term {found.term}, since {when(found.leader_since_time)}"),
                ("database", found.database),
                ("workers", f"{found.workers_healthy} healthy of {found.workers_known} known"),
                (
                    "tasks",
                    f"{found.tasks_live:,} live: {found.tasks_queued:,} queued, {found.tasks_in_flight:,} with workers",
                ),
                ("tasks ended in this term", _counts(dict(found.tasks_ended))),
                ("runs", f"{found.runs_live:,} live"),
                ("runs ended in this term", _counts(dict(found.runs_ended))),
            ]
        ),
    )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
