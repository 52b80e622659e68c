"""What the workers of these tests run. Each execution leaves a record, beginning and end, in a file.

The file is named by E2E_RECORDS; a record is one line, appended at once, so that it survives a kill -9.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from taskyard_worker import Context, Deferral, InvalidInput, NonRetryable, task


def record(ctx: Context, what: str, **facts: Any) -> None:
    line = {"task": ctx.task_id, "attempt": ctx.attempt, "worker": ctx.worker_id, "what": what, "pid": os.getpid()}
    text = json.dumps(line | facts | {"at": time.monotonic_ns()}) + "\n"
    file = os.open(os.environ["E2E_RECORDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


@task("double")
async def double(ctx: Context, number: int) -> dict[str, int]:
    record(ctx, "start")
    result = {"double": 2 * number}
    record(ctx, "end")
    return result


@task("pause")
async def pause(ctx: Context, number: int, seconds: float = 0.05) -> dict[str, int]:
    record(ctx, "start")
    await asyncio.sleep(seconds)
    record(ctx, "end")
    return {"double": 2 * number}


@task("block")
async def block(ctx: Context, seconds: float) -> dict[str, float]:
    """Holds the worker's event loop, as an async handler must not."""
    record(ctx, "start")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the fault
    record(ctx, "end")
    return {"blocked": seconds}


@task("deadly")
async def deadly(ctx: Context) -> None:
    """Takes its worker down in its first step."""
    record(ctx, "start")
    os._exit(7)


@task("thread")
def thread(ctx: Context, number: int, seconds: float = 0.02) -> dict[str, int]:
    record(ctx, "start")
    ctx.wait_cancelled(seconds)
    ctx.raise_if_cancelled()
    record(ctx, "end")
    return {"double": 2 * number}


@task("apart", isolated=True)
def apart(ctx: Context, number: int, seconds: float = 0.0) -> dict[str, int]:
    record(ctx, "start")
    time.sleep(seconds)
    record(ctx, "end")
    return {"double": 2 * number}


@task("family", isolated=True)
def family(ctx: Context) -> None:
    """An isolated handler that has a child of its own; both would run for ever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    record(ctx, "start", child=child.pid)
    time.sleep(3600)


@task("deaf")
def deaf(ctx: Context, seconds: float = 3600.0) -> dict[str, bool]:
    """A thread that does not listen."""
    record(ctx, "start")
    time.sleep(seconds)
    record(ctx, "end")
    return {"deaf": True}


@task("flaky")
async def flaky(ctx: Context, number: int, failures: int) -> dict[str, int]:
    """Fails as often as it is told."""
    record(ctx, "start")
    ctx.log.info("attempt %d of %d", ctx.attempt, failures + 1)
    if ctx.attempt <= failures:
        raise RuntimeError(f"failure {ctx.attempt} of {failures}")
    record(ctx, "end")
    return {"double": 2 * number}


@task("hopeless")
async def hopeless(ctx: Context) -> None:
    record(ctx, "start")
    raise NonRetryable("this never works")


@task("talk")
async def talk(ctx: Context, lines: int) -> dict[str, int]:
    for number in range(lines):
        ctx.log.info("line %d", number)
    return {"lines": lines}


@task("talk_until")
async def talk_until(ctx: Context, gate: str) -> dict[str, bool]:
    """Says one line, waits for a file, says another."""
    ctx.log.info("before")
    while not os.path.exists(gate):  # noqa: ASYNC110, ASYNC240 - another process makes it, and this one does no more
        await asyncio.sleep(0.01)
    ctx.log.info("after")
    return {"gate": True}


@task("recite")
async def recite(ctx: Context, gate: str) -> dict[str, bool]:
    """Gives out half a line and a log line, waits for a word through a pipe, gives out the rest."""
    await ctx.stream("One ")
    ctx.log.info("a note")
    await asyncio.to_thread(Path(gate).read_text)
    for word in ("two", ".\n", "Three"):
        await ctx.stream(word)
    return {"gate": True}


@task("climb")
async def climb(ctx: Context, steps: int) -> dict[str, Any]:
    """Counts up and keeps where it is; the first attempt dies half-way."""
    record(ctx, "start", found=ctx.last_checkpoint)
    begun = (ctx.last_checkpoint or {"step": 0})["step"]
    for step in range(begun + 1, steps + 1):
        await ctx.checkpoint({"step": step})
        if ctx.attempt == 1 and step == steps // 2:
            raise RuntimeError("half-way")
    return {"begun": begun, "reached": steps}


@task("later")
async def later(ctx: Context, wait_s: float = 3600.0, hold_s: float = 0.0) -> Deferral:
    """Leaves its result to whoever has the token, which is in its record; `hold_s`: not at once."""
    record(ctx, "start", token=ctx.completion_token)
    try:
        await asyncio.sleep(hold_s)
    except asyncio.CancelledError:
        record(ctx, "stopped")
        raise
    record(ctx, "end")
    return ctx.defer(timeout=wait_s)


@task("later_apart", isolated=True)
def later_apart(ctx: Context, gate: str = "") -> Deferral:
    """The same in a process of its own, which waits for a word through a pipe first if it is told."""
    record(ctx, "start", token=ctx.completion_token)
    if gate:
        Path(gate).read_text()
    record(ctx, "end")
    return ctx.defer()


@task("tell")
async def tell(input: dict[str, Any]) -> dict[str, Any]:
    """Gives its input back."""
    return input


@task("large")
async def large(size: int) -> dict[str, Any]:
    """Returns more than an output may carry itself."""
    return {"text": "x" * size, "b": [{"n": 7}, "last"]}


@task("large_apart", isolated=True)
def large_apart(size: int) -> dict[str, Any]:
    return {"text": "x" * size}


@task("keep")
async def keep(ctx: Context, path: str) -> str:
    """Uploads a file of this machine."""
    record(ctx, "start")
    uri = await ctx.artifacts.put(Path(path))
    record(ctx, "end")
    return uri


@task("measure")
async def measure(ctx: Context, uri: str) -> int:
    return sum([len(chunk) async for chunk in ctx.artifacts.open(uri)])


@task("handle_apart", isolated=True)
def handle_apart(ctx: Context, uri: str, value: Any) -> dict[str, Any]:
    """Does everything with artifacts from a process of its own."""
    got = ctx.artifacts.get_sync(uri).decode()
    back = ctx.artifacts.put_sync(f"{got} again", "again.txt")
    pieces = b"".join(ctx.artifacts.open_sync(back)).decode()
    return {"got": got, "back": back, "pieces": pieces, "value": value}


@task("handle_apart_async", isolated=True)
async def handle_apart_async(ctx: Context, uri: str) -> dict[str, Any]:
    got = (await ctx.artifacts.get(uri)).decode()
    try:
        await ctx.artifacts.get("artifact://018f3b5e-7c1a-7abc-9def-0123456789ab")
    except InvalidInput as error:
        return {"got": got, "missing": str(error)}
    return {"got": got}
