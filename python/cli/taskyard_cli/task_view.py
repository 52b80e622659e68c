"""Progress of one task while somebody waits for it, on stderr."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, nullcontext

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from taskyard.v1.tasks_pb2 import TaskInstance
from taskyard_cli.failed_attempts import FailedAttempts
from taskyard_cli.output import on_terminal
from taskyard_cli.show import err, harmless, status_word
from taskyard_client import AsyncClient, DeadlineExceeded


def task_bar() -> Progress:
    """Returns the bar of one task."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
        console=err(),
        transient=True,
    )


async def wait_for_task(client: AsyncClient, task_id: str, timeout: float | None) -> TaskInstance:
    """Waits for a task's end; shows why an attempt failed that another follows, and on a terminal how it goes.

    Raises:
        DeadlineExceeded: It has not ended within `timeout` seconds; it goes on.
    """
    last = TaskInstance(task_id=task_id)
    bar = task_bar() if on_terminal() else None
    console, failed = bar.console if bar else err(), FailedAttempts()
    with bar or nullcontext():
        shown = bar.add_task(f"{task_id} SUBMITTED", total=None, note="") if bar else None
        try:
            async with asyncio.timeout(timeout), aclosing(client.watch_tasks([task_id])) as changes:
                async for change in changes:
                    for last in change.tasks:
                        if why := failed.take(last):
                            console.print(Text(harmless(f"task {task_id}: ") + why))
                        if bar is not None and shown is not None:
                            _update(bar, shown, last)
        except TimeoutError:
            # Before the first answer its state is not known.
            how = f"is {status_word(last.status)}" if last.status else "has not ended"
            raise DeadlineExceeded(
                f"task {task_id} {how} after {timeout:g} s and goes on; `taskyard explain {task_id}` says why"
            ) from None
    return last


def _update(bar: Progress, shown: TaskID, task: TaskInstance) -> None:
    known = task.HasField("percent")
    bar.update(
        shown,
        description=f"{task.task_id} {status_word(task.status)}",
        total=100 if known else None,
        completed=task.percent if known else 0,
        note=harmless(task.progress_message),
    )
