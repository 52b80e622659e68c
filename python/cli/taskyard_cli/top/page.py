"""One snapshot for those who have no terminal: as plain text, or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Group
from rich.text import Text

from taskyard_cli.show import harmless, table
from taskyard_cli.top import rows
from taskyard_cli.top.headline import cluster_line, rate_line, work_line
from taskyard_cli.top.reading import Snapshot


def snapshot_page(snapshot: Snapshot, rate: Mapping[str, float] | None, address: str) -> Group:
    """Returns the snapshot for people."""
    heads = (
        cluster_line(snapshot.status, address), rate_line(rate, "").replace("  ", " "), work_line(snapshot.status),
    )  # fmt: skip
    now = snapshot.time
    return Group(
        *(Text(harmless(each)) for each in heads),
        _part("QUEUES", rows.QUEUES, rows.queue_rows(snapshot.queues, now), "nothing waits"),
        _part("WORKERS", rows.WORKERS, rows.worker_rows(snapshot.workers, now), "no workers"),
        _part("RUNNING", rows.RUNNING, rows.running_rows(snapshot.running, now), "nothing runs"),
        _part("FAILED", rows.FAILED, rows.failed_rows(snapshot.failed, now), "no failures"),
    )


def _part(title: str, columns: Sequence[str], listed: Sequence[rows.Row], empty: str) -> Group:
    shown = table(columns, (row.cells for row in listed), empty=empty)
    return Group(Text(), Text(title, style="bold"), shown)


def snapshot_json(snapshot: Snapshot, rate: Mapping[str, float] | None) -> str:
    """Returns the snapshot for programs: messages of the contract as canonical JSON, by what they are."""
    found: dict[str, Any] = {
        "time": f"{snapshot.time:%Y-%m-%dT%H:%M:%S.%fZ}",
        "status": MessageToDict(snapshot.status),
        "endedPerSecond": dict(rate) if rate is not None else None,
        "queues": _listed(snapshot.queues),
        "workers": _listed(snapshot.workers),
        "running": _listed(snapshot.running),
        "failed": _listed(snapshot.failed),
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


def _listed(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [MessageToDict(each) for each in messages]
