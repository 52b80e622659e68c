"""Looks at real processes: which of them live, and waits until one is gone."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pid: int, within_s: float = 10.0) -> float:
    """Wait until a process is gone; return how long that took, in seconds."""
    began = time.monotonic()
    descriptor = None
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return 0.0
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(within_s):
            await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return time.monotonic() - began


async def number_in(path: Path, within_s: float = 10.0) -> int:
    """Wait until a file holds a line with a number; processes have no other signal for a test."""
    async with asyncio.timeout(within_s):
        while True:
            if (number := read_number(path)) is not None:
                return number
            await asyncio.sleep(0.01)


def read_number(path: Path) -> int | None:
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else None
