"""Figures that are looked at, not counted: queue depths, workers, what is in flight."""

from __future__ import annotations

import asyncio

from taskyard_scheduler.scheduler import Scheduler
from taskyard_service.metrics import Metrics

PERIOD_S = 1.0


async def keep_figures(scheduler: Scheduler, metrics: Metrics) -> None:
    """Brings the gauges up to date once a second, for ever."""
    while True:
        await asyncio.sleep(PERIOD_S)
        show(scheduler, metrics)


def show(scheduler: Scheduler, metrics: Metrics) -> None:
    """Sets the gauges; all to zero while another scheduler leads."""
    depths: dict[str, int] = {}
    in_flight = healthy = watchers = 0
    if scheduler.leading:
        leader = scheduler.leader()
        c = leader.engine.cluster
        for queue in c.queues.values():
            depths[queue.task_type] = depths.get(queue.task_type, 0) + len(queue)
        in_flight = sum(len(worker.attempts) for worker in c.fleet.workers.values())
        healthy = c.fleet.healthy
        watchers = leader.watches.count
    metrics.set_queue_depth(depths)
    metrics.in_flight.set(in_flight)
    metrics.workers_healthy.set(healthy)
    metrics.watchers.set(watchers)
