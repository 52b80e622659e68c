"""`gateway`: one task per HTTP POST, on 32 connections that stay open; and how long an answer takes at 100 a second."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path

from bench.cluster import Cluster, Setup, running
from bench.database import Sqlite
from bench.figures import Report, cost_per, figure, median, percentile
from bench.load import call_repeatedly, tasks_ended, until
from bench.plan import Plan

CONNECTIONS = 32
TASKS = 15_000
WARM_UP = 2_000
CALM_TASKS = 1_000
CALM_RATE = 100
"""Requests a second at which `p50_ms_at_100` is measured."""
CONCURRENCY = 1000
NAME = "gateway"
BODY = json.dumps({"tasks": [{"taskType": "noop"}]}).encode()
HEAD_END = b"\r\n\r\n"


class Refused(RuntimeError):
    """A POST was not answered with an accepted task."""


class Connection:
    """One connection of a client that keeps it open. Not a general client: it knows the one answer that it expects.

    Args:
        reader: What comes.
        writer: What goes.
        token: Whom the calls are made for.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._request = (
            b"POST /api/v1/tasks:submit HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (token.encode(), len(BODY), BODY)
        )

    async def submit(self) -> None:
        """Submits one task.

        Raises:
            Refused: It was not accepted.
        """
        self._writer.write(self._request)
        head = (await self._reader.readuntil(HEAD_END)).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if not head.startswith(b"http/1.1 200 ") or not json.loads(body)["outcomes"][0]["taskId"]:
            raise Refused(body.decode())

    async def close(self) -> None:
        """Closes it."""
        self._writer.close()
        await self._writer.wait_closed()


async def gateway(plan: Plan, folder: Path) -> Report:
    """Measures a full house, then a calm one."""
    tasks, calm_tasks = plan.count(TASKS), plan.count(CALM_TASKS, least=20)
    async with running(folder, Sqlite(folder), Setup(CONCURRENCY, plan.profile, NAME)) as cluster:
        async with AsyncExitStack() as stack:
            connections = [await _connect(cluster, stack) for _ in range(CONNECTIONS)]
            await _one_pass(cluster, connections, plan.count(WARM_UP))
            before = cluster.costs()
            rates = [await _one_pass(cluster, connections, tasks) for _ in range(plan.repeats)]
            cost = cost_per(before, cluster.costs(), tasks * plan.repeats)
            calm = await _calmly(cluster, connections, calm_tasks)
            await until(lambda: tasks_ended(cluster.client), cluster.submitted_tasks, cluster.check)
    detail = {
        "connections": CONNECTIONS, "tasks": tasks, "repeats": [figure(rate) for rate in rates],
        "cost_us_per_task": cost, "calm_tasks": calm_tasks,
        "p50_ms_at_100": figure(percentile(calm, 50) * 1000), "p99_ms_at_100": figure(percentile(calm, 99) * 1000),
        "settings": cluster.facts,
    }  # fmt: skip
    return Report(NAME, figure(median(rates)), "requests/s", detail)


async def _connect(cluster: Cluster, stack: AsyncExitStack) -> Connection:
    host, _, port = cluster.http_address.rpartition(":")
    connection = Connection(*await asyncio.open_connection(host, int(port)), cluster.token)
    stack.push_async_callback(connection.close)
    return connection


async def _one_pass(cluster: Cluster, connections: list[Connection], tasks: int) -> float:
    """Returns requests a second, from the first until the last is answered; then waits until every task has ended."""
    free = list(connections)

    async def submit() -> None:
        connection = free.pop()
        await connection.submit()
        free.append(connection)

    start = time.perf_counter()
    cluster.submitted_tasks += tasks
    await call_repeatedly(len(connections), tasks, submit)
    taken_s = time.perf_counter() - start
    await until(lambda: tasks_ended(cluster.client), cluster.submitted_tasks, cluster.check)
    return tasks / taken_s


async def _calmly(cluster: Cluster, connections: list[Connection], tasks: int) -> list[float]:
    """Returns seconds that each answer took, at CALM_RATE requests a second, whatever the ones before took."""
    taken: list[float] = []

    async def submit(connection: Connection) -> None:
        start = time.perf_counter()
        await connection.submit()
        taken.append(time.perf_counter() - start)

    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(tasks):
            await asyncio.sleep(begin + number / CALM_RATE - time.perf_counter())
            group.create_task(submit(connections[number % len(connections)]), name=f"request {number}")
    cluster.submitted_tasks += tasks
    return taken
