"""`broadcast`: one task for every worker that would take it now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from taskyard.v1 import tasks_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, OutputOption, answer
from taskyard_cli.show import err, state, status_word, table, took
from taskyard_cli.submitting.task_options import takes_task
from taskyard_cli.values import not_empty, only_with, seconds
from taskyard_client import AsyncClient


@takes_task
def broadcast(
    submission: pb.TaskSubmission,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait until all of them have ended.")] = False,
    timeout: Annotated[
        str | None, typer.Option(callback=not_empty, help="With --wait: how long to wait, for example 5m.")
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Submit a task once for each worker that would take it now: a copy for each, which goes to no other.

    For example: taskyard broadcast shell --param command='df -h /' --selector zone=a --wait
    """
    if not wait:
        only_with("--timeout", timeout, "--wait", "limit the task itself with --run-timeout or --total-timeout")
    limit = seconds(timeout, "--timeout")

    async def work(client: AsyncClient) -> None:
        sent = await client.broadcast_task(submission)
        if not wait:
            answer(sent, output, lambda: _sent(sent))
            return
        for copy in sent.copies:  # said at once: however the wait ends, they can be looked at
            err().print(Text(f"task {copy.task_id} is submitted for worker {copy.worker_id}"))
        ended = await client.wait_tasks([copy.task_id for copy in sent.copies], limit)
        answer(pb.ListTasksResponse(tasks=ended.values()), output, lambda: _ended(sent, ended))
        bad = sum(task.status != pb.TaskStatus.TASK_STATUS_SUCCESS for task in ended.values())
        if bad:
            raise CliError(f"{bad:,} of {len(ended):,} did not succeed", Exit.FAILED)

    with_client(address, token, ca, work)


def _sent(sent: pb.BroadcastTaskResponse) -> Group:
    rows = ((copy.worker_id, copy.task_id) for copy in sent.copies)
    return Group(table(("WORKER", "TASK ID"), rows, empty="no workers"), *_left_out(sent))


def _ended(sent: pb.BroadcastTaskResponse, ended: Mapping[str, pb.TaskInstance]) -> Group:
    rows = (_row(copy.worker_id, ended[copy.task_id]) for copy in sent.copies)
    columns = ("WORKER", "STATUS", "TOOK", "OUTPUT", "TASK ID")
    return Group(table(columns, rows, empty="no workers"), *_left_out(sent))


def _row(worker_id: str, task: pb.TaskInstance) -> tuple[Any, ...]:
    said = task.output_json or (f"{task.error.kind}: {task.error.message}" if task.HasField("error") else "")
    word = state(status_word(task.status))
    return worker_id, word, took(task.start_time, task.end_time), said, task.task_id


def _left_out(sent: pb.BroadcastTaskResponse) -> list[Text]:
    left = ", ".join(sent.left_out_worker_ids)
    return [Text(f"left out, since they take no tasks now: {left}")] if left else []
