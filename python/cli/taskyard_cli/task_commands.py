"""`submit`, `tasks`, `task show`, `logs`, `cancel`, `retry`, `explain`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from taskyard.v1 import tasks_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.output import Output, answer, print_json
from taskyard_cli.show import (
    err,
    facts,
    harmless,
    json_block,
    out,
    run_word,
    state,
    status_word,
    table,
    took,
    when,
)
from taskyard_cli.task_view import wait_for_task
from taskyard_cli.values import INT32_MAX, json_object, pairs, seconds
from taskyard_client import AsyncClient, NotFound, Placement, Retry, Timeouts, new_task, task_output

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table for people, json for programs.")]
TaskId = Annotated[str, typer.Argument(help="The task's id.", show_default=False)]


def submit(
    task_type: Annotated[str, typer.Argument(help="Which handler runs it, for example `shell`.")] = "",
    *,
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="key=value; may be repeated.")] = None,
    input_: Annotated[
        str | None, typer.Option("--input", "-i", help="A JSON object; @FILE reads it, @- from stdin.")
    ] = None,
    task: Annotated[str, typer.Option(help="Task definition whose type and defaults apply.")] = "",
    priority: Annotated[int | None, typer.Option(min=1, max=10, help="1 (first) to 10 (last); default 5.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, max=100, help="Attempts in all; default 3.")] = None,
    run_timeout: Annotated[str | None, typer.Option(help="For one attempt, for example 30s.")] = None,
    queued_timeout: Annotated[str | None, typer.Option(help="For the wait for a worker.")] = None,
    total_timeout: Annotated[str | None, typer.Option(help="For everything together.")] = None,
    selector: Annotated[str, typer.Option(help="Labels that the worker must have: lang=java,!spot.")] = "",
    exclusive: Annotated[bool, typer.Option("--exclusive", help="Never two attempts alive at once.")] = False,
    key: Annotated[str, typer.Option(help="Idempotency key: tasks with the same key are one.")] = "",
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for its end and print the output.")] = False,
    timeout: Annotated[str | None, typer.Option(help="With --wait: how long, for example 5m.")] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Submit a task and print its id, or wait for its output.

    For example: taskyard submit shell --param command='echo hi' --wait
    """
    if not task_type and not task:
        raise CliError("say which: a task type (`taskyard submit shell`) or --task NAME", Exit.USAGE)
    timeouts = [seconds(text, f"--{name}-timeout") for name, text in
                (("run", run_timeout), ("queued", queued_timeout), ("total", total_timeout))]  # fmt: skip
    submission = new_task(
        task_type,
        json_object(input_, "--input") if input_ is not None else None,
        task_name=task,
        params=pairs(param or [], "--param"),
        priority=priority,
        retry=Retry(max_attempts=attempts) if attempts is not None else None,
        timeouts=Timeouts(run=timeouts[0], queued=timeouts[1], total=timeouts[2]) if any(
            each is not None for each in timeouts) else None,
        placement=Placement(selector) if selector else None,
        exclusive=True if exclusive else None,
        idempotency_key=key,
    )  # fmt: skip
    limit = seconds(timeout, "--timeout")

    async def work(client: AsyncClient) -> None:
        handle = await client.submit_task(submission)
        if not wait:
            outcome = pb.SubmitOutcome(task_id=handle.id, repeated_request=handle.repeated)
            answer(outcome, output, lambda: Text(handle.id))
            return
        ended = await wait_for_task(client, handle.id, limit)
        if output is Output.JSON:
            print_json(ended)
        task_output(ended)
        if output is Output.TABLE:
            out().print(Text(json_block(ended.output_json) or "(no output)"))

    with_client(address, token, ca, work)


def list_tasks(
    status: Annotated[str, typer.Option(help="Only these, for example FAILED.")] = "",
    type_: Annotated[str, typer.Option("--type", help="Only this task type.")] = "",
    run: Annotated[str, typer.Option(help="Only the steps of this run.")] = "",
    filter_: Annotated[str, typer.Option("--filter", help="Which, e.g. 'priority < 3'.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, newest first.")] = 50,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List tasks, newest first."""
    wanted = filter_of(filter_, status=status.upper(), task_type=type_, run_id=run)

    async def work(client: AsyncClient) -> pb.ListTasksResponse:
        found = [task async for task in client.list_tasks(filter=wanted, limit=limit)]
        return pb.ListTasksResponse(tasks=found)

    page = with_client(address, token, ca, work)
    columns = ("ID", "TYPE", "STATUS", "ATTEMPT", "WORKER", "CREATED", "TOOK")
    answer(page, output, lambda: table(columns, (_task_row(task) for task in page.tasks), empty="no tasks"))


def _task_row(task: pb.TaskInstance) -> tuple[Any, ...]:
    word = state(status_word(task.status))
    spent = took(task.start_time, task.end_time)
    return (
        task.task_id, task.task_type, word, task.attempt, task.worker_id, when(task.create_time), spent,
    )  # fmt: skip


def filter_of(given: str, **equal: str) -> str:
    """Returns a filter that asks for all of it."""
    terms = [f"{name} == {_quoted(value)}" for name, value in equal.items() if value]
    return " && ".join([f"({given})"] * bool(given and terms) + [given] * bool(given and not terms) + terms)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def show_task(
    task_id: TaskId,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Show one task with its attempts."""
    found = with_client(address, token, ca, lambda client: client.get_task(task_id))
    answer(found, output, lambda: _task_page(found))


def _task_page(found: pb.GetTaskResponse) -> Group:
    task = found.task
    percent = f"{task.percent:g} %" if task.HasField("percent") else ""
    top = facts(
        [
            ("task", task.task_id),
            ("type", task.task_type),
            ("definition", task.task_name),
            ("status", state(status_word(task.status))),
            ("progress", " ".join(filter(None, (percent, task.progress_message)))),
            ("error", f"{task.error.kind}: {task.error.message}" if task.HasField("error") else ""),
            ("priority", task.priority),
            ("run", task.run_id),
            ("step", task.step_id),
            ("created", when(task.create_time)),
            ("ended", when(task.end_time)),
            ("key", task.idempotency_key),
            *((f"param {name}", value) for name, value in sorted(task.params.items())),
            ("input", task.input_json),
            ("output", task.output_json),
        ]
    )
    columns = ("ATTEMPT", "STATUS", "WORKER", "STARTED", "TOOK", "ERROR")
    rows = (
        (each.attempt, state(status_word(each.status)), each.worker_id, when(each.start_time),
         took(each.start_time, each.end_time), each.error.message)
        for each in found.attempts
    )  # fmt: skip
    return Group(top, Text(), table(columns, rows, empty="no attempt yet"))


def logs(
    task_id: TaskId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="All attempts, and new lines until the task has ended.")
    ] = False,
    attempt: Annotated[int, typer.Option(min=0, max=INT32_MAX, help="Which attempt; 0: the last.")] = 0,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Print what a task wrote."""
    console = out()

    async def work(client: AsyncClient) -> None:
        shown = 0
        async for line in client.logs(task_id, attempt=attempt, follow=follow):
            if output is Output.JSON:
                print_json(line)
                continue
            if follow and line.attempt != shown and (shown or line.attempt > 1):
                err().print(Text(f"--- attempt {line.attempt} ---", style="dim"))
            shown = line.attempt
            _print_line(console.is_terminal, line)

    with_client(address, token, ca, work)


def _print_line(terminal: bool, line: pb.StoredLogLine) -> None:
    level = f"{line.content.level} " if line.content.level else ""
    text = f"{level}{line.content.text}"
    # A file gets exactly what was written; a terminal gets nothing that could drive it.
    sys.stdout.write(f"{harmless(text) if terminal else text}\n")
    sys.stdout.flush()


def cancel(
    ids: Annotated[list[str], typer.Argument(help="Ids of tasks or runs.", show_default=False)],
    reason: Annotated[str, typer.Option(help="For people; kept with it.")] = "",
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Cancel tasks or runs."""

    async def work(client: AsyncClient) -> None:
        for each in ids:
            out().print(Text(f"{each} {await _cancel(client, each, reason)}"))

    with_client(address, token, ca, work)


async def _cancel(client: AsyncClient, some_id: str, reason: str) -> str:
    try:
        return status_word(await client.cancel_task(some_id, reason))
    except NotFound:
        try:
            return run_word(await client.cancel_run(some_id, reason))
        except NotFound:
            raise NotFound(f"there is no task and no run {some_id}; `taskyard tasks` lists tasks") from None


def retry(
    ids: Annotated[list[str], typer.Argument(help="Ids of ended tasks.", show_default=False)],
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Run ended tasks again; a failed step's run goes on from there."""

    async def work(client: AsyncClient) -> None:
        for each in ids:
            out().print(Text(f"{each} {status_word(await client.retry_task(each))}"))

    with_client(address, token, ca, work)


def explain(
    task_id: TaskId,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Say why a task is where it is."""
    found = with_client(address, token, ca, lambda client: client.explain(task_id))
    answer(found, output, lambda: _explanation(found))


def _explanation(found: pb.ExplainTaskResponse) -> Group:
    lines = [Text.assemble(state(status_word(found.status)), "  ", harmless(found.summary))]
    lines += [Text.assemble("  ", (each.code, "bold"), "  ", harmless(each.message)) for each in found.reasons]
    return Group(*lines)
