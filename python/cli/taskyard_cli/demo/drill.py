"""Runs the demo's workflow, shows it, and kills a worker in the middle of its work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, nullcontext

from rich.console import Group
from rich.live import Live
from rich.text import Text

from taskyard.v1.tasks_pb2 import TaskStatus
from taskyard.v1.workflows_pb2 import Run, RunStep, Workflow
from taskyard_cli.demo.fleet import LEASE_S, Fleet
from taskyard_cli.output import on_terminal
from taskyard_cli.run_view import RunView, step_line
from taskyard_cli.show import err
from taskyard_client import AsyncClient

DONE_BEFORE_KILL = 3
"""Steps that have succeeded when the worker is killed."""

SETTLE_S = 0.3
"""What a frozen worker had sent before has arrived after this time."""

_TOLD = frozenset({TaskStatus.TASK_STATUS_SUCCESS, TaskStatus.TASK_STATUS_FAILED, TaskStatus.TASK_STATUS_PENDING})


class Drill:
    """One run of the workflow.

    Args:
        client: Of the demo's scheduler.
        fleet: Whose worker is killed.
    """

    def __init__(self, client: AsyncClient, fleet: Fleet) -> None:
        self._client = client
        self._fleet = fleet
        self._view = RunView()
        self._notes: list[str] = []
        self._live = on_terminal()
        self.killed = ""

    async def run(self, workflow: Workflow, inputs: Mapping[str, str]) -> Run:
        """Applies the workflow, runs it to its end and returns the run."""
        await self._client.apply_workflow(workflow)
        handle = await self._client.start_run(workflow.name, dict(inputs))
        with Live(get_renderable=self._shown, console=err()) if self._live else nullcontext():
            async with asyncio.TaskGroup() as group, aclosing(self._client.watch_run(handle.id)) as changes:
                async for change in changes:
                    self._tell(self._view.take(change))
                    if not self.killed and (victim := self._victim()):
                        self.killed = victim
                        group.create_task(self._kill(handle.id), name="kill a worker")
        return self._view.run

    def _shown(self) -> Group:
        return Group(self._view, *(Text(note, style="yellow") for note in self._notes))

    def _tell(self, news: list[RunStep]) -> None:
        for step in news:
            if not self._live and step.attempt and step.status in _TOLD:
                err().print(Text(step_line(step)))

    def _note(self, line: str) -> None:
        self._notes.append(line)
        if not self._live:
            err().print(Text(line))

    def _victim(self) -> str:
        """Returns the worker to be killed: of those at work the one that has done most. Empty: too early."""
        steps = self._view.steps.values()
        done = [step.worker_id for step in steps if step.status == TaskStatus.TASK_STATUS_SUCCESS]
        if len(done) < DONE_BEFORE_KILL or not any(failed(step) for step in steps):
            return ""
        working = {step.worker_id for step in steps if step.status == TaskStatus.TASK_STATUS_RUNNING}
        return max(sorted(working), key=done.count, default="")

    async def _kill(self, run_id: str) -> None:
        """Kills the worker while the scheduler knows of work on it: first frozen, so that it cannot end it."""
        self._fleet.freeze(self.killed)
        await asyncio.sleep(SETTLE_S)
        held = [step.step_id for step in (await self._client.get_run(run_id)).steps if _runs_on(step, self.killed)]
        if not held:
            self._fleet.thaw(self.killed)
            self.killed = ""  # it had just ended everything: the next change names another moment
            return
        self._fleet.kill(self.killed)
        self._note(
            f"kill -9 of {self.killed}, which runs {', '.join(held)}: the other takes over "
            f"when the lease ends, in at most {LEASE_S} s"
        )


def failed(step: RunStep) -> bool:
    """Tells whether an attempt of a step has failed and another follows or followed."""
    return step.attempt > 1 or (step.attempt == 1 and step.status == TaskStatus.TASK_STATUS_PENDING)


def _runs_on(step: RunStep, worker: str) -> bool:
    return step.worker_id == worker and step.status == TaskStatus.TASK_STATUS_RUNNING
