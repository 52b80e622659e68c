"""`complete`: brings the result of a task whose handler lets it come from outside."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1.tasks_pb2 import BulkTaskOutcome, TaskStatus
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.show import status_word
from taskyard_cli.values import json_value, not_empty, only_alone, only_with
from taskyard_client import AsyncClient

_AGAIN = frozenset({TaskStatus.TASK_STATUS_PENDING, TaskStatus.TASK_STATUS_QUEUED})


def complete(
    completion_token: Annotated[
        str,
        typer.Argument(
            callback=not_empty, help="As the handler gave it out (ctx.completion_token).", show_default=False
        ),
    ],
    result: Annotated[
        str | None, typer.Option("--result", help="What it returns, as JSON; @FILE, @- reads it. Default: nothing.")
    ] = None,
    failed: Annotated[str | None, typer.Option(callback=not_empty, help="It failed instead: why, for people.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            callback=not_empty, help="With --failed: the kind of failure; NON_RETRYABLE: no further attempt follows."
        ),
    ] = None,
    request_id: Annotated[
        str | None, typer.Option(callback=not_empty, help="Makes a repeat with the same id harmless.")
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """End a DEFERRED task from outside: with the result that its handler left to somebody else, or as failed.

    For example: taskyard complete TOKEN --result '{"approved": true}'
    """
    value = json_value(result, "--result") if result is not None else None
    task_id, dot, _ = completion_token.partition(".")
    if not dot:
        raise CliError(
            f"{completion_token!r} is no token: one is the task's id, a dot and the attempt's token, as the handler"
            " gave it out (ctx.completion_token)",
            Exit.USAGE,
        )
    if failed is None:
        only_with("--kind", kind, "--failed")
    else:
        only_alone("--failed", result is not None, "--result", "what failed returns nothing")

    async def work(client: AsyncClient) -> TaskStatus.ValueType:
        if failed is not None:
            return await client.fail_task(completion_token, failed, kind=kind or "", request_id=request_id or "")
        return await client.complete_task(completion_token, value, request_id=request_id or "")

    status = with_client(address, token, ca, work)
    again = " again: another attempt follows, with a token of its own" if status in _AGAIN else ""
    outcome = BulkTaskOutcome(task_id=task_id, status=status)
    answer(outcome, output, lambda: Text(f"{task_id} {status_word(status)}{again}"))
