"""Progress of a run while somebody waits for it, on stderr: a live table on a terminal, else a line a change."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing, nullcontext
from graphlib import TopologicalSorter

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard.v1.workflows_pb2 import Run, RunStep, WatchRunResponse
from taskyard_cli.failed_attempts import FailedAttempts
from taskyard_cli.output import on_terminal
from taskyard_cli.show import err, error_words, harmless, run_word, state, status_word, table, took
from taskyard_client import AsyncClient, DeadlineExceeded

ROWS = 20
"""Steps that are shown at once: those that run or ended badly first, then the latest."""

_FIRST = {
    TaskStatus.TASK_STATUS_RUNNING: 0, TaskStatus.TASK_STATUS_ASSIGNED: 1, TaskStatus.TASK_STATUS_CANCELLING: 1,
    TaskStatus.TASK_STATUS_DEFERRED: 1,
    TaskStatus.TASK_STATUS_FAILED: 2, TaskStatus.TASK_STATUS_TIMEOUT: 2, TaskStatus.TASK_STATUS_QUEUED: 3,
}  # fmt: skip


class RunView:
    """What is known of a run, and how it looks."""

    def __init__(self) -> None:
        self.run = Run()
        self.steps: dict[str, RunStep] = {}
        self._places: dict[str, int] = {}

    def take(self, change: WatchRunResponse) -> list[RunStep]:
        """Takes a change in and returns the steps that are otherwise than before, causes before their effects."""
        self.run = change.run
        news = []
        for step in change.steps:
            known = self.steps.get(step.step_id)
            if known is None or (known.status, known.attempt) != (step.status, step.attempt):
                news.append(step)
            self.steps[step.step_id] = step
        return self._in_order(news)

    def _in_order(self, news: list[RunStep]) -> list[RunStep]:
        """Returns steps by their end, those that have not ended last; together, as the graph has them."""
        if len(news) > 1 and len(self._places) < len(self.steps):
            graph = {step_id: step.needs for step_id, step in self.steps.items()}
            self._places = {step_id: place for place, step_id in enumerate(TopologicalSorter(graph).static_order())}
        return sorted(news, key=lambda step: (_ended(step), self._places.get(step.step_id, 0)))

    def __rich__(self) -> Group:
        return Group(self._bar(), table(COLUMNS, (step_row(step) for step in self._shown()), empty=""))

    def _bar(self) -> Table:
        line = Table.grid(padding=(0, 1))
        run = self.run
        line.add_row(
            state(run_word(run.state)),
            ProgressBar(total=max(run.steps_total, 1), completed=run.steps_ended, width=40),
            Text(f"{run.steps_ended} of {run.steps_total} steps"),
        )
        return line

    def _shown(self) -> list[RunStep]:
        if len(self.steps) <= ROWS:
            return list(self.steps.values())
        latest = list(self.steps.values())[::-1]
        return sorted(latest, key=lambda step: _FIRST.get(step.status, 9))[:ROWS]


def _ended(step: RunStep) -> float:
    return step.end_time.ToNanoseconds() if step.HasField("end_time") else math.inf


COLUMNS = ("STEP", "TYPE", "STATUS", "ATTEMPT", "WORKER", "TOOK", "ERROR")


def step_row(step: RunStep) -> tuple[object, ...]:
    """Returns a step as a row under COLUMNS."""
    spent = took(step.start_time, step.end_time)
    word = state(status_word(step.status))
    return step.step_id, step.task_type, word, step.attempt, step.worker_id, spent, error_words(step.error)


def step_line(step: RunStep) -> str:
    """Returns a change of a step as a line."""
    spent = took(step.start_time, step.end_time)
    parts = [
        f"step {step.step_id} {status_word(step.status)}",
        f"attempt {step.attempt}" if step.attempt > 1 else "",
        f"on {step.worker_id}" if step.worker_id else "",
        f"in {spent}" if spent else "",
        error_words(step.error),
    ]
    return harmless(", ".join(part for part in parts if part))


async def wait_for_run(client: AsyncClient, run_id: str, timeout: float | None) -> Run:
    """Waits for a run's end and shows on stderr how it goes.

    Raises:
        DeadlineExceeded: It has not ended within `timeout` seconds; it goes on.
    """
    view, live, console, failed = RunView(), on_terminal(), err(), FailedAttempts()
    with Live(view, console=console, transient=True) if live else nullcontext():
        try:
            async with asyncio.timeout(timeout), aclosing(client.watch_run(run_id)) as changes:
                async for change in changes:
                    for step in view.take(change):
                        if why := failed.take(step):
                            console.print(Text(harmless(f"step {step.step_id}: ") + why))
                        elif not live and step.status != TaskStatus.TASK_STATUS_PENDING:
                            console.print(Text(step_line(step)))
        except TimeoutError:
            # Before the first answer its state is not known.
            how = f"is {run_word(view.run.state)}" if view.run.state else "has not ended"
            ended = f"{view.run.steps_ended} of {view.run.steps_total} steps have ended"
            raise DeadlineExceeded(
                f"run {run_id} {how} after {timeout:g} s and goes on; {ended}; `taskyard runs show {run_id}` shows them"
            ) from None
    return view.run
