"""What `taskyard dev` tells its services, as environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from taskyard_cli.dev.place import Place
from taskyard_cli.token_command import Role

BIND = "127.0.0.1"
REACH_GRACE_S = "0.5"
"""Here a scheduler that is gone does not come back before its worker is to stop; what is not handed in is next time."""
_DROPPED = ("TASKYARD_WORKER_ID", "TASKYARD_SCHEDULER_ID", "TASKYARD_ELECTION", "TASKYARD_CA")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to run.

    Attributes:
        workers: How many.
        tasks: Files of handlers, absolute, or modules; none: the built-in ones only.
        concurrency: Tasks that one worker runs at once; None: its default.
        grpc_port: The scheduler's. 0: a free one.
        http_port: The scheduler's. 0: a free one.
        cpus: Cores that one worker offers; None: what the environment says, else none.
        memory_mb: Memory that one worker offers, in MiB; None: as for `cpus`.
        gpus: GPUs that one worker offers; None: as for `cpus`.
    """

    workers: int
    tasks: tuple[str, ...]
    concurrency: int | None
    grpc_port: int
    http_port: int
    cpus: float | None = None
    memory_mb: int | None = None
    gpus: int | None = None


def scheduler_environment(place: Place, plan: Plan, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the scheduler's environment."""
    return _own(environ) | {
        "TASKYARD_DATA": str(place.path),
        "TASKYARD_DATABASE": f"sqlite:///{place.path / 'taskyard.db'}",
        "TASKYARD_SECRET": place.secret,
        "TASKYARD_BIND": BIND,
        "TASKYARD_GRPC_PORT": str(plan.grpc_port),
        "TASKYARD_HTTP_PORT": str(plan.http_port),
    }


def worker_environment(
    place: Place, plan: Plan, environ: Mapping[str, str], *, address: str, data: Path
) -> dict[str, str]:
    """Returns a worker's environment. It does not get the secret: its token is all that it needs."""
    own = {"TASKYARD_REACH_GRACE_S": REACH_GRACE_S} | _own(environ)
    own.pop("TASKYARD_SECRET", None)
    own |= {
        "TASKYARD_ADDRESS": address,
        "TASKYARD_TOKEN": place.token(Role.WORKER),
        "TASKYARD_DATA": str(data),
        "TASKYARD_BIND": BIND,
        "TASKYARD_HTTP_PORT": "0",
    }
    if plan.tasks:
        own["TASKYARD_TASKS"] = ",".join(plan.tasks)
    given = {
        "TASKYARD_CONCURRENCY": plan.concurrency,
        "TASKYARD_CPUS": plan.cpus,
        "TASKYARD_MEMORY_MB": plan.memory_mb,
        "TASKYARD_GPUS": plan.gpus,
    }
    return own | {name: str(value) for name, value in given.items() if value is not None}


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in _DROPPED} | {"PYTHONUNBUFFERED": "1"}
