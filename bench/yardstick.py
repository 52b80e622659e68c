"""How fast this machine is at what no scheduler can avoid: bare gRPC calls between two Python processes.

The design's bars were set beside its own measurement of the same (`REFERENCE`), so a reader can tell a slow machine
from a slow scheduler.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any, Final

import grpc.aio
import uvloop

REFERENCE: Final = {"unary_ms": 0.43, "unary_per_s": 4_700}
"""What performance.md measured where it set the bars."""
ONE_BY_ONE = 1_000
CALLERS = 64
CALLS_EACH = 100
WARM_UP = 200
PAYLOAD = b"x" * 100
METHOD = "/taskyard.bench.Yardstick/Echo"


def measure() -> dict[str, float]:
    """Returns `unary_ms`, one call after the other, and `unary_per_s`, many at once: an empty `grpc.aio` service."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.yardstick"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            return uvloop.run(_measure(int(server.stdout.readline())))
        finally:
            server.terminate()


async def _measure(port: int) -> dict[str, float]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        echo: Any = channel.unary_unary(METHOD)
        await _calls(echo, WARM_UP)
        one_by_one = await _calls(echo, ONE_BY_ONE)
        start = time.perf_counter()
        await asyncio.gather(*(_calls(echo, CALLS_EACH) for _ in range(CALLERS)))
        together = time.perf_counter() - start
    return {
        "unary_ms": round(one_by_one / ONE_BY_ONE * 1000, 2),
        "unary_per_s": round(CALLERS * CALLS_EACH / together),
    }


async def _calls(echo: Any, count: int) -> float:
    """Makes so many calls, one after the other; returns the seconds they took."""
    start = time.perf_counter()
    for _ in range(count):
        await echo(PAYLOAD)
    return time.perf_counter() - start


async def serve() -> None:
    """Answers each call with what it carries, and prints the port first. Until the process is ended."""

    async def echo(request: bytes, _context: Any) -> bytes:
        return request

    server = grpc.aio.server()
    method: Any = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("taskyard.bench.Yardstick", {"Echo": method}),)
    )
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve())
