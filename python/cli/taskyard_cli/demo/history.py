"""What really happened in a run, from the scheduler's history: attempts, workers, and where the time went."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1.tasks_pb2 import GetTaskResponse, TaskAttempt, TaskInstance, TaskStatus
from taskyard.v1.workflows_pb2 import GetRunResponse
from taskyard_client import AsyncClient


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds of tasks, summed; each moment from a task's being ready to its end is in one.

    Attributes:
        scheduling: From an upstream's end to the task's creation, and from being sent to being started.
        queued: Waiting for a free slot.
        running: In the attempts that succeeded.
        lost: In attempts that did not, to the moment that the scheduler knew.
        retrying: From such an attempt to the next one's being queued.
    """

    scheduling: float = 0.0
    queued: float = 0.0
    running: float = 0.0
    lost: float = 0.0
    retrying: float = 0.0

    def __add__(self, other: Phases) -> Phases:
        return Phases(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def total(self) -> float:
        """All of it."""
        return self.scheduling + self.queued + self.running + self.lost + self.retrying


@dataclass(frozen=True, slots=True)
class Step:
    """One step with its attempts."""

    id: str
    task: TaskInstance
    attempts: Sequence[TaskAttempt]
    needs: Sequence[str]

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.task.status == TaskStatus.TASK_STATUS_SUCCESS

    @property
    def wasted(self) -> list[TaskAttempt]:
        """The attempts that came to nothing."""
        return [each for each in self.attempts if each.status != TaskStatus.TASK_STATUS_SUCCESS]


@dataclass(frozen=True, slots=True)
class History:
    """A run that has ended.

    Attributes:
        run: As the scheduler has it.
        steps: In the workflow's order.
        phases: Where its tasks' time went.
    """

    run: GetRunResponse
    steps: Sequence[Step]
    phases: Phases = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", sum((self._phases(step) for step in self.steps), Phases()))

    @property
    def seconds(self) -> float:
        """From the run's creation to its end."""
        return seconds(self.run.run.end_time) - seconds(self.run.run.create_time)

    def ended_as(self, kind: str) -> list[tuple[Step, TaskAttempt]]:
        """Returns the attempts that ended with an error of a kind."""
        return [(step, each) for step in self.steps for each in step.wasted if each.error.kind == kind]

    def used(self) -> dict[str, tuple[int, int]]:
        """Returns how many attempts each worker ran, by its id, and how many of them ended well."""
        ran = [each for step in self.steps for each in step.attempts]
        names = sorted({each.worker_id for each in ran})
        good = TaskStatus.TASK_STATUS_SUCCESS
        return {
            name: (sum(each.worker_id == name for each in ran),
                   sum(each.worker_id == name and each.status == good for each in ran))
            for name in names
        }  # fmt: skip

    def _phases(self, step: Step) -> Phases:
        ends = {each.id: seconds(each.task.end_time) for each in self.steps}
        ready = max((ends[need] for need in step.needs), default=seconds(self.run.run.create_time))
        made = seconds(step.task.create_time)
        return sum(_of_attempts(step), Phases(scheduling=max(0.0, made - ready)))


def _of_attempts(step: Step) -> Iterable[Phases]:
    since = seconds(step.task.create_time)
    for number, each in enumerate(step.attempts):
        sent, end = seconds(each.assign_time), seconds(each.end_time)
        started = seconds(each.start_time) if each.HasField("start_time") else sent
        good = each.status == TaskStatus.TASK_STATUS_SUCCESS
        last = number == len(step.attempts) - 1
        # Only the last time of being queued is kept; before it, a retry's delay and its queue are one.
        queued = seconds(step.task.queue_time) if last and number else since if not number else sent
        yield Phases(
            scheduling=started - sent,
            queued=sent - queued,
            running=end - started if good else 0.0,
            lost=0.0 if good else end - started,
            retrying=queued - since,
        )
        since = end


def seconds(time: Timestamp) -> float:
    """Returns a time as Unix seconds."""
    return time.seconds + time.nanos / 1e9


async def read_history(client: AsyncClient, run_id: str) -> History:
    """Reads a run with all its tasks."""
    run = await client.get_run(run_id)
    ids = [step.task_id for step in run.steps if step.task_id]
    found: dict[str, GetTaskResponse] = dict(
        zip(ids, await asyncio.gather(*(client.get_task(each) for each in ids)), strict=True)
    )
    made = [step for step in run.steps if step.task_id]
    return History(
        run,
        [Step(each.step_id, found[each.task_id].task, found[each.task_id].attempts, each.needs) for each in made],
    )
