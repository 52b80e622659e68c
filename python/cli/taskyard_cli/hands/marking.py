"""`mark success`, `mark skipped`: a person says how tasks, or a step of a run, have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from taskyard.v1.tasks_pb2 import BulkAction, BulkTaskOutcome, MarkedAs, TaskStatus
from taskyard.v1.workflows_pb2 import MarkStepResponse
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.hands.bulk import Filter, Wanted, Yes, act_on_all, ids_or_filter
from taskyard_cli.hands.stopping import Reason
from taskyard_cli.mistaken import meant_as_run, meant_as_task
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.several import each_of
from taskyard_cli.show import run_word, status_word
from taskyard_cli.values import json_value, not_empty, only_alone
from taskyard_client import AsyncClient

Ids = Annotated[
    list[str] | None,
    typer.Argument(callback=not_empty, help="Ids of tasks; with --step the id of a run.", show_default=False),
]
Step = Annotated[
    str | None, typer.Option(callback=not_empty, help="This step of the run, also one that has not begun.")
]


@dataclass(frozen=True, slots=True)
class Said:
    """How something has ended. `result`: what it is to have returned; None for nothing."""

    marked_as: MarkedAs.ValueType
    action: BulkAction.ValueType
    word: str
    reason: str
    result: Any = None


def success(
    ids: Ids = None,
    step: Step = None,
    result: Annotated[
        str | None, typer.Option("--result", help="Its output, as JSON, which later steps read; @FILE, @- reads it.")
    ] = None,
    reason: Reason = "",
    filter_: Filter = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Say that tasks, or a step of a run, have ended well; the run goes on from there.

    What a worker has is told to stop first. For example: taskyard mark success ID --result '{"rows": 12}'
    """
    if filter_:
        only_alone("--filter", result is not None, "--result", "all that match would have returned the same")
    value = json_value(result, "--result") if result is not None else None
    said = Said(MarkedAs.MARKED_AS_SUCCESS, BulkAction.BULK_ACTION_MARK_SUCCESS, "SUCCESS", reason, value)
    _mark(ids, step, said, filter_, yes=yes, output=output, address=address, token=token, ca=ca)


def skipped(
    ids: Ids = None,
    step: Step = None,
    reason: Reason = "",
    filter_: Filter = None,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Say that tasks, or a step of a run, are passed over, as `mark success` says that they ended well."""
    said = Said(MarkedAs.MARKED_AS_SKIPPED, BulkAction.BULK_ACTION_MARK_SKIPPED, "SKIPPED", reason)
    _mark(ids, step, said, filter_, yes=yes, output=output, address=address, token=token, ca=ca)


def _mark(
    ids: list[str] | None,
    step: str | None,
    said: Said,
    filter_: str | None,
    *,
    yes: bool,
    output: Output,
    address: str | None,
    token: str | None,
    ca: str | None,
) -> None:
    ids_or_filter(ids, filter_, runs=False, yes=yes)
    if filter_:
        only_alone("--filter", step is not None, "--step", "tasks match a filter, not runs")
        only_alone("--filter", output is Output.JSON, "--output json", "what becomes of all is told in words")
        wanted = Wanted("mark", said.action, filter_, reason=said.reason, ending=f" as {said.word}")
        act_on_all(wanted, yes=yes, address=address, token=token, ca=ca)
        return
    named = ids or []
    if step is not None:
        if len(named) > 1:
            raise CliError(f"--step is of one run, and {len(named)} ids are given: name one run", Exit.USAGE)
        with_client(address, token, ca, lambda client: _mark_step(client, named[0], step, said, output))
        return
    with_client(address, token, ca, lambda client: _mark_tasks(client, named, said, output))


async def _mark_tasks(client: AsyncClient, ids: list[str], said: Said, output: Output) -> None:
    async def one(task_id: str) -> None:
        async with meant_as_task(client, task_id):
            status = await client.mark_task(task_id, said.marked_as, output=said.result, reason=said.reason)
        outcome = BulkTaskOutcome(task_id=task_id, status=status)
        answer(outcome, output, lambda: Text(f"{task_id} {_word(status, said)}"), line=True)

    await each_of(ids, one)


async def _mark_step(client: AsyncClient, run_id: str, step: str, said: Said, output: Output) -> None:
    async with meant_as_run(client, run_id):
        found = await client.mark_step(run_id, step, said.marked_as, output=said.result, reason=said.reason)
    answer(found, output, lambda: Text(_step_line(run_id, step, found, said)))


def _step_line(run_id: str, step: str, found: MarkStepResponse, said: Said) -> str:
    return f"{run_id} step {step} {_word(found.status, said)}, its run is {run_word(found.state)}"


def _word(status: TaskStatus.ValueType, said: Said) -> str:
    word = status_word(status)
    return f"{word} until its worker has stopped it, then {said.word}" if word == "CANCELLING" else word
