"""Which lines of a log a call asks for."""

from __future__ import annotations

from collections.abc import Callable

from taskyard.v1.tasks_pb2 import LogLine, LogSelection
from taskyard_core.violations import cut
from taskyard_scheduler.ingress.findings import Findings
from taskyard_scheduler.ingress.schedule import read_time

CONTAINS_LIMIT = 1_000
STREAMS = ("stdout", "stderr", "log", "output")
"""Those that a line can be of."""


def read_selection(selection: LogSelection) -> Callable[[LogLine], bool] | None:
    """Returns what tells whether a line is asked for; None: all are.

    Raises:
        InvalidInput: The text is too long, the time is none, or there is no such stream.
    """
    findings = Findings()
    word = selection.contains.casefold()
    if len(selection.contains) > CONTAINS_LIMIT:
        sentence = f"{len(selection.contains):,} characters are more than {CONTAINS_LIMIT:,}; look for a part of it"
        findings.add("selection.contains", sentence)
    since = read_time(selection.since, "selection.since", findings) if selection.HasField("since") else 0
    streams = _read_streams(selection, findings)
    findings.raise_any()
    if not word and not since and not streams:
        return None

    def wanted(line: LogLine) -> bool:
        if streams and line.stream not in streams:
            return False
        return line.time.ToMilliseconds() >= since and word in line.text.casefold()

    return wanted


def _read_streams(selection: LogSelection, findings: Findings) -> frozenset[str]:
    if len(selection.streams) > len(STREAMS):
        findings.add("selection.streams", f"{len(selection.streams)} are more than the {len(STREAMS)} that there are")
        return frozenset()
    for at, name in enumerate(selection.streams):
        if name not in STREAMS:
            findings.add(f"selection.streams[{at}]", f"{cut(name)} is no stream: give {', '.join(STREAMS)}")
    return frozenset(selection.streams)
