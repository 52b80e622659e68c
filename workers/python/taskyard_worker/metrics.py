"""What the worker counts, for /metrics. Durations are gathered in plain lists, since every task is counted.

Not the HTTP side: that is `endpoints`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from taskyard.v1.tasks_pb2 import TaskStatus

BUCKETS_S = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

_STATUS_PREFIX = "TASK_STATUS_"


class Durations:
    """Counts of one pair of task type and status. The last count is of what exceeds every bucket."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total_s = 0.0

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the buckets as Prometheus wants them."""
        bounds = [*(str(bound) for bound in BUCKETS_S), "+Inf"]
        running = 0
        pairs: list[tuple[str, float]] = []
        for bound, count in zip(bounds, self.counts, strict=True):
            running += count
            pairs.append((bound, running))
        return pairs


class WorkerMetrics(Collector):
    """The worker's figures, read when somebody asks.

    Attributes:
        log_lines_dropped: Log lines that were not kept, because there were too many.
    """

    def __init__(self) -> None:
        self._durations: dict[tuple[str, TaskStatus.ValueType], Durations] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.log_lines_dropped = 0
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def observe(self, task_type: str, status: TaskStatus.ValueType, seconds: float) -> None:
        """Count the end of an attempt."""
        key = (task_type, status)
        durations = self._durations.get(key)
        if durations is None:
            durations = self._durations[key] = Durations()
        durations.counts[bisect_left(BUCKETS_S, seconds)] += 1
        durations.total_s += seconds

    def count_dropped(self, lines: int) -> None:
        """Count log lines that were not kept."""
        self.log_lines_dropped += lines

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Offer a figure that is read when somebody asks."""
        self._gauges[name] = (text, read)

    def collect(self) -> Iterable[Metric]:
        """Yield everything, as prometheus-client asks."""
        yield self._histogram()
        for name, (text, read) in self._gauges.items():
            yield GaugeMetricFamily(name, text, value=read())
        yield CounterMetricFamily(
            "taskyard_worker_log_lines_dropped",
            "Log lines not kept because there were too many",
            self.log_lines_dropped,
        )

    def _histogram(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(
            "workflow_task_duration_seconds",
            "How long attempts ran on this worker, in seconds",
            labels=["task_type", "status"],
        )
        for (task_type, status), durations in self._durations.items():
            name = TaskStatus.Name(status).removeprefix(_STATUS_PREFIX)
            family.add_metric([task_type, name], buckets=durations.cumulative(), sum_value=durations.total_s)
        return family
