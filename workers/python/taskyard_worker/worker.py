"""A worker with everything real around it: connection, files, threads, processes, HTTP endpoints.

What a program of its own uses; the `taskyard worker` command is `main`.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import metadata
from random import Random

import psutil

from taskyard_worker.artifact_link import GrpcArtifactLink
from taskyard_worker.endpoints import Endpoints
from taskyard_worker.errors import DataDirectoryError
from taskyard_worker.grpc_link import GrpcLink, ThreadLink
from taskyard_worker.identity import Home, take_home
from taskyard_worker.isolation import ProcessIsolation
from taskyard_worker.keys import FileKeys
from taskyard_worker.logs import Logger, json_logger
from taskyard_worker.metrics import WorkerMetrics
from taskyard_worker.processes import ProcessHost
from taskyard_worker.registry import TaskRegistry, default_registry
from taskyard_worker.runtime import Runtime, Storage
from taskyard_worker.session import Identity, Load
from taskyard_worker.settings import SettingsError, WorkerSettings
from taskyard_worker.spool import FileSpool
from taskyard_worker.stand_in import StandIn
from taskyard_worker.supervision import Supervision
from taskyard_worker.tasks.builtin import NO_ENDPOINT, builtin_handlers, offered
from taskyard_worker.threads import ThreadPool
from taskyard_worker.transfers import Transfers
from taskyard_worker.unsent import FileLogs
from taskyard_worker.watchdog import LoopGuard
from taskyard_worker.work import Places


@dataclass(frozen=True, slots=True)
class Offer:
    """What a worker offers: its own handlers, and the built-in task types unless `builtin` is False.

    `only`: these task types and no others; None: all.
    """

    registry: TaskRegistry = field(default_factory=lambda: default_registry)
    builtin: bool = True
    only: tuple[str, ...] | None = None


class Worker:
    """Runs handlers for a scheduler until it is told to drain.

    ```python
    worker = Worker(WorkerSettings(address="127.0.0.1:9090", token=token))
    asyncio.run(worker.run())
    ```

    Args:
        settings: Where the scheduler is, how much runs at once, which resources are offered, where files go.
        offer: The handlers; by default those of the module's `@task`, and the built-in ones.
        environ: Environment of the processes that handlers and commands run in.
        log: The worker's own log; JSON lines on stderr when None.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        offer: Offer | None = None,
        environ: Mapping[str, str] | None = None,
        log: Logger | None = None,
    ) -> None:
        self._settings = settings
        self._offer = offer or Offer()
        self._environ = dict(os.environ) if environ is None else environ
        self._log = log or json_logger(settings.log_level, component="worker")
        self._runtime: Runtime | None = None
        self._drain_asked = False

    def drain(self) -> None:
        """Stop in good order: `run` returns when what runs has ended or its grace is over. Call it on the loop."""
        self._drain_asked = True
        if self._runtime is not None:
            self._runtime.drain()

    async def run(self) -> None:
        """Work until drained.

        Raises:
            DataDirectoryError: The data directory cannot be used.
            NotAccepted: The scheduler does not want this worker.
            RegistrationError: There is no task type to offer.
            SessionSuperseded: A newer session of this worker id exists.
            Unauthenticated: The scheduler refuses the token.
        """
        async with AsyncExitStack() as stack:
            home = take_home(self._settings.data, self._settings.worker_id)
            stack.callback(home.release)
            self._runtime = await self._assemble(home, stack)
            if self._drain_asked:
                self._runtime.drain()
            try:
                await self._runtime.run()
            finally:
                self._runtime = None

    async def _assemble(self, home: Home, stack: AsyncExitStack) -> Runtime:
        settings, log = self._settings, self._log
        random = Random()  # noqa: S311 - jitter, no secret
        supervision = Supervision(log)
        stack.callback(supervision.close)
        host = ProcessHost(supervision)
        builtin = builtin_handlers(host, self._environ, settings) if self._offer.builtin else ()
        if self._offer.builtin and not settings.llm_base_url and self._offer.only is None:
            log.info("llm_call is not offered", why=NO_ENDPOINT)
        registry = offered(self._offer.registry, builtin, self._offer.only)
        storage = open_storage(home, log)
        threads = ThreadPool(settings.concurrency)
        stack.callback(threads.close)
        metrics = WorkerMetrics()
        port = await self._serve_http(metrics, stack)
        link, thread_link, artifact_link = open_links(settings, random)
        stack.push_async_callback(link.close)
        stack.push_async_callback(artifact_link.close)
        transfers = open_transfers(home, artifact_link, random)
        runtime = Runtime(
            link=link,
            identity=identity(settings, home, port, registry),
            registry=registry,
            storage=storage,
            places=Places(threads, ProcessIsolation(host, self._environ), transfers),
            random=random,
            wall=wall_ms,
            log=log,
            drain_grace_s=settings.drain_grace_s,
            reach_grace_s=settings.reach_grace_s,
            metrics=metrics,
            load=measure_load(),
        )
        guard = LoopGuard(log, StandIn(runtime.work, runtime.session, thread_link, log))
        guard.start()
        stack.callback(guard.close)
        stack.callback(thread_link.close)  # first: it ends a call that the guard waits for
        return runtime

    async def _serve_http(self, metrics: WorkerMetrics, stack: AsyncExitStack) -> int:
        """Serve the endpoints; return the port. The default port gives way to a free one when it is taken."""
        settings = self._settings
        endpoints = Endpoints(metrics, self._not_ready)
        try:
            port = await endpoints.start(settings.bind, settings.http_port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or "http_port" in settings.model_fields_set:
                raise SettingsError(
                    f"TASKYARD_HTTP_PORT is {settings.http_port}, which cannot be bound: {error.strerror}; "
                    "give another, or 0 for a free one"
                ) from error
            port = await endpoints.start(settings.bind, 0)
        stack.push_async_callback(endpoints.close)
        self._log.info("serving /healthz, /readyz, /metrics", bind=settings.bind, port=port)
        return port

    def _not_ready(self) -> str:
        if self._runtime is None:
            return "starting"
        return self._runtime.not_ready()


def identity(settings: WorkerSettings, home: Home, port: int, registry: TaskRegistry) -> Identity:
    """Return who registers."""
    return Identity(
        worker_id=home.worker_id,
        host=settings.host or socket.gethostname(),
        port=port,
        capabilities=tuple(handler.name for handler in registry),
        max_concurrency=settings.concurrency,
        labels={"lang": "python", **settings.labels},
        build_id=metadata.version("taskyard-worker"),
        cpu_millis=settings.cpu_millis,
        memory_mb=settings.memory_mb,
        gpus=settings.gpus,
    )


def open_links(settings: WorkerSettings, random: Random) -> tuple[GrpcLink, ThreadLink, GrpcArtifactLink]:
    """Return the ways to the scheduler: the worker's, that of a thread without event loop, and that of artifacts.

    Raises:
        SettingsError: The certificates cannot be read.
    """
    certificates = None
    if settings.ca is not None:
        from taskyard_client.certificates import BadCertificates, read_certificates  # here, since few workers need it

        try:
            certificates = read_certificates(settings.ca)
        except BadCertificates as error:
            raise SettingsError(f"TASKYARD_CA is {settings.ca}, a file that {error}") from error
    address, token = settings.address, settings.token.get_secret_value()
    return (
        GrpcLink(address, token, random, certificates),
        ThreadLink(address, token, certificates),
        GrpcArtifactLink(address, token, certificates),
    )


def open_transfers(home: Home, link: GrpcArtifactLink, random: Random) -> Transfers:
    """Return what brings artifacts to and fro. Raises DataDirectoryError."""
    try:
        return Transfers(link, home.path / "artifacts", random)
    except OSError as error:
        raise _unusable(home, error) from error


def open_storage(home: Home, log: Logger) -> Storage:
    """Open the files in the worker's directory. Raises DataDirectoryError."""
    try:
        spool = FileSpool(home.path / "spool", time.monotonic, log.error)
        keys = FileKeys(home.path / "keys.jsonl", wall_ms, log.warning)
        return Storage(spool, keys, FileLogs(home.path / "unsent.logs", log.warning))
    except OSError as error:
        raise _unusable(home, error) from error


def _unusable(home: Home, error: OSError) -> DataDirectoryError:
    return DataDirectoryError(
        f"{home.path} cannot be used: {error.strerror or error}; name another directory in TASKYARD_DATA"
    )


def measure_load() -> Callable[[], Load]:
    """Return what tells the load average of one minute and the resident memory of this process in MiB."""
    process = psutil.Process()
    return lambda: (os.getloadavg()[0], process.memory_info().rss // (1024 * 1024))


def wall_ms() -> int:
    """Return Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
