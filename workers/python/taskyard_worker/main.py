"""The `taskyard worker` command: arguments and environment in, exit code out.

Exit codes: 0 drained; 2 wrong settings, arguments or task files; 70 a fault of the worker; 71 another worker
took this one's id; 72 the scheduler does not accept it; 73 the token is refused; 74 the data directory cannot
be used; 75 stopped at once by a second signal, what ran was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from taskyard_worker.errors import (
    DataDirectoryError,
    LoadError,
    NotAccepted,
    RegistrationError,
    SessionSuperseded,
    Unauthenticated,
    WorkerError,
)
from taskyard_worker.loader import load_tasks
from taskyard_worker.logs import Logger, json_logger
from taskyard_worker.loops import end
from taskyard_worker.settings import SettingsError, WorkerSettings, load, parse_labels
from taskyard_worker.verdict import describe
from taskyard_worker.worker import Offer, Worker

END_AGAIN_S = 0.5
"""How long what is left at the end may take before it is cancelled again."""
END_CANCELS = 3

T = TypeVar("T")

EXIT_USAGE = 2
EXIT_FAULT = 70
EXIT_SUPERSEDED = 71
EXIT_NOT_ACCEPTED = 72
EXIT_UNAUTHENTICATED = 73
EXIT_DATA = 74
EXIT_STOPPED_AT_ONCE = 75

_EXITS: dict[type[WorkerError], int] = {
    SettingsError: EXIT_USAGE,
    LoadError: EXIT_USAGE,
    RegistrationError: EXIT_USAGE,
    SessionSuperseded: EXIT_SUPERSEDED,
    NotAccepted: EXIT_NOT_ACCEPTED,
    Unauthenticated: EXIT_UNAUTHENTICATED,
    DataDirectoryError: EXIT_DATA,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker; return its exit code.

    Args:
        argv: The arguments; those of the process when None.
    """
    arguments = parser().parse_args(argv)
    try:
        settings = load(local_server(os.environ, arguments.address), overrides(arguments))
        log = json_logger(settings.log_level, component="worker")
        for source in settings.tasks:
            load_tasks(source)
        only = tuple(arguments.only) if arguments.only else None
        worker = Worker(settings, Offer(builtin=not arguments.no_builtin, only=only), os.environ, log)
    except WorkerError as error:
        return refused(error)
    return run(worker, log)


def refused(error: WorkerError) -> int:
    """Say why there is no worker, or no more; return the exit code."""
    print(f"taskyard worker: {error}", file=sys.stderr)  # noqa: T201 - the last word, to a person
    return next((code for kind, code in _EXITS.items() if isinstance(error, kind)), EXIT_FAULT)


def run(worker: Worker, log: Logger) -> int:
    """Run the worker on an event loop of its own; return the exit code."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        code = run_on(runner.get_loop(), until_signalled(worker, log), log)
    except WorkerError as error:
        code = refused(error)
    except BaseException:
        runner.close()
        raise
    close(runner, code, log)
    return code


def run_on(loop: asyncio.AbstractEventLoop, what: Coroutine[Any, Any, T], log: Logger) -> T:
    """Run something to its end, whatever handlers do meanwhile; return or raise what it does.

    An event loop stops when one of its tasks raises KeyboardInterrupt or SystemExit. Such a task is a handler's, which
    is told by it as by any exception: the loop goes on.
    """
    work = loop.create_task(what, name="main")
    while True:
        try:
            return loop.run_until_complete(work)
        except (KeyboardInterrupt, SystemExit) as error:
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                raise  # Ctrl-C, before `until_signalled` listened
            if work.done():
                return work.result()
            log.warning("a handler's task ended as if it were the program", error=describe(error))


def close(runner: asyncio.Runner, code: int, log: Logger) -> None:
    """Close the event loop; end the process without that when a handler cannot be made to end."""
    loop = runner.get_loop()
    left = run_on(loop, end(asyncio.all_tasks(loop), END_AGAIN_S, END_CANCELS), log)
    if left:
        log.warning("handlers ignore that they are cancelled; leaving without them", count=len(left))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    runner.close()


async def until_signalled(worker: Worker, log: Logger) -> int:
    """Run until drained; SIGTERM and SIGINT drain, a second one stops at once. Raises WorkerError."""
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(worker.run(), name="worker")
    signals = 0

    def signalled() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            worker.drain()
        else:
            log.warning("stopping at once")
            work.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        await work
    except asyncio.CancelledError:
        return EXIT_STOPPED_AT_ONCE
    except WorkerError:
        raise
    except Exception as error:
        log.error("the worker failed", error=describe(error), exc_info=error)
        return EXIT_FAULT
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments. What is not given comes from TASKYARD_... variables."""
    result = argparse.ArgumentParser(
        prog="taskyard worker", description="Run tasks. What is not given here comes from TASKYARD_... variables."
    )
    add = result.add_argument
    add("--tasks", action="append", metavar="FILE|MODULE", help="load handlers from here; may be repeated")
    add("--only", action="append", metavar="TYPE", help="offer this task type and no others; may be repeated")
    add("--no-builtin", action="store_true", help="offer none of the built-in task types")
    add("--address", metavar="HOST:PORT", help="a scheduler's gRPC address (TASKYARD_ADDRESS)")
    add("--ca", metavar="FILE", help="certificates (PEM) that sign the scheduler's; encrypts all (TASKYARD_CA)")
    add("--worker-id", metavar="ID", help="the worker's id (TASKYARD_WORKER_ID)")
    add("--data", metavar="DIR", help="data directory (TASKYARD_DATA)")
    add("--concurrency", metavar="N", help="how many tasks run at once (TASKYARD_CONCURRENCY)")
    add("--cpus", metavar="CORES", help="offer so many cores to tasks that ask for them, e.g. 4 or 0.5 (TASKYARD_CPUS)")
    add("--memory-mb", metavar="MIB", help="offer so much memory to tasks that ask for it (TASKYARD_MEMORY_MB)")
    add("--gpus", metavar="N", help="offer so many GPUs to tasks that ask for them (TASKYARD_GPUS)")
    add("--label", action="append", metavar="NAME=VALUE", help="a label that selectors match; may be repeated")
    add("--http-port", metavar="PORT", help="port of /healthz, /readyz, /metrics; 0: a free one")
    add("--log-level", metavar="LEVEL", help="debug, info, warning or error (TASKYARD_LOG_LEVEL)")
    return result


def overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the arguments say, by the names of the settings. Raises SettingsError."""
    for name, value in vars(arguments).items():
        if value == "" or (isinstance(value, list) and "" in value):  # most often a shell's variable that is not set
            raise SettingsError(f"--{name.replace('_', '-')} is empty: give it a value, or leave it out")
    return {
        "address": arguments.address,
        "ca": arguments.ca,
        "worker_id": arguments.worker_id,
        "data": arguments.data,
        "concurrency": arguments.concurrency,
        "cpus": arguments.cpus,
        "memory_mb": arguments.memory_mb,
        "gpus": arguments.gpus,
        "labels": parse_labels(",".join(arguments.label)) if arguments.label else None,
        "http_port": arguments.http_port,
        "log_level": arguments.log_level,
        "tasks": tuple(arguments.tasks) if arguments.tasks else None,
    }


def local_server(environ: Mapping[str, str], address: str | None = None) -> Mapping[str, str]:
    """Add address and token of a `taskyard dev` on this machine where the environment has none.

    It leaves both in `cli.json` in the data directory. An address given by hand gets no token from there, unless it is
    the same.

    Args:
        environ: The variables.
        address: The one on the command line; None: none is there.
    """
    if environ.get("TASKYARD_ADDRESS") or environ.get("TASKYARD_TOKEN"):
        return environ
    path = Path(environ.get("TASKYARD_DATA") or WorkerSettings.model_fields["data"].default).expanduser()
    try:
        left = json.loads((path / "cli.json").read_text(encoding="utf-8"))
        found = {"TASKYARD_ADDRESS": str(left["address"]), "TASKYARD_TOKEN": str(left["token"])}
    except (OSError, ValueError, KeyError, TypeError):
        return environ
    if address not in (None, found["TASKYARD_ADDRESS"]):
        return environ  # the token is nobody else's business
    return {**environ, **found}


if __name__ == "__main__":
    sys.exit(main())
