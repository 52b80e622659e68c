"""The machine that a figure was measured on, and whether something else was running there."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from bench import yardstick

BUSY_WARN_PERCENT = 15.0
BUSY_REFUSE_PERCENT = 50.0
LOOK_S = 1.0
FSYNCS = 50


class MachineBusy(Exception):
    """Other programs take too much of the machine: a figure measured now would say nothing."""


def facts(folder: Path, busy_percent: float) -> dict[str, Any]:
    """Returns what a reader needs to know of the machine.

    Args:
        folder: Where the databases will be.
        busy_percent: What `look` returned.
    """
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "load_average_at_start": [round(value, 2) for value in os.getloadavg()],
        "busy_percent_at_start": busy_percent,
        "filesystem": _filesystem(folder),
        "fsync_ms": fsync_ms(folder),
        "bare_grpc": yardstick.measure(),
        "bare_grpc_where_bars_were_set": yardstick.REFERENCE,
    }


def look(*, anyway: bool) -> float:
    """Returns how busy the machine is with other things, in percent of all cores; warns where it matters.

    Args:
        anyway: True: never refuses.

    Raises:
        MachineBusy: It is over BUSY_REFUSE_PERCENT.
    """
    busy = psutil.cpu_percent(interval=LOOK_S)
    if busy > BUSY_REFUSE_PERCENT and not anyway:
        raise MachineBusy(
            f"other programs take {busy:.0f} % of this machine's cores; measure when it is idle, or say ANYWAY=1"
        )
    if busy > BUSY_WARN_PERCENT:
        print(f"warning: other programs take {busy:.0f} % of this machine's cores", file=sys.stderr)
    return busy


def fsync_ms(folder: Path) -> float:
    """Returns what an append of 4 KiB that survives power loss costs in the folder, in milliseconds (median)."""
    path = folder / "fsync.probe"
    costs = []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            start = time.perf_counter()
            file.write(b"\0" * 4096)
            os.fdatasync(file.fileno())
            costs.append(time.perf_counter() - start)
    path.unlink()
    return round(sorted(costs)[FSYNCS // 2] * 1000, 3)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _filesystem(folder: Path) -> str:
    """Returns the type of the folder's file system: `tmpfs` would make every durable figure a lie."""
    parts = [part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)]
    return max(parts, key=lambda part: len(part.mountpoint)).fstype if parts else ""
