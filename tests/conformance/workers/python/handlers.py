"""The types that the conformance kit asks for, as handlers of the Python worker (docs/write-a-worker.md)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from taskyard_worker import Context, Deferral, InvalidInput, NonRetryable, PermissionDenied, Retryable, task

KINDS = {"NON_RETRYABLE": NonRetryable, "INVALID_INPUT": InvalidInput, "PERMISSION_DENIED": PermissionDenied}


def record(key: str, what: object) -> None:
    """Appends a line at once, so that a kill loses none."""
    path = Path(os.environ["TASKYARD_DATA"]) / "conformance-records"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{key} {what}\n".encode())
    finally:
        os.close(file)


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@task("conformance.echo")
async def echo(input: dict[str, Any]) -> dict[str, Any]:
    return dict(input)


@task("conformance.sleep")
async def sleep(seconds: float) -> dict[str, float]:
    await asyncio.sleep(seconds)
    return {"slept_seconds": seconds}


@task("conformance.fail")
async def fail(
    ctx: Context, kind: str = "HANDLER_ERROR", message: str = "as it was told", succeed_from: int = 0
) -> dict[str, int]:
    if succeed_from and ctx.attempt >= succeed_from:
        return {"attempt": ctx.attempt}
    raise KINDS.get(kind, Retryable)(message)


@task("conformance.record")
async def record_and_wait(ctx: Context, key: str, seconds: float = 0) -> dict[str, str]:
    record(key, ctx.attempt)
    await asyncio.sleep(seconds)
    return {"recorded": key}


@task("conformance.stubborn")
def stubborn(seconds: float) -> dict[str, bool]:
    time.sleep(seconds)
    return {"stubborn": True}


@task("conformance.log")
async def log(ctx: Context, lines: int, text: str = "line", bytes: int = 0) -> dict[str, int]:
    for number in range(lines):
        ctx.log.info("%s", f"{text} {number}".ljust(bytes, "."))
    return {"lines": lines}


@task("conformance.progress")
async def progress(ctx: Context, steps: int) -> dict[str, int]:
    for step in range(1, steps + 1):
        await ctx.progress(100 * step / steps, f"step {step}")
        await asyncio.sleep(0.05)
    return {"steps": steps}


@task("conformance.checkpoint")
async def checkpoint(ctx: Context, value: Any) -> dict[str, Any]:
    if ctx.last_checkpoint is not None:
        return {"checkpoint": ctx.last_checkpoint}
    await ctx.checkpoint(value)
    raise Retryable("the checkpoint is stored")


@task("conformance.artifact")
async def artifact(ctx: Context, artifact: str = "", make: int = 0) -> dict[str, Any]:
    if artifact:
        data = await ctx.artifacts.get(artifact)
        return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    data = pattern(make)
    return {"artifact": await ctx.artifacts.put(data), "sha256": hashlib.sha256(data).hexdigest()}


@task("conformance.large")
async def large(bytes: int) -> dict[str, str]:
    return {"text": "x" * bytes}


@task("conformance.isolated", isolated=True)
def isolated(key: str, seconds: float) -> dict[str, int]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    record(key, os.getpid())
    time.sleep(seconds)
    return {"pid": os.getpid()}


@task("conformance.defer")
async def defer(ctx: Context) -> Deferral:
    return ctx.defer()
