"""What a task may ask for, as Python values: timeouts, retries, resources, placement.

A duration is seconds or a timedelta. The rules (ranges, defaults) are the scheduler's, see policies.proto.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from taskyard.v1 import policies_pb2

Seconds = float | timedelta
"""A duration: seconds, or a timedelta."""


def duration(value: Seconds | None) -> Duration | None:
    """Returns a duration as the contract has it."""
    if value is None:
        return None
    span = value if isinstance(value, timedelta) else timedelta(seconds=value)
    message = Duration()
    message.FromTimedelta(span)
    return message


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long each phase may take; None is the default.

    Attributes:
        queued: From being queued to being assigned. Default: no limit.
        start: Until the worker says that it started. Default: 5 s.
        run: One attempt's execution. Default: 1 hour.
        total: From submission to the end. Default: no limit.
    """

    queued: Seconds | None = None
    start: Seconds | None = None
    run: Seconds | None = None
    total: Seconds | None = None

    def message(self) -> policies_pb2.TimeoutPolicy:
        """Returns it as the contract has it."""
        return policies_pb2.TimeoutPolicy(
            queued_timeout=duration(self.queued),
            start_timeout=duration(self.start),
            run_timeout=duration(self.run),
            total_timeout=duration(self.total),
        )


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed attempt is followed by another; None is the default.

    Attributes:
        max_attempts: Attempts in all, the first included. Default: 3. Range: 1 to 100.
        first_delay: Delay before the second attempt. Default: 1 s.
        factor: What each further delay is multiplied by. Default: 2.
        max_delay: Longest delay. Default: 60 s.
        jitter: Random share by which a delay varies. Default: 0.2. Range: 0 to 1.
    """

    max_attempts: int | None = None
    first_delay: Seconds | None = None
    factor: float | None = None
    max_delay: Seconds | None = None
    jitter: float | None = None

    def message(self) -> policies_pb2.RetryPolicy:
        """Returns it as the contract has it."""
        return policies_pb2.RetryPolicy(
            max_attempts=self.max_attempts,
            first_delay=duration(self.first_delay),
            factor=self.factor,
            max_delay=duration(self.max_delay),
            jitter=self.jitter,
        )


@dataclass(frozen=True, slots=True)
class Resources:
    """What a task holds while it runs.

    Attributes:
        cpu_millis: Thousandths of a core.
        memory_mb: MiB.
        gpus: Whole GPUs.
    """

    cpu_millis: int = 0
    memory_mb: int = 0
    gpus: int = 0

    def message(self) -> policies_pb2.Resources:
        """Returns it as the contract has it."""
        return policies_pb2.Resources(cpu_millis=self.cpu_millis, memory_mb=self.memory_mb, gpus=self.gpus)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a task may and would rather run.

    Attributes:
        selector: Labels that the worker must have, for example `lang=java,zone in (a,b),!spot`.
        affinity: Labels of workers to be preferred.
        spread: Label over whose values the tasks of one run are spread.
        worker_id: Id of the one worker that may run it; it waits for that one. Empty: any.
    """

    selector: str = ""
    affinity: str = ""
    spread: str = ""
    worker_id: str = ""

    def message(self) -> policies_pb2.Placement:
        """Returns it as the contract has it."""
        return policies_pb2.Placement(
            selector=self.selector, affinity=self.affinity, spread=self.spread, worker_id=self.worker_id
        )
