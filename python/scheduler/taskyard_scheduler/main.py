"""`taskyard scheduler`: reads the settings, builds the parts, serves until it is told to stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.metadata
import json
import os
import random
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from taskyard.v1 import artifacts_pb2_grpc, fleet_pb2_grpc, tasks_pb2_grpc, workers_pb2_grpc, workflows_pb2_grpc
from taskyard_core.engine import Limits
from taskyard_core.ids import IdSource
from taskyard_scheduler.artifacts import ArtifactStoreError, ArtifactStoreUnavailable, open_artifacts
from taskyard_scheduler.artifacts.removal import Removal
from taskyard_scheduler.artifacts.uploads import Limits as UploadLimits
from taskyard_scheduler.artifacts.uploads import Uploads
from taskyard_scheduler.election import open_election
from taskyard_scheduler.figures import keep_figures
from taskyard_scheduler.grpc_errors import translate
from taskyard_scheduler.logs import FileLogStore
from taskyard_scheduler.logs.port import LogStoreError
from taskyard_scheduler.logs.tenure import Tenure
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.artifact_bytes import bytes_routes
from taskyard_scheduler.services.artifact_paths import artifact_paths
from taskyard_scheduler.services.artifacts import ArtifactService
from taskyard_scheduler.services.fleet import FleetService
from taskyard_scheduler.services.tasks import TaskService
from taskyard_scheduler.services.workers import WorkerService
from taskyard_scheduler.services.workflows import WorkflowService
from taskyard_scheduler.settings import SchedulerSettings
from taskyard_scheduler.store import open_store
from taskyard_scheduler.store.open import shown
from taskyard_scheduler.store.port import Store, StoreError
from taskyard_service.access import contract_access
from taskyard_service.gateway.app import make_app, paths_of
from taskyard_service.gateway.gateway import Gateway
from taskyard_service.gateway.openapi.comments import contract_comments
from taskyard_service.gateway.openapi.document import About, make_document
from taskyard_service.gateway.probes import Reason, probe_routes
from taskyard_service.gateway.server import HttpServer
from taskyard_service.gateway.table import MethodTable
from taskyard_service.health import Health
from taskyard_service.identity import TokenVerifier, WeakSecret
from taskyard_service.interceptors import AuthInterceptor, ErrorInterceptor
from taskyard_service.lifecycle import BackgroundTask, Group, LoopFailed, signals
from taskyard_service.logging import adopt_stdlib, make_logger
from taskyard_service.metrics import Metrics
from taskyard_service.server import CannotListen, GrpcServer, raise_file_limit, run
from taskyard_service.settings import SettingsError, unknown_variables
from taskyard_service.watchdog import Stall, Watchdog

SERVICES = (
    "taskyard.v1.TaskService",
    "taskyard.v1.WorkflowService",
    "taskyard.v1.FleetService",
    "taskyard.v1.WorkerService",
    "taskyard.v1.ArtifactService",
)
GC_THRESHOLDS = (50_000, 20, 100)
"""Tens of thousands of live tasks are objects without cycles; at Python's defaults a fifth of the time goes into
looking through them again and again."""
SWITCH_INTERVAL_S = 0.0005
"""The thread that commits asks for the interpreter a few times per transaction; at Python's default it would wait 5 ms
each time while the event loop is busy."""
OWNER_ONLY = 0o077
"""The umask: what people's tasks carry is in the database and its log, which SQLite makes for everyone to read."""
EXIT_SETTINGS = 64
EXIT_CANNOT_LISTEN = 68
EXIT_CANNOT_START = 69
EXIT_FAULT = 70


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Runs a scheduler; returns the exit code.

    0 stopped as told; 64 bad settings or arguments; 68 cannot listen; 69 could not start, or not go on; 70 a defect.
    """
    try:
        _parser().parse_args([] if argv is None else argv)
    except SystemExit as stop:  # it has printed the help, or what is wrong
        return EXIT_SETTINGS if stop.code else 0
    try:
        settings = SchedulerSettings.load(os.environ if environ is None else environ)
        verifier = TokenVerifier(settings.secret.get_secret_value(), wall_ms)
    except (SettingsError, WeakSecret) as error:
        print(f"taskyard scheduler: {error}", file=sys.stderr)  # noqa: T201 - before there is a logger
        return EXIT_SETTINGS
    os.umask(OWNER_ONLY)
    raise_file_limit()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    return run(lambda: serve(settings, verifier))


def _parser() -> argparse.ArgumentParser:
    """Returns the parser that gives help and refuses what would else be passed over in silence."""
    return argparse.ArgumentParser(
        prog="taskyard scheduler",
        description="Run a scheduler. It has no options: its settings are TASKYARD_... variables, of which "
        "TASKYARD_SECRET is required (at least 32 bytes; `openssl rand -hex 32` makes one). The others say where "
        "it listens (TASKYARD_BIND, TASKYARD_GRPC_PORT, TASKYARD_HTTP_PORT) and where its data is (TASKYARD_DATA, "
        "TASKYARD_DATABASE); docs/configuration.md has all. `taskyard dev` needs none of them.",
    )


def wall_ms() -> int:
    """Returns Unix milliseconds."""
    return time.time_ns() // 1_000_000


async def serve(settings: SchedulerSettings, verifier: TokenVerifier) -> int:
    """Serves until a signal or a failure; returns the exit code."""
    name = settings.scheduler_id or f"{socket.gethostname()}-{os.getpid()}"
    log = make_logger("scheduler", settings.log_level).bind(scheduler_id=name)
    adopt_stdlib(log)
    for sentence in unknown_variables(os.environ, [SchedulerSettings]):
        log.debug("a variable that no setting of the scheduler has", variable=sentence)
    if risk := settings.exclusive_risk():
        log.warning("the lease is short for exclusive tasks", reason=risk)
    try:
        settings.folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        store = open_store(settings.database_url(), synchronous=settings.synchronous)
        await store.open()
    except (StoreError, OSError, ValueError) as error:
        log.error("cannot start", error=str(error), database=shown(settings.database_url()))
        return EXIT_CANNOT_START
    try:
        return await _serve(settings, verifier, store, name, log)
    except (CannotListen, StoreError, LogStoreError, ArtifactStoreError, OSError) as error:
        log.error("cannot go on", error=str(error))
        return EXIT_CANNOT_LISTEN if isinstance(error, CannotListen) else EXIT_CANNOT_START
    except LoopFailed as error:
        known = isinstance(error.__cause__, StoreError | LogStoreError | ArtifactStoreError | OSError)
        log.error("cannot go on", error=str(error), exc_info=None if known else error.__cause__)
        return EXIT_CANNOT_START if known else EXIT_FAULT
    finally:
        await store.close()


async def _serve(
    settings: SchedulerSettings, verifier: TokenVerifier, store: Store, name: str, log: FilteringBoundLogger
) -> int:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    health = Health(SERVICES)
    logs = FileLogStore(settings.folder() / "logs", log)
    artifacts = open_artifacts(settings.artifact_url.get_secret_value(), settings.folder(), log)
    tenures = Tenure(logs, log), Tenure(artifacts, log, "artifacts", ArtifactStoreUnavailable)

    async def leading(now: bool) -> None:
        """The folders of logs and artifacts, and the health service, go with leadership."""
        health.set_serving(False)
        for tenure in tenures:
            await (tenure.begin() if now else tenure.end())
        health.set_serving(now)

    kind = settings.election_kind()
    await store.record_election(kind)
    scheduler = Scheduler(
        scheduler_id=name,
        store=store,
        election=open_election(kind, url=settings.database_url(), data=settings.folder()),
        limits=limits_of(settings),
        wall=wall_ms,
        rng=random.Random(secrets.randbits(256)),  # noqa: S311 - ids and tokens tell attempts apart, they guard nothing
        metrics=metrics,
        log=log,
        on_leading=leading,
    )
    task_service, workflow_service = TaskService(scheduler, logs), WorkflowService(scheduler)
    fleet_service, worker_service = (
        FleetService(scheduler),
        WorkerService(scheduler, logs, settings.heartbeat_interval_s),
    )
    uploads = Uploads(artifacts, IdSource(secrets.randbits), UploadLimits(settings.artifact_limit_mb << 20))
    artifact_service = ArtifactService(scheduler, artifacts, uploads)
    errors = ErrorInterceptor(log, translate=translate, count_error=metrics.count_error)
    interceptors = [errors, AuthInterceptor(verifier, contract_access(), count_error=metrics.count_error)]
    server = GrpcServer(settings.bind, settings.grpc_port, interceptors, stop_grace_s=settings.stop_grace_s)
    table = MethodTable(interceptors)
    for each in (server.server, cast(Any, table)):  # over gRPC, and over HTTP by the same handlers
        tasks_pb2_grpc.add_TaskServiceServicer_to_server(task_service, each)
        workflows_pb2_grpc.add_WorkflowServiceServicer_to_server(workflow_service, each)
        fleet_pb2_grpc.add_FleetServiceServicer_to_server(fleet_service, each)
        workers_pb2_grpc.add_WorkerServiceServicer_to_server(worker_service, each)
        artifacts_pb2_grpc.add_ArtifactServiceServicer_to_server(artifact_service, each)
    health.register(server.server)
    routes = [probe_routes(lambda: readiness(scheduler), registry), bytes_routes(artifact_service, table)]
    gateway = Gateway(table, errors.incident, log, count_error=metrics.count_error, others=paths_of(routes))
    http = HttpServer(
        settings.bind, settings.http_port, make_app(gateway, table, lambda: document(gateway), routes), log,
        on_stop=gateway.close, stop_grace_s=settings.stop_grace_s,
    )  # fmt: skip
    try:
        ports = await server.start(), await http.start()
        announce(settings, name, *ports, log)
        removal = Removal(scheduler, artifacts, uploads, settings.artifact_grace_s, log)
        return await _until_stopped(scheduler, metrics, removal, log)
    finally:
        health.shut_down()
        await asyncio.gather(server.stop(), http.stop())


async def _until_stopped(scheduler: Scheduler, metrics: Metrics, removal: Removal, log: FilteringBoundLogger) -> int:
    group = Group(log)
    watchdog = Watchdog(lambda stall: tell_stall(log, stall), observe_lag=metrics.event_loop_lag.observe)
    scheduler.progress = watchdog.watch("commits", scheduler.has_work)
    group.add(BackgroundTask("scheduler", scheduler.run))
    group.add(BackgroundTask("figures", lambda: keep_figures(scheduler, metrics)))
    group.add(BackgroundTask("removal of artifacts", removal.run))
    group.add(watchdog)
    with signals(group, log):
        reason = await group.run()
    log.info("stopped", reason=reason)
    return 0


def document(gateway: Gateway) -> bytes:
    """Returns the OpenAPI document of what a gateway serves."""
    about = About("Taskyard", importlib.metadata.version("taskyard-scheduler"))
    access = contract_access()
    return make_document(gateway.bindings, contract_comments(), access, about, artifact_paths(access))


def tell_stall(log: FilteringBoundLogger, stall: Stall) -> None:
    """Says that a loop stands still, or moves again."""
    if stall.over:
        log.info("moves again", loop=stall.name, seconds=stall.seconds)
    else:
        log.error("has work and makes no progress", loop=stall.name, seconds=stall.seconds)


def readiness(scheduler: Scheduler) -> list[Reason]:
    """Returns why this scheduler cannot serve now; nothing when it can."""
    if not scheduler.leading:
        return [Reason("NOT_LEADER", "this scheduler does not lead")]
    if scheduler.leader().stalled():
        return [Reason("DATABASE_UNAVAILABLE", "the database does not take commits")]
    return []


def limits_of(settings: SchedulerSettings) -> Limits:
    """Returns the engine's numbers."""
    return Limits(
        lease_ms=settings.lease_s * 1000,
        silence_ms=settings.worker_silence_s * 1000,
        forget_ms=settings.worker_forgotten_hours * 3_600_000,
        cancel_grace_ms=settings.cancel_grace_s * 1000,
        takeover_grace_ms=settings.takeover_grace_s * 1000,
        pending_limit=settings.pending_limit,
    )


def announce(settings: SchedulerSettings, name: str, grpc_port: int, http_port: int, log: FilteringBoundLogger) -> None:
    """Says where it listens, in the log and in `scheduler.json` of the data directory."""
    host = "127.0.0.1" if settings.bind in ("0.0.0.0", "::", "") else settings.bind  # noqa: S104 - compared only
    told = {
        "scheduler_id": name,
        "grpc_address": f"{host}:{grpc_port}",
        "http_address": f"{host}:{http_port}",
        "pid": os.getpid(),
    }
    log.info("listening", **told, bound_to="all addresses" if host != settings.bind else host)
    path = settings.folder() / "scheduler.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(told))
    Path(part).replace(path)
