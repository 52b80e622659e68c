"""`submit-single`: 64 concurrent callers, one task per call, through the client, which coalesces."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc

from bench.cluster import Cluster, Setup, running
from bench.database import Sqlite
from bench.figures import Report, cost_per, figure, median
from bench.load import call_repeatedly, tasks_ended, until
from bench.plan import Plan
from taskyard.v1 import tasks_pb2, tasks_pb2_grpc

CALLERS = 64
TASKS = 30_000
RAW_TASKS = 10_000
WARM_UP = 2_000
CONCURRENCY = 1000
NAME = "submit-single"

Submit = Callable[[], Awaitable[object]]


async def submit_single(plan: Plan, folder: Path) -> Report:
    """Measures the client's way, and beside it calls that carry one task each on the wire."""
    tasks, raw_tasks = plan.count(TASKS), plan.count(RAW_TASKS)
    async with running(folder, Sqlite(folder), Setup(CONCURRENCY, plan.profile, NAME)) as cluster:
        client = cluster.client
        raw = await _raw_unary(cluster, stack := AsyncExitStack())
        async with stack:
            await _one_pass(cluster, lambda: client.submit("noop"), plan.count(WARM_UP))
            before = cluster.costs()
            rates = [await _one_pass(cluster, lambda: client.submit("noop"), tasks) for _ in range(plan.repeats)]
            cost = cost_per(before, cluster.costs(), tasks * plan.repeats)
            before = cluster.costs()
            raw_rates = [await _one_pass(cluster, raw, raw_tasks) for _ in range(plan.repeats)]
            raw_cost = cost_per(before, cluster.costs(), raw_tasks * plan.repeats)
    detail = {
        "callers": CALLERS, "tasks": tasks, "repeats": [figure(rate) for rate in rates], "cost_us_per_task": cost,
        "raw_unary": figure(median(raw_rates)), "raw_tasks": raw_tasks, "raw_cost_us_per_task": raw_cost,
        "settings": cluster.facts,
    }  # fmt: skip
    return Report(NAME, figure(median(rates)), "tasks/s", detail)


async def _one_pass(cluster: Cluster, submit: Submit, tasks: int) -> float:
    """Returns tasks a second, from the first call until every result is durable."""
    start = time.perf_counter()
    cluster.submitted_tasks += tasks
    await call_repeatedly(CALLERS, tasks, submit)
    await until(lambda: tasks_ended(cluster.client), cluster.submitted_tasks, cluster.check)
    return tasks / (time.perf_counter() - start)


async def _raw_unary(cluster: Cluster, stack: AsyncExitStack) -> Submit:
    """Returns a call that sends one task as a program without our client would."""
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(cluster.address))
    stub = tasks_pb2_grpc.TaskServiceStub(channel)
    metadata = (("authorization", f"Bearer {cluster.token}"),)
    request = tasks_pb2.SubmitTasksRequest(tasks=[tasks_pb2.TaskSubmission(task_type="noop")])

    async def submit() -> object:
        response = await stub.SubmitTasks(request, metadata=metadata)
        if not response.outcomes[0].task_id:
            raise RuntimeError(f"refused: {response.outcomes[0].refusal}")
        return response

    return submit
