"""Which lines of a log a call asks for."""

from __future__ import annotations

from collections.abc import Callable

from taskyard.v1.tasks_pb2 import LogLine, LogSelection
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.schedule import read_time

CONTAINS_LIMIT = 1_000


def read_selection(selection: LogSelection) -> Callable[[LogLine], bool] | None:
    """Returns what tells whether a line is asked for; None: all are.

    Raises:
        InvalidInput: The text is too long, or the time is none.
    """
    findings = Findings()
    word = selection.contains.casefold()
    if len(selection.contains) > CONTAINS_LIMIT:
        sentence = f"{len(selection.contains):,} characters are more than {CONTAINS_LIMIT:,}; look for a part of it"
        findings.add("selection.contains", sentence)
    since = read_time(selection.since, "selection.since", findings) if selection.HasField("since") else 0
    findings.raise_any()
    if not word and not since:
        return None
    return lambda line: line.time.ToMilliseconds() >= since and word in line.text.casefold()
