"""A site: a database, schedulers, workers and clients of one test, as real processes on free ports.

Knows how they are started and spoken to; no test's story.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
from servers import free_port

from e2e.database import Database, open_database
from e2e.process import PATIENCE_S, Process, until
from taskyard.v1 import artifacts_pb2_grpc, fleet_pb2_grpc, tasks_pb2_grpc, workers_pb2_grpc, workflows_pb2_grpc
from taskyard_client import AsyncClient, TaskyardError
from taskyard_service.identity import Identity, Role, sign_token

HANDLERS = Path(__file__).with_name("handlers.py")
TENANT = "default"
SCHEDULER = "import sys; from taskyard_scheduler.main import main; sys.exit(main())"
WORKER = "import sys; from taskyard_worker.main import main; sys.exit(main())"
QUICK = {  # seconds; tests wait for what production may take its time for
    "TASKYARD_HEARTBEAT_INTERVAL_S": "1",
    "TASKYARD_WORKER_SILENCE_S": "5",
    "TASKYARD_LEASE_S": "8",
    "TASKYARD_CANCEL_GRACE_S": "1",
    "TASKYARD_TAKEOVER_GRACE_S": "2",
    "TASKYARD_STOP_GRACE_S": "5",
}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What an HTTP port answered."""

    status: int
    body: str


class Site:
    """Everything of one test. Whatever it started is killed by `close`.

    Args:
        folder: Of this test alone.
        database_url: Of the database; empty: SQLite in `folder`.
    """

    def __init__(self, folder: Path, database_url: str = "") -> None:
        self.folder = folder
        self.secret = secrets.token_hex(32)
        self.data = folder / "data"
        self.database_url = database_url
        self.records = folder / "records"
        self.port = free_port()
        self.http_port = free_port()
        self.processes: list[Process] = []
        self._stack = AsyncExitStack()
        self._numbers = itertools.count(1)

    @property
    def address(self) -> str:
        """Where the scheduler listens; the same after a restart."""
        return f"127.0.0.1:{self.port}"

    def database(self) -> Database:
        """Opens the database itself, for a look behind the API; the caller closes it."""
        return open_database(self.database_url or f"sqlite:///{self.data / 'taskyard.db'}")

    # Processes.

    def environ(self, **settings: str) -> dict[str, str]:
        """Returns an environment with nothing of Taskyard but these settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
        return kept | {"E2E_RECORDS": str(self.records)} | settings

    def launch_scheduler(
        self, name: str = "scheduler", *, port: int = 0, http_port: int = 0, settings: Mapping[str, str] | None = None
    ) -> Process:
        """Starts a scheduler without waiting for anything. Ports default to the site's."""
        environ = self.environ(
            **QUICK,
            TASKYARD_SECRET=self.secret,
            TASKYARD_DATA=str(self.data),
            TASKYARD_DATABASE=self.database_url,
            TASKYARD_BIND="127.0.0.1",
            TASKYARD_GRPC_PORT=str(port or self.port),
            TASKYARD_HTTP_PORT=str(http_port or self.http_port),
            TASKYARD_SCHEDULER_ID=name,
        )
        return self._launch(name, SCHEDULER, environ | dict(settings or {}))

    async def start_scheduler(
        self, name: str = "scheduler", *, port: int = 0, http_port: int = 0, settings: Mapping[str, str] | None = None
    ) -> Process:
        """Starts a scheduler and waits until it leads."""
        process = self.launch_scheduler(name, port=port, http_port=http_port, settings=settings)
        await process.wait_event("leading")
        await until(lambda: self.http("/readyz", http_port or self.http_port).status == 200, what="readiness")
        return process

    def launch_worker(
        self,
        name: str = "",
        *,
        address: str = "",
        concurrency: int = 20,
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Process:
        """Starts a worker with the handlers of these tests, without waiting for anything."""
        name = name or f"worker-{next(self._numbers)}"
        environ = self.environ(
            TASKYARD_ADDRESS=address or self.address,
            TASKYARD_TOKEN=self.token(Role.WORKER),
            TASKYARD_WORKER_ID=name,
            TASKYARD_DATA=str(data or self.folder / f"{name}-data"),
            TASKYARD_BIND="127.0.0.1",
            TASKYARD_HTTP_PORT="0",
            TASKYARD_CONCURRENCY=str(concurrency),
            TASKYARD_DRAIN_GRACE_S="1",
            TASKYARD_TASKS=str(HANDLERS),
        )
        return self._launch(name, WORKER, environ | dict(settings or {}))

    async def start_worker(
        self,
        name: str = "",
        *,
        concurrency: int = 20,
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Process:
        """Starts a worker and waits until the scheduler sends it tasks."""
        process = self.launch_worker(name, concurrency=concurrency, data=data, settings=settings)
        await self.wait_healthy(process.name)
        return process

    async def wait_healthy(self, worker_id: str, within: float = PATIENCE_S) -> None:
        """Waits until a worker takes tasks."""
        client = self.client()

        async def healthy() -> bool:
            try:
                return any(
                    [w async for w in client.workers(filter=f'worker_id == "{worker_id}" && state == "HEALTHY"')]
                )
            except TaskyardError:
                return False

        await until(healthy, within, f"worker {worker_id} is healthy")

    def _launch(self, name: str, program: str, environ: Mapping[str, str]) -> Process:
        process = Process(name, [sys.executable, "-c", program], self.folder, environ)
        self.processes.append(process)
        return process

    # Doors.

    def token(self, role: Role = Role.OPERATOR, tenant: str = TENANT, *, secret: str = "", life_s: int = 3600) -> str:
        """Signs a token."""
        return sign_token(secret or self.secret, Identity("test", tenant, role), int(time.time()) + life_s)

    def client(self, role: Role = Role.OPERATOR, tenant: str = TENANT, *, timeout: float = 10.0) -> AsyncClient:
        """Returns a client; closed with the site."""
        return self.client_of(self.token(role, tenant), timeout=timeout)

    def client_of(self, token: str | None, *, address: str = "", timeout: float = 10.0) -> AsyncClient:
        """Returns a client that shows this token; closed with the site."""
        client = AsyncClient(address or self.address, token, timeout=timeout)
        self._stack.push_async_callback(client.close)
        return client

    def door(self, token: str | None, address: str = "") -> Door:
        """Returns bare stubs, for calls that no client library would make; closed with the site."""
        channel = grpc.aio.insecure_channel(address or self.address, options=[("grpc.max_send_message_length", -1)])
        self._stack.push_async_callback(channel.close)
        return Door(channel, (("authorization", f"Bearer {token}"),) if token is not None else ())

    def http(self, path: str, port: int = 0) -> HttpAnswer:
        """Asks the scheduler's HTTP port; status 0: nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.http_port}{path}", timeout=2) as answer:
                return HttpAnswer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return HttpAnswer(error.code, error.read().decode())
        except OSError:
            return HttpAnswer(0, "")

    def announced(self) -> dict[str, str]:
        """Returns what the scheduler left in its data directory."""
        told: dict[str, str] = json.loads((self.data / "scheduler.json").read_text())
        return told

    async def leave(self) -> None:
        """Closes clients and stubs; what runs goes on."""
        await self._stack.aclose()

    async def close(self) -> None:
        """Ends everything: clients first, then what was started."""
        await self.leave()
        for process in self.processes:
            process.kill()

    def logs(self) -> str:
        """Returns the end of every process' log, for a test that failed."""
        return "\n".join(
            f"--- {p.name} (exit code {p.code})\n" + "\n".join(p.text().splitlines()[-40:]) for p in self.processes
        )


class Door:
    """Bare gRPC stubs and the metadata to call them with."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]) -> None:
        self.channel = channel
        self.metadata = metadata
        self.tasks = tasks_pb2_grpc.TaskServiceStub(channel)
        self.workflows = workflows_pb2_grpc.WorkflowServiceStub(channel)
        self.fleet = fleet_pb2_grpc.FleetServiceStub(channel)
        self.artifacts = artifacts_pb2_grpc.ArtifactServiceStub(channel)
        self.workers = workers_pb2_grpc.WorkerServiceStub(channel)
