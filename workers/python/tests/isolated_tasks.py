"""Handlers that the tests run in processes of their own; loaded there by this file's path."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from taskyard_worker import Context, InvalidInput, TaskRegistry

registry = TaskRegistry()


def note(file: str, number: int) -> None:
    Path(file).write_text(f"{number}\n")


@registry.task("echo", isolated=True)
def echo(ctx: Context, input: dict[str, Any]) -> dict[str, Any]:
    ctx.log.info("working on %s", ctx.task_id)
    print("printed")  # noqa: T201 - what a handler prints is shown, too
    print("complained", file=sys.stderr)  # noqa: T201
    ctx.stream_sync("given out")
    ctx.progress_sync(50, "half")
    return {"input": input, "pid": os.getpid(), "attempt": ctx.attempt, "tenant": ctx.tenant, "id": ctx.worker_id,
            "limit": ctx.run_timeout}  # fmt: skip


@registry.task("async_echo", isolated=True)
async def async_echo(ctx: Context, text: str) -> Any:
    await asyncio.sleep(0)
    before = ctx.last_checkpoint
    await ctx.checkpoint({"seen": text})
    return [before, ctx.last_checkpoint]


@registry.task("checkpoint", isolated=True)
def checkpoint(ctx: Context) -> Any:
    ctx.checkpoint_sync(1)
    ctx.checkpoint_sync(2)
    return ctx.last_checkpoint


@registry.task("defer", isolated=True)
def defer(ctx: Context, returns: bool = True) -> Any:
    ctx.log.info("complete me with %s", ctx.completion_token)
    deferral = ctx.defer(timeout=90)
    return deferral if returns else "something else"


@registry.task("async_defer", isolated=True)
async def async_defer(ctx: Context) -> Any:
    await asyncio.sleep(0)
    return ctx.defer(timeout=90)


@registry.task("raise", isolated=True)
def fail(kind: str) -> None:
    if kind == "invalid":
        raise InvalidInput("'kind' is invalid")
    raise ValueError("broken")


class Strange(BaseException):
    """Neither an error nor one of those that Python knows."""


STRANGE: dict[str, BaseException] = {
    "KeyboardInterrupt": KeyboardInterrupt("strange"),
    "SystemExit": SystemExit("strange"),
    "GeneratorExit": GeneratorExit("strange"),
    "CancelledError": asyncio.CancelledError("strange"),
    "BaseExceptionGroup": BaseExceptionGroup("strange", [KeyboardInterrupt()]),
    "BaseException": BaseException("strange"),
    "Strange": Strange("strange"),
}


@registry.task("strange", isolated=True)
def strange(name: str) -> None:
    raise STRANGE[name]


@registry.task("async_strange", isolated=True)
async def async_strange(name: str) -> None:
    await asyncio.sleep(0)
    raise STRANGE[name]


@registry.task("crash", isolated=True)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@registry.task("exit", isolated=True)
def leave() -> None:
    os._exit(7)


@registry.task("large", isolated=True)
def large() -> str:
    return "x" * 300_000


@registry.task("hang", isolated=True)
def hang(pid_file: str) -> None:
    """Starts a grandchild, then waits for ever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pid_file + ".child").write_text(f"{child.pid}\n")
    Path(pid_file).write_text(f"{os.getpid()}\n")
    time.sleep(600)


@registry.task("polite", isolated=True)
def polite(ctx: Context, pid_file: str) -> None:
    try:
        Path(pid_file).write_text(f"{os.getpid()}\n")
        time.sleep(600)
    finally:
        ctx.log.info("cleaned up")
        Path(pid_file + ".clean").write_text("1\n")


@registry.task("async_polite", isolated=True)
async def async_polite(pid_file: str) -> None:
    try:
        note(pid_file, os.getpid())
        await asyncio.sleep(600)
    finally:
        note(pid_file + ".clean", 1)


@registry.task("stubborn", isolated=True)
def stubborn(pid_file: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(pid_file).write_text(f"{os.getpid()}\n")
    time.sleep(600)


@registry.task("add", isolated=True)
def add(a: int, b: int = 4) -> int:
    return a + b


@registry.task("forgets", isolated=True)
def forgets(ctx: Context, method: str) -> None:
    getattr(ctx, method)(1)


CLEANER = "trap 'sleep 0.3; echo 1 > {0}.clean; exit' TERM\necho $$ > {0}\nwhile :; do sleep 0.05; done\n"
"""A program that takes a while to tidy up; `{0}` is the file for its process id."""


@registry.task("parent", isolated=True)
def parent(pid_file: str) -> None:
    """Starts a child that takes longer to end than the handler itself."""
    subprocess.Popen(["bash", "-c", CLEANER.format(pid_file)])
    time.sleep(600)


@registry.task("async_parent", isolated=True)
async def async_parent(pid_file: str) -> None:
    child = await asyncio.create_subprocess_exec("bash", "-c", CLEANER.format(pid_file))
    await child.wait()
