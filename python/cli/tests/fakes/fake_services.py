"""A scheduler and a worker that do as little as `taskyard dev` can notice. FAKE_... variables make them fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taskyard.v1 import fleet_pb2


def _say(event: str, **facts: Any) -> None:
    sys.stderr.write(json.dumps({"event": event, "level": "info", "time": "2026-11-29T19:43:07Z"} | facts) + "\n")


def scheduler(arguments: Sequence[str]) -> int:
    """Serves a scripted server that knows a worker for each file `alive`."""
    if code := int(os.environ.get("FAKE_SCHEDULER_EXIT", "0")):
        sys.stderr.write("the port is taken\n")
        return code
    asyncio.run(_serve(Path(os.environ["TASKYARD_DATA"])))
    _say("scheduler stopped")
    return 0


async def _serve(data: Path) -> None:
    from scripted_server import Fleet, ScriptedServer  # here, since a worker needs neither it nor gRPC

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def workers(self: Fleet, request: Any, context: Any) -> fleet_pb2.ListWorkersResponse:
        return _alive(data)

    setattr(Fleet, "ListWorkers", workers)  # noqa: B010  a method of the model is replaced
    async with ScriptedServer() as server:
        announced = {"grpc_address": server.address, "http_address": "127.0.0.1:1", "pid": os.getpid()}
        (data / "scheduler.json").write_text(json.dumps(announced))
        await stop.wait()


def _alive(data: Path) -> fleet_pb2.ListWorkersResponse:
    healthy = fleet_pb2.WorkerState.WORKER_STATE_HEALTHY
    found = [path.parent.name for path in sorted(data.glob("worker-*/alive"))]
    return fleet_pb2.ListWorkersResponse(
        workers=[fleet_pb2.Worker(worker_id=f"id-of-{name}", state=healthy) for name in found]
    )


def worker(arguments: Sequence[str]) -> int:
    """Waits for SIGTERM, with a file `alive` beside it."""
    if code := int(os.environ.get("FAKE_WORKER_EXIT", "0")):
        return code
    data = Path(os.environ["TASKYARD_DATA"])
    data.mkdir(exist_ok=True)
    told = {name: value for name, value in os.environ.items() if name.startswith("TASKYARD_")}
    (data / "told.json").write_text(json.dumps(told))
    (data / "pid").write_text(str(os.getpid()))
    (data / "alive").touch()
    if os.environ.get("FAKE_WORKER_LEAVES"):  # a process that holds on to what it inherits
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        (data / "left").write_text(str(left.pid))
    _say("worker started", pid=os.getpid())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})
    _say("worker stopped")
    return 0
