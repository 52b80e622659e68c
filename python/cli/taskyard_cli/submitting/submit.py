"""`submit`: options in, one task of the contract out."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from taskyard.v1 import tasks_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.output import Output, OutputOption, answer, print_json
from taskyard_cli.repeats import tell_repeated_task
from taskyard_cli.show import json_block, out
from taskyard_cli.submitting.check_view import task_check
from taskyard_cli.submitting.schedule_options import Check
from taskyard_cli.submitting.task_options import PLACE, takes_task
from taskyard_cli.task_view import wait_for_task
from taskyard_cli.values import not_empty, only_alone, only_with, seconds
from taskyard_cli.waiting import told
from taskyard_client import AsyncClient, task_output


@takes_task
def submit(
    submission: pb.TaskSubmission,
    key: Annotated[
        str | None, typer.Option(callback=not_empty, help="Idempotency key: tasks with the same key are one.")
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(
            callback=not_empty,
            rich_help_panel=PLACE,
            help="Id of the one worker that may run it; it waits for that one.",
        ),
    ] = None,
    check: Check = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for its end and print the output.")] = False,
    timeout: Annotated[
        str | None, typer.Option(callback=not_empty, help="With --wait: how long to wait, for example 5m.")
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Submit a task and print its id, or wait for its output.

    For example: taskyard submit shell --param command='echo hi' --wait
    """
    if not wait:
        only_with("--timeout", timeout, "--wait", "limit the task itself with --run-timeout or --total-timeout")
    submission.idempotency_key = key or ""
    if worker:
        submission.placement.worker_id = worker
    if check:
        only_alone("--check", wait, "--wait", "it submits nothing, so there is nothing to wait for")
        found = with_client(address, token, ca, lambda client: _check(client, submission))
        answer(found, output, lambda: task_check(found))
        return
    limit = seconds(timeout, "--timeout")

    async def work(client: AsyncClient) -> None:
        handle = await client.submit_task(submission)
        if key and handle.repeated:
            await tell_repeated_task(client, submission, handle.id)
        if not wait:
            outcome = pb.SubmitOutcome(task_id=handle.id, repeated_request=handle.repeated)
            answer(outcome, output, lambda: Text(handle.id))
            return
        with told("task", handle.id, before=bool(key) and handle.repeated):
            ended = await wait_for_task(client, handle.id, limit)
        _show(ended, output)

    with_client(address, token, ca, work)


async def _check(client: AsyncClient, submission: pb.TaskSubmission) -> pb.TaskCheck:
    [(found, error)] = await client.check_tasks([submission])
    if found is None:
        raise error or AssertionError("neither a check nor an error")
    return found


def _show(ended: pb.TaskInstance, output: Output) -> None:
    if output is Output.JSON:
        print_json(ended)
    task_output(ended)
    if output is Output.TABLE:
        out().print(Text(json_block(ended.output_json) or "(no output)"))
