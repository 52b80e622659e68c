"""A scheduler and a worker as a user starts them: separate processes over TCP, every setting at its default.

What is set is what two things on one machine cannot share (ports, directories), and the worker's concurrency
where a benchmark says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.child import Child, ChildFailed
from bench.database import COUNT_RUNS, COUNT_TASKS, Database
from bench.plan import FOLDER
from taskyard_client import AsyncClient, TaskyardError
from taskyard_service.identity import Identity, Role, sign_token

START_TIMEOUT_S = 60.0
TOKEN_LIFE_S = 24 * 3600
TENANT = "default"
SUCCESS = 2  # of both taskyard.v1.TaskStatus and taskyard.v1.RunState

ROOT = Path(__file__).resolve().parent.parent
HANDLERS = ROOT / "bench" / "handlers.py"


class WrongEnd(AssertionError):
    """The database does not hold what was submitted, all of it ended well: the figure is worth nothing."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What differs between clusters.

    Attributes:
        concurrency: The worker's max_concurrency; None: its default.
        profile: Services to run under the sampler.
        profile_name: What the profiles are called.
    """

    concurrency: int | None = None
    profile: frozenset[str] = frozenset()
    profile_name: str = ""


@dataclass(slots=True)
class Cluster:
    """A running cluster. `costs` are processor seconds by process; `facts` is filled when it has stopped."""

    address: str
    http_address: str
    token: str
    client: AsyncClient
    scheduler: Child
    worker: Child
    database: Database
    submitted_tasks: int = 0
    submitted_runs: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Raises ChildFailed when one of its processes has ended."""
        self.scheduler.check()
        self.worker.check()

    def costs(self) -> dict[str, float]:
        """Returns the processor time that each process has used so far, in seconds."""
        own = os.times()
        return {
            "scheduler": self.scheduler.cpu_s(),
            "scheduler_main_thread": self.scheduler.main_thread_cpu_s(),
            "worker": self.worker.cpu_s(),
            "client": own.user + own.system,
            "database": self.database.cpu_s(),
        }


@asynccontextmanager
async def running(folder: Path, database: Database, setup: Setup) -> AsyncIterator[Cluster]:
    """Starts a cluster, and when the block ends without an error stops it and checks what it left.

    Every task and run counted in `submitted_tasks` and `submitted_runs` must be in the database, ended well, and
    nothing else.

    Raises:
        ChildFailed: A process did not start or stop as it should.
        WrongEnd: The database holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing else runs yet
    database.start()
    children: list[Child] = []
    try:
        secret = secrets.token_hex(32)
        scheduler, told = await _start_scheduler(folder, database, secret, setup)
        children.append(scheduler)
        address = told["grpc_address"]
        worker = _start_worker(folder, address, secret, setup)
        children.append(worker)
        token = _token(secret, "bench", Role.OPERATOR)
        async with AsyncClient(address, token) as client:
            await _until_ready(client, children)
            cluster = Cluster(address, told["http_address"], token, client, scheduler, worker, database)
            yield cluster
            cluster.facts = {
                "scheduler_rss_mb": round(scheduler.peak_rss_mb()), "worker_rss_mb": round(worker.peak_rss_mb()),
                "max_concurrency": await _concurrency(client),
            }  # fmt: skip
        worker.stop()
        scheduler.stop()
        _check(cluster)
        cluster.facts |= await database.settings()
        for child in children:
            for line in child.complaints()[:5]:
                print(f"{child.name} says: {line}", file=sys.stderr)
    finally:
        for child in children:
            child.kill()
        database.stop()


async def _start_scheduler(folder: Path, database: Database, secret: str, setup: Setup) -> tuple[Child, dict[str, str]]:
    environ = _environ() | database.environ() | {
        "TASKYARD_SECRET": secret, "TASKYARD_DATA": str(folder), "TASKYARD_BIND": "127.0.0.1",
        "TASKYARD_GRPC_PORT": "0", "TASKYARD_HTTP_PORT": "0",
    }  # fmt: skip
    child = Child("scheduler", _command("scheduler", setup), folder, environ)
    told = folder / "scheduler.json"
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        while not told.exists():
            child.check()
            if time.monotonic() > deadline:
                raise ChildFailed(f"the scheduler did not say where it listens:\n{child.log_tail()}")
            await asyncio.sleep(0.02)  # another program's start has no signal that we could wait on
    except BaseException:
        child.kill()
        raise
    return child, json.loads(told.read_text(encoding="utf-8"))


def _start_worker(folder: Path, address: str, secret: str, setup: Setup) -> Child:
    data = folder / "worker"
    data.mkdir()
    environ = _environ() | {
        "TASKYARD_ADDRESS": address, "TASKYARD_TOKEN": _token(secret, "worker", Role.WORKER),
        "TASKYARD_DATA": str(data), "TASKYARD_HTTP_PORT": "0",
    }  # fmt: skip
    if setup.concurrency is not None:
        environ["TASKYARD_CONCURRENCY"] = str(setup.concurrency)
    return Child("worker", [*_command("worker", setup), "--tasks", str(HANDLERS)], folder, environ)


def _command(service: str, setup: Setup) -> list[str]:
    if service not in setup.profile:
        return [str(Path(sys.executable).with_name("taskyard")), service]
    out = FOLDER / "profiles" / f"{setup.profile_name}-{service}.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    return [sys.executable, "-m", "bench.sampler", str(out), service]


def _environ() -> dict[str, str]:
    """Returns our own environment without settings of some other Taskyard; the sampler is found by PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
    return kept | {"PYTHONPATH": str(ROOT)}


def _token(secret: str, subject: str, role: Role) -> str:
    return sign_token(secret, Identity(subject, TENANT, role), int(time.time()) + TOKEN_LIFE_S)


async def _until_ready(client: AsyncClient, children: list[Child]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    last = "no worker is healthy"
    while time.monotonic() < deadline:
        for child in children:
            child.check()
        try:
            if (await client.cluster_status()).workers_healthy:
                return
        except TaskyardError as error:
            last = str(error)
        await asyncio.sleep(0.02)
    logs = "\n".join(f"{child.name}:\n{child.log_tail()}" for child in children)
    raise ChildFailed(f"the cluster is not ready after {START_TIMEOUT_S:g} s: {last}\n{logs}")


async def _concurrency(client: AsyncClient) -> int:
    return [worker.max_concurrency async for worker in client.workers()].pop()


def _check(cluster: Cluster) -> None:
    """Compares the database with what was submitted."""
    tasks, runs = cluster.database.count(COUNT_TASKS), cluster.database.count(COUNT_RUNS)
    wanted_runs = {SUCCESS: cluster.submitted_runs} if cluster.submitted_runs else {}
    wanted_tasks = {SUCCESS: cluster.submitted_tasks}
    if tasks != wanted_tasks or runs != wanted_runs:
        raise WrongEnd(
            f"the database holds tasks {tasks} and runs {runs} by state, but {wanted_tasks} and {wanted_runs} were"
            " submitted and reported as ended"
        )
