"""`tasks`, `task show`, `logs`, `explain`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.text import Text

from taskyard.v1 import tasks_pb2 as pb
from taskyard_cli.connection import Address, Ca, Token, with_client
from taskyard_cli.counting import Count, counted, wants_count
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.log_lines import LogPrinter
from taskyard_cli.mistaken import meant_as_task
from taskyard_cli.output import Output, OutputOption, answer, print_json
from taskyard_cli.resources import asked_for
from taskyard_cli.show import (
    MARKED,
    cut,
    error_words,
    facts,
    harmless,
    out,
    state,
    status_word,
    table,
    took,
    when,
)
from taskyard_cli.submitting.schedule_options import since_time
from taskyard_cli.values import INT32_MAX, not_empty
from taskyard_client import AsyncClient


class Stream(StrEnum):
    """What a line of a log is of."""

    STDOUT = "stdout"
    STDERR = "stderr"
    LOG = "log"
    OUTPUT = "output"


KIND_LIMIT = 32
"""Cells of an error's kind in a list; ours are shorter, a handler's own may be any."""

TaskId = Annotated[str, typer.Argument(callback=not_empty, help="The task's id.", show_default=False)]


def list_tasks(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(callback=not_empty, help="Only these, for example FAILED.")] = None,
    type_: Annotated[str | None, typer.Option("--type", callback=not_empty, help="Only this task type.")] = None,
    run: Annotated[str | None, typer.Option(callback=not_empty, help="Only the steps of this run.")] = None,
    tag: Annotated[list[str] | None, typer.Option(callback=not_empty, help="Only with this tag; repeatable.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", callback=not_empty, help="Which, e.g. 'priority < 3': docs/filters.md.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, newest first.")] = 50,
    count: Count = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", callback=not_empty, help="How many have each value of a field: error.kind, status, task_type, ..."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """List tasks, newest first, or count them.

    TOOK is from the last attempt's start until its result was recorded; ERROR is the kind of error that it ended with:
    `explain` and `task show` have the message, and so has `-o json`.
    """
    wanted = filter_of(filter_, tag, status=status and status.upper(), task_type=type_, run_id=run)
    if wants_count(ctx, count, by):
        found = with_client(address, token, ca, lambda client: client.count_tasks(wanted, by=by or ""))
        answer(found, output, lambda: counted(found, by))
        return

    async def work(client: AsyncClient) -> pb.ListTasksResponse:
        found = [task async for task in client.list_tasks(filter=wanted, limit=limit)]
        return pb.ListTasksResponse(tasks=found)

    page = with_client(address, token, ca, work)
    columns = ("ID", "TYPE", "STATUS", "ATTEMPT", "WORKER", "CREATED", "TOOK", "ERROR")
    answer(page, output, lambda: table(columns, (_task_row(task) for task in page.tasks), empty="no tasks"))


def _task_row(task: pb.TaskInstance) -> tuple[Any, ...]:
    word = state(status_word(task.status))
    spent = took(task.start_time, task.end_time)
    return (
        task.task_id, task.task_type, word, task.attempt, task.worker_id, when(task.create_time), spent,
        cut(task.error.kind, KIND_LIMIT),
    )  # fmt: skip


def filter_of(given: str | None, tags: Sequence[str] | None = None, **equal: str | None) -> str:
    """Returns a filter that asks for all of it; None asks for nothing."""
    terms = [f"{name} == {_quoted(value)}" for name, value in equal.items() if value]
    terms += [f"{_quoted(tag)} in tags" for tag in tags or ()]
    if given:
        terms.insert(0, f"({given})" if terms else given)
    return " && ".join(terms)


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

    async def work(client: AsyncClient) -> tuple[pb.GetTaskResponse, str]:
        async with meant_as_task(client, task_id):
            found = await client.get_task(task_id)
            return found, "" if output is Output.JSON else (await client.explain(task_id)).summary

    found, summary = with_client(address, token, ca, work)
    answer(found, output, lambda: task_page(found, summary))


def task_page(found: pb.GetTaskResponse, summary: str) -> Group:
    """Returns a task's facts, `summary` of where it stands among them, and its attempts."""
    task = found.task
    percent = f"{task.percent:.0f} %" if task.HasField("percent") else ""
    top = facts(
        [
            ("task", task.task_id),
            ("type", task.task_type),
            ("definition", task.task_name),
            ("status", state(status_word(task.status))),
            ("explained", summary),
            ("progress", " ".join(filter(None, (percent, task.progress_message)))),
            _error_fact(task),
            ("priority", task.priority),
            ("resources", asked_for(task.resources)),
            ("run", task.run_id),
            ("step", task.step_id),
            ("created", when(task.create_time)),
            ("waits until" if task.status == pb.TaskStatus.TASK_STATUS_DEFERRED else "due", when(task.schedule_time)),
            ("expires", when(task.expire_time)),
            ("tags", ", ".join(task.tags)),
            ("ended", when(task.end_time)),
            ("key", task.idempotency_key),
            *((f"param {name}", value) for name, value in sorted(task.params.items())),
            ("input", task.input_json),
            ("output", task.output_json),
            *((f"metadata {name}", value) for name, value in sorted(task.metadata.items())),
        ]
    )
    columns = ("ATTEMPT", "STATUS", "WORKER", "STARTED", "TOOK", "ERROR")
    rows = (
        (each.attempt, state(status_word(each.status)), each.worker_id, when(each.start_time),
         took(each.start_time, each.end_time), error_words(each.error))
        for each in found.attempts
    )  # fmt: skip
    return Group(top, Text(), table(columns, rows, empty="no attempt yet"))


def _error_fact(task: pb.TaskInstance) -> tuple[str, str]:
    if not task.HasField("error"):
        return "error", ""
    if task.error.kind == MARKED:
        return "marked by hand", task.error.message or "no reason given"
    return "error", f"{task.error.kind}: {task.error.message}"


def logs(
    task_id: TaskId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="All attempts, and new lines until the task has ended.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=0, max=INT32_MAX, help="Without --follow: which attempt; 0, the default: the last."),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", "-s", callback=not_empty, help="Only lines with this text, whatever its case."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", callback=not_empty, help="Only lines since this time, or of the last, e.g. 10m."),
    ] = None,
    stream: Annotated[
        list[Stream] | None,
        typer.Option("--stream", help="Only what is of this stream; repeatable. `output` alone is joined as it came."),
    ] = None,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Print what a task wrote. With --follow a line `--- attempt 2 ---` stands before each further attempt."""
    if follow and attempt is not None:
        raise CliError(
            "--attempt shows one attempt and --follow all of them as they come; leave one of the two out", Exit.USAGE
        )
    begin = None if since is None else since_time(since)
    streams = list(dict.fromkeys(each.value for each in stream or ()))
    printer = LogPrinter(out(), apart=follow, alone=len(streams) == 1)

    async def work(client: AsyncClient) -> None:
        async with meant_as_task(client, task_id):
            lines = client.logs(
                task_id, attempt=attempt or 0, follow=follow, contains=search or "", since=begin, streams=streams
            )
            async for line in lines:
                if output is Output.JSON:
                    print_json(line, line=True)
                else:
                    printer.print(line)

    try:
        with_client(address, token, ca, work)
    finally:
        printer.end()


def explain(
    task_id: TaskId,
    output: OutputOption = Output.TABLE,
    address: Address = None,
    token: Token = None,
    ca: Ca = None,
) -> None:
    """Say why a task is where it is."""

    async def work(client: AsyncClient) -> pb.ExplainTaskResponse:
        async with meant_as_task(client, task_id):
            return await client.explain(task_id)

    found = with_client(address, token, ca, work)
    answer(found, output, lambda: explanation(found))


def explanation(found: pb.ExplainTaskResponse) -> Group:
    """Returns the summary, which has the first reason's sentence in it, and the others below."""
    first, *others = found.reasons or [pb.WaitReason()]
    code = Text.assemble("  (", (first.code, "bold"), ")") if first.code else Text()
    lines = [Text.assemble(state(status_word(found.status)), "  ", harmless(found.summary), code)]
    if first.message not in found.summary:  # another version's summary may be another
        others.insert(0, first)
    lines += [Text.assemble("  ", (each.code, "bold"), "  ", harmless(each.message)) for each in others]
    return Group(*lines)
