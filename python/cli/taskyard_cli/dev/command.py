"""The command `taskyard dev`: options in, lines for people out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from taskyard_cli import interrupts
from taskyard_cli.dev.environment import Plan
from taskyard_cli.dev.place import Place
from taskyard_cli.dev.supervisor import Supervisor
from taskyard_cli.directory import data_directory
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.service_commands import tasks_file
from taskyard_cli.services import require
from taskyard_cli.show import err, out
from taskyard_cli.values import not_empty


def dev(
    workers: Annotated[int, typer.Option("--workers", "-w", min=0, max=64, help="How many workers.")] = 1,
    tasks: Annotated[
        list[str] | None,
        typer.Option(callback=not_empty, help="Python file with your handlers; may be repeated.", metavar="FILE"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(callback=not_empty, help="Data directory. Else $TASKYARD_DATA, else ~/.local/share/taskyard."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The scheduler's gRPC port; 0: a free one.")] = 9090,
    http_port: Annotated[int, typer.Option(min=0, max=65535, help="Its HTTP port; 0: a free one.")] = 8081,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Tasks at once in a worker; default 10.")] = None,
    cpus: Annotated[
        float | None, typer.Option(min=0, max=1_000, help="Cores that each worker offers to tasks that ask for them.")
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option(min=0, max=100_000_000, help="Memory that each worker offers, in MiB.")
    ] = None,
    gpus: Annotated[int | None, typer.Option(min=0, max=1_000, help="GPUs that each worker offers.")] = None,
) -> None:
    """Run a scheduler and workers here, on SQLite, until Ctrl-C."""
    for_workers = {
        "--tasks": tasks, "--concurrency": concurrency, "--cpus": cpus, "--memory-mb": memory_mb, "--gpus": gpus,
    }  # fmt: skip
    useless = next((option for option, given in for_workers.items() if given is not None and given != []), None)
    if workers == 0 and useless:
        raise CliError(f"{useless} is for workers, and --workers 0 starts none; leave one of the two out", Exit.USAGE)
    plan = Plan(
        workers, tuple(tasks_file(each) for each in tasks or ()), concurrency, port, http_port,
        cpus=cpus, memory_mb=memory_mb, gpus=gpus,
    )  # fmt: skip
    require("scheduler", "worker")  # what is missing is said before anything starts
    directory = Path(data) if data else data_directory(os.environ)
    with Place(directory.expanduser().absolute()) as place:
        interrupts.run(_run(place, plan))


async def _run(place: Place, plan: Plan) -> None:
    console, lines = out(), err()
    width = len(f"worker-{plan.workers}") if plan.workers > 9 else len("scheduler")

    def tell(name: str, line: str) -> None:
        lines.print(Text.assemble((f"{name:<{width}} | ", "dim"), line))

    supervisor = Supervisor(place, plan, os.environ, tell, lambda line: console.print(Text(line)))
    await supervisor.run(lambda grpc, http: console.print(Text(_welcome(place, supervisor.worker_ids, grpc, http))))


def _welcome(place: Place, worker_ids: list[str], grpc: str, http: str) -> str:
    usual = place.path == data_directory({}).absolute()
    export = [] if usual else [f"  export TASKYARD_DATA={place.path}"]
    return "\n".join(
        [
            "Taskyard is ready.",
            f"  gRPC     {grpc}",
            f"  HTTP     http://{http}  (/docs, /api/v1, /healthz, /readyz, /metrics)",
            f"  workers  {', '.join(worker_ids) or 'none'}",
            f"  data     {place.path}",
            "Try in another terminal:",
            *export,
            "  taskyard submit shell --param command='echo hi' --wait",
            "  taskyard workers",
            "Ctrl-C stops everything.",
        ]
    )
