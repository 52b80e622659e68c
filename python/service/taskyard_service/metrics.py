"""The figures of a server process for Prometheus: every name, label and bucket in one place.

Made for one registry, which the constructor takes; nothing is registered globally.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from taskyard_service.durations import Durations, Series

TASK_DURATION_BUCKETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
COMMIT_BUCKETS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0)
COUNT_BUCKETS = (1.0, 4.0, 16.0, 64.0, 256.0, 512.0, 1_024.0, 4_096.0)
LAG_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.5, 2.0)
TASK_TYPE_LIMIT = 500
"""Task types that get series of their own; those beyond share `(other)`, since users choose the names."""
OTHER = "(other)"


class Metrics:
    """What a server process measures.

    Args:
        registry: Where the figures are registered; one Metrics for each registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._task_duration = Durations(
            "workflow_task_duration_seconds",
            "How long attempts ran, by task type and final status.",
            ("task_type", "status"),
            TASK_DURATION_BUCKETS,
            registry,
        )
        self.workers_healthy = Gauge("workflow_workers_healthy", "Workers that can be given tasks.", registry=registry)
        self._queue_depth = Gauge(
            "workflow_queue_depth",
            "Instances that are ready and wait for a worker.",
            ("task_type",),
            registry=registry,
        )
        self.in_flight = Gauge("workflow_tasks_in_flight", "Instances that a worker holds.", registry=registry)
        self.commit_seconds = Histogram(
            "workflow_commit_seconds",
            "How long one group commit took.",
            buckets=COMMIT_BUCKETS,
            registry=registry,
        )
        self.commit_rows = Histogram(
            "workflow_commit_rows", "Rows in one group commit.", buckets=COUNT_BUCKETS, registry=registry
        )
        frames = Counter("workflow_frames", "Frames on worker streams.", ("direction",), registry=registry)
        self.frames_sent, self.frames_received = frames.labels("sent"), frames.labels("received")
        self.tasks_per_frame = Histogram(
            "workflow_tasks_per_frame",
            "Assignments in one frame to a worker.",
            buckets=COUNT_BUCKETS,
            registry=registry,
        )
        submissions = Counter(
            "workflow_submissions",
            "Submitted tasks and runs, by what became of them.",
            ("outcome",),
            registry=registry,
        )
        self.submitted_accepted = submissions.labels("accepted")
        self.submitted_repeated = submissions.labels("repeated")
        self.submitted_refused = submissions.labels("refused")
        self.watchers = Gauge("workflow_watchers", "Open watch and log streams.", registry=registry)
        self.event_loop_lag = Histogram(
            "workflow_event_loop_lag_seconds",
            "How late the event loop ran a timer.",
            buckets=LAG_BUCKETS,
            registry=registry,
        )
        self._rpc_errors = Counter(
            "workflow_rpc_errors",
            "Calls that ended with an error of ours.",
            ("method", "code"),
            registry=registry,
        )
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self._durations: dict[tuple[str, str], Series] = {}
        self._task_types: set[str] = set()

    def observe_task(self, task_type: str, status: str, seconds: float) -> None:
        """Counts one ended attempt. `status` is the status' short name, such as `SUCCESS`."""
        series = self._durations.get((task_type, status))
        if series is None:
            series = self._task_duration.labels(self._known(task_type), status)
            if task_type in self._task_types:
                self._durations[task_type, status] = series
        series.observe(seconds)

    def set_queue_depth(self, depths: dict[str, int]) -> None:
        """Replaces the queue depths by `depths` (waiting instances by task type)."""
        self._queue_depth.clear()
        for task_type, depth in depths.items():
            self._queue_depth.labels(self._known(task_type)).inc(depth)

    def count_error(self, method: str, code: str) -> None:
        """Counts one call that ended with an error of ours; made for the interceptors."""
        self._rpc_errors.labels(method, code).inc()

    def _known(self, task_type: str) -> str:
        if task_type in self._task_types:
            return task_type
        if len(self._task_types) >= TASK_TYPE_LIMIT:
            return OTHER
        self._task_types.add(task_type)
        return task_type
