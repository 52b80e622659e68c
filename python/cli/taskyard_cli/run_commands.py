"""`run`, `runs`, `runs show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from taskyard.v1 import workflows_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.counting import Count, counted, wants_count
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.mistaken import meant_as_run
from taskyard_cli.output import Output, OutputOption, answer, print_json
from taskyard_cli.repeats import tell_repeated_run
from taskyard_cli.run_view import COLUMNS, step_row, wait_for_run
from taskyard_cli.show import facts, json_block, out, pause_word, run_word, state, table, took, when
from taskyard_cli.submitting.check_view import run_check
from taskyard_cli.submitting.schedule_options import At, Check, Delay, Expires, Tags, schedule_of
from taskyard_cli.task_commands import filter_of
from taskyard_cli.values import (
    INT32_MAX,
    json_object,
    not_empty,
    only_alone,
    only_with,
    pairs,
    refuse_options_before,
    seconds,
    typed,
)
from taskyard_cli.waiting import told
from taskyard_client import AsyncClient, new_run, run_output


def run(
    workflow: Annotated[str, typer.Argument(callback=not_empty, help="The workflow's name.", show_default=False)],
    *,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help='name=value, one input: JSON where it is JSON (5, true, [1], "5"), else text; may be repeated. '
            "(In `submit`, -i is the whole input as a JSON object: here that is --inputs.)",
        ),
    ] = None,
    inputs: Annotated[
        str | None, typer.Option("--inputs", help="All inputs as a JSON object; @FILE reads it, @- from stdin.")
    ] = None,
    version: Annotated[int, typer.Option(min=0, max=INT32_MAX, help="Which version; 0: the newest.")] = 0,
    priority: Annotated[
        int | None, typer.Option(min=1, max=10, help="1 (first) to 10 (last); default: the steps'.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(callback=not_empty, help="Idempotency key: runs with the same key are one.")
    ] = None,
    at: At = None,
    delay: Delay = None,
    expires: Expires = None,
    tag: Tags = None,
    check: Check = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show its steps until it has ended.")] = False,
    timeout: Annotated[
        str | None, typer.Option(callback=not_empty, help="With --wait: how long to wait, for example 5m.")
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Start a run of a workflow and print its id, or wait for its output.

    For example: taskyard run nightly --input day=2026-11-29 --wait
    """
    given: dict[str, Any] = json_object(inputs, "--inputs") if inputs is not None else {}
    given |= {name: typed(text) for name, text in pairs(input_ or [], "--input").items()}
    if not wait:
        only_with("--timeout", timeout, "--wait", "limit the steps themselves with `timeouts` in the workflow's file")
    schedule = schedule_of(at, delay, expires, tag)
    if check:
        only_alone("--check", wait, "--wait", "it starts nothing, so there is nothing to wait for")
        wanted = new_run(workflow, given, version=version, priority=priority, **schedule)
        found = with_client(address, token, ca, lambda client: _check(client, wanted))
        answer(found, output, lambda: run_check(found))
        return
    limit = seconds(timeout, "--timeout")

    async def work(client: AsyncClient) -> None:
        handle = await client.start_run(
            workflow, given, version=version, priority=priority, idempotency_key=key or "", **schedule
        )
        if key and handle.repeated:
            await tell_repeated_run(client, key, workflow, version, given, handle.id)
        if not wait:
            outcome = pb.StartOutcome(run_id=handle.id, repeated_request=handle.repeated)
            answer(outcome, output, lambda: Text(handle.id))
            return
        with told("run", handle.id, before=bool(key) and handle.repeated):
            ended = await wait_for_run(client, handle.id, limit)
        if output is Output.JSON:
            print_json(ended)
        run_output(ended)
        if output is Output.TABLE:
            spent = took(ended.create_time, ended.end_time)
            line = f"run {ended.run_id} SUCCEEDED" + (f" in {spent}" if spent else "")
            out().print(Text(json_block(ended.output_json) if ended.output_json else line))
        if ended.error_message:  # its steps succeeded, but what was waited for is not there
            raise CliError(f"run {ended.run_id} SUCCEEDED, and {ended.error_message}", Exit.FAILED)

    with_client(address, token, ca, work)


async def _check(client: AsyncClient, wanted: pb.RunSubmission) -> pb.RunCheck:
    [(found, error)] = await client.check_runs([wanted])
    if found is None:
        raise error or AssertionError("neither a check nor an error")
    return found


def list_runs(
    ctx: typer.Context,
    workflow: Annotated[str | None, typer.Option(callback=not_empty, help="Only runs of this workflow.")] = None,
    run_state: Annotated[
        str | None, typer.Option("--state", "--status", callback=not_empty, help="Only these, for example FAILED.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(callback=not_empty, help="Only with this tag; repeatable.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", callback=not_empty, help="Which, as an expression: docs/filters.md.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, newest first.")] = 50,
    count: Count = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", callback=not_empty, help="How many have each value of a field: state, workflow or version."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List runs, newest first, or count them; `runs show ID` shows one."""
    if ctx.invoked_subcommand is not None:
        refuse_options_before(ctx, ctx.invoked_subcommand)
        return
    wanted = filter_of(filter_, tag, workflow=workflow, state=run_state and run_state.upper())
    if wants_count(ctx, count, by):
        found = with_client(address, token, ca, lambda client: client.count_runs(wanted, by=by or ""))
        answer(found, output, lambda: counted(found, by))
        return

    async def work(client: AsyncClient) -> pb.ListRunsResponse:
        found = [each async for each in client.list_runs(filter=wanted, limit=limit)]
        return pb.ListRunsResponse(runs=found)

    page = with_client(address, token, ca, work)
    columns = ("ID", "WORKFLOW", "VERSION", "STATE", "STEPS", "CREATED", "TOOK")
    answer(page, output, lambda: table(columns, (_run_row(each) for each in page.runs), empty="no runs"))


def _run_row(each: pb.Run) -> tuple[Any, ...]:
    steps = f"{each.steps_ended}/{each.steps_total}"
    spent = took(each.create_time, each.end_time)
    word = state(run_word(each.state))
    if each.HasField("pause"):
        word = Text.assemble(word, ", paused")
    return each.run_id, each.workflow, each.version, word, steps, when(each.create_time), spent


def show_run(
    run_id: Annotated[str, typer.Argument(callback=not_empty, help="The run's id.", show_default=False)],
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show one run with its steps and the ids of their tasks."""

    async def work(client: AsyncClient) -> pb.GetRunResponse:
        async with meant_as_run(client, run_id):
            return await client.get_run(run_id)

    found = with_client(address, token, ca, work)
    answer(found, output, lambda: _run_page(found))


def _paused(each: pb.Run) -> str:
    if not each.HasField("pause"):
        return ""
    pause = each.pause
    by = f" by {pause.paused_by}" if pause.paused_by else ""
    said = f": {pause.reason}" if pause.reason else ""
    return f"{pause_word(pause)}, since {when(pause.create_time)}{by}{said}"


def _run_page(found: pb.GetRunResponse) -> Group:
    each = found.run
    top = facts(
        [
            ("run", each.run_id),
            ("workflow", f"{each.workflow}, version {each.version}"),
            ("state", state(run_word(each.state))),
            ("paused", _paused(each)),
            ("error", each.error_message),
            ("steps", f"{each.steps_ended} of {each.steps_total} have ended"),
            ("created", when(each.create_time)),
            ("due", when(each.schedule_time)),
            ("expires", when(each.expire_time)),
            ("tags", ", ".join(each.tags)),
            ("ended", when(each.end_time)),
            ("took", took(each.create_time, each.end_time)),
            ("inputs", each.inputs_json),
            ("variables", each.variables_json),
            ("output", each.output_json),
        ]
    )
    rows = ((*step_row(step), step.task_id) for step in found.steps)
    return Group(top, Text(), table((*COLUMNS, "TASK ID"), rows, empty="no steps"))
