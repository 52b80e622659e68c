"""The demo's processes: a scheduler and workers on free ports, in a data directory of their own.

Unlike `taskyard dev` nothing that dies is started again by itself: here somebody kills on purpose.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from taskyard.v1.fleet_pb2 import WorkerState
from taskyard_cli.dev.child import Child
from taskyard_cli.dev.environment import Plan, scheduler_environment, worker_environment
from taskyard_cli.dev.place import Place
from taskyard_cli.dev.supervisor import LOOK_S, READY_S, STOP_S
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.token_command import Role
from taskyard_client import AsyncClient

WORKERS = ("demo-worker-1", "demo-worker-2")
HANDLERS = "taskyard_cli.demo.handlers"
LEASE_S, HEARTBEAT_S = 5, 1
"""A dead worker's tasks go to another when their lease ends. By default that is 60 s, renewed every 10 s."""

CONCURRENCY = 2


class Fleet:
    """What the demo runs.

    Args:
        place: The data directory, owned.
        environ: Our own environment, from which the services' are made.
    """

    def __init__(self, place: Place, environ: Mapping[str, str]) -> None:
        self._place = place
        self._environ = environ
        self._plan = Plan(len(WORKERS), (HANDLERS,), CONCURRENCY, 0, 0)
        self._group = asyncio.TaskGroup()
        self._children: dict[str, Child] = {}
        self._wanted: set[str] = set()
        self.address = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncClient]:
        """Starts everything, yields a client when all workers take tasks, and stops everything in order.

        Raises:
            CliError: Something died that nobody killed, or was not ready in time.
        """
        try:
            async with self._group:
                try:
                    await self._start_scheduler()
                    for name in WORKERS:
                        await self.start_worker(name)
                    async with AsyncClient(self.address, self._place.token(Role.ADMIN)) as client:
                        await self.wait_healthy(client)
                        yield client
                finally:
                    await self._stop()
        except BaseExceptionGroup as group:
            raise _first(group) from None

    async def start_worker(self, name: str) -> None:
        """Starts a worker, or starts it again: its id and its data directory stay."""
        data = self._place.path / name
        environ = worker_environment(self._place, self._plan, self._environ, address=self.address, data=data)
        await self._start(name, "worker", environ | {"TASKYARD_WORKER_ID": name})

    async def wait_healthy(self, client: AsyncClient) -> None:
        """Returns when every worker takes tasks.

        Raises:
            CliError: Not in time.
        """
        async with self._in_time("the workers were"):
            while True:
                if len(await self._healthy(client)) == len(WORKERS):
                    return
                await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def _in_time(self, who: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(READY_S):
                yield
        except TimeoutError:
            logs = self._place.path / "*.log"
            raise CliError(f"{who} not ready within {READY_S:.0f} s; see {logs}", Exit.FAILED) from None

    async def _healthy(self, client: AsyncClient) -> list[str]:
        healthy = WorkerState.WORKER_STATE_HEALTHY
        return [each.worker_id async for each in client.workers() if each.state == healthy]

    def freeze(self, name: str) -> None:
        """Stops a worker where it is (SIGSTOP)."""
        os.kill(self._children[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Lets a frozen worker go on."""
        os.kill(self._children[name].pid, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kills a worker as `kill -9` does."""
        self._wanted.discard(name)
        os.kill(self._children[name].pid, signal.SIGKILL)

    async def _start_scheduler(self) -> None:
        environ = scheduler_environment(self._place, self._plan, self._environ)
        quick = {"TASKYARD_LEASE_S": str(LEASE_S), "TASKYARD_HEARTBEAT_INTERVAL_S": str(HEARTBEAT_S)}
        await self._start("scheduler", "scheduler", environ | quick)
        async with self._in_time("the scheduler was"):
            self.address = str((await self._announcement())["grpc_address"])
        self._place.leave_for_command(self.address)

    async def _announcement(self) -> dict[str, Any]:
        """Returns what the scheduler says of itself in a file; nothing signals that it is there."""
        while True:
            try:
                found: dict[str, Any] = json.loads((self._place.path / "scheduler.json").read_bytes())
            except (FileNotFoundError, ValueError):
                await asyncio.sleep(LOOK_S)  # not there yet, or being written
            else:
                return found

    async def _start(self, name: str, service: str, environ: Mapping[str, str]) -> None:
        child = Child(name, service, environ, self._place.path / f"{name}.log", lambda line: None)
        await child.start()
        self._children[name] = child
        self._wanted.add(name)
        self._group.create_task(self._watch(child), name=f"watch {name}")

    async def _watch(self, child: Child) -> None:
        code = await child.ended()
        if child.name in self._wanted and self._children[child.name] is child:
            log = self._place.path / f"{child.name}.log"
            raise CliError(f"{child.name} ended by itself (exit code {code}); {log} says why", Exit.FAILED)

    async def _stop(self) -> None:
        """Workers first, so that what they report is still committed; then the scheduler."""
        self._wanted.clear()
        workers = [child for name, child in self._children.items() if name != "scheduler"]
        await _end(workers)
        await _end([child for child in self._children.values() if child not in workers])


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _end(children: list[Child]) -> None:
    for child in children:
        child.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await asyncio.gather(*(child.gone() for child in children))
    except TimeoutError:
        for child in children:
            child.kill()
