"""What people see: words for states, times, and tables. Whatever came from outside is made harmless first."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from taskyard.v1.fleet_pb2 import WorkerState
from taskyard.v1.pauses_pb2 import Pause, PauseScope
from taskyard.v1.tasks_pb2 import TaskError, TaskStatus
from taskyard.v1.workflows_pb2 import RunState
from taskyard_cli.durations import show_seconds

_COLOURS = {
    "SUCCESS": "green", "SUCCEEDED": "green", "HEALTHY": "green", "RUNNING": "cyan", "DEFERRED": "magenta",
    "FAILED": "red", "TIMEOUT": "red", "UNHEALTHY": "red", "CANCELLED": "yellow", "CANCELLING": "yellow",
    "DRAINING": "yellow", "SKIPPED": "dim", "PENDING": "dim", "EXPECTED": "dim",
}  # fmt: skip
_WHOLE = frozenset({"ID", "TASK ID", "QUEUE"})
"""Heads of columns that are never cut into lines, since what is in them is copied."""
_WIDE = 10_000
"""Columns where nobody looks at a terminal: nothing is cut or wrapped."""


def out() -> Console:
    """Returns the console of results, on stdout."""
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=True)


def err() -> Console:
    """Returns the console of everything else, on stderr."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else _WIDE, highlight=False, soft_wrap=True)


def harmless(text: str) -> str:
    """Returns text from outside with control characters made visible, so that it cannot drive a terminal."""
    return "".join(each if each.isprintable() or each == "\t" else _visible(each) for each in text)


def _visible(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else f"\\u{code:04x}"


def status_word(status: TaskStatus.ValueType) -> str:
    """Returns `QUEUED` for TASK_STATUS_QUEUED."""
    return _word(TaskStatus.DESCRIPTOR, status, "TASK_STATUS_")


def run_word(state: RunState.ValueType) -> str:
    """Returns `RUNNING` for RUN_STATE_RUNNING."""
    return _word(RunState.DESCRIPTOR, state, "RUN_STATE_")


def worker_word(state: WorkerState.ValueType) -> str:
    """Returns `HEALTHY` for WORKER_STATE_HEALTHY."""
    return _word(WorkerState.DESCRIPTOR, state, "WORKER_STATE_")


MARKED = "MARKED"
"""Kind of the error of what has ended as a person said; its message is their reason."""


def error_words(error: TaskError) -> str:
    """Returns why something did not succeed, or that a person has said how it ended."""
    if error.kind != MARKED:
        return error.message
    return f"marked by hand: {error.message}" if error.message else "marked by hand"


def pause_word(pause: Pause) -> str:
    """Returns what a pause holds back, in words."""
    return _HELD.get(pause.scope, "what a newer scheduler calls {}").format(pause.name or pause.scope)


_HELD = {
    PauseScope.PAUSE_SCOPE_QUEUE: "queue {}",
    PauseScope.PAUSE_SCOPE_TASK_TYPE: "task type {}",
    PauseScope.PAUSE_SCOPE_WORKFLOW: "workflow {}",
    PauseScope.PAUSE_SCOPE_RUN: "run {}",
    PauseScope.PAUSE_SCOPE_TENANT: "the whole tenant",
    PauseScope.PAUSE_SCOPE_ALL: "everything",
}


def _word(enum: EnumDescriptor, number: int, prefix: str) -> str:
    value = enum.values_by_number.get(number)
    return value.name.removeprefix(prefix) if value else f"STATE {number}"  # a newer scheduler has more


def state(word: str) -> Text:
    """Returns a state in its colour."""
    return Text(word, style=_COLOURS.get(word, ""))


def cut(text: str, width: int) -> str:
    """Returns a text that takes at most `width` cells of a terminal; its last character says that there is more."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1)).rstrip()}…"


def when(time: Timestamp) -> str:
    """Returns a time by the local clock; nothing for one that is absent."""
    if not time.ByteSize():
        return ""
    return datetime.fromtimestamp(time.seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def took(start: Timestamp, end: Timestamp) -> str:
    """Returns how long something took; nothing while either end is absent."""
    if not start.ByteSize() or not end.ByteSize():
        return ""
    return show_seconds(end.seconds - start.seconds + (end.nanos - start.nanos) / 1e9)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> Table | Text:
    """Returns a table of texts; numbers stand right.

    Args:
        columns: Heads.
        rows: Cells: Text as it is, numbers, and anything else as harmless text.
        empty: What to say when there is no row.
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    listed = [list(row) for row in rows]
    if not listed:
        return Text(empty)
    for at, column in enumerate(columns):
        numeric = all(isinstance(row[at], int | float) for row in listed)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=column in _WHOLE)
    for row in listed:
        made.add_row(*(_cell(value) for value in row))
    return made


def facts(pairs: Iterable[tuple[str, Any]]) -> Table:
    """Returns names and values below each other; what is empty is left out."""
    made = Table(box=None, pad_edge=False, show_header=False)
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        cell = _cell(value)
        if cell.plain:
            made.add_row(name, cell)
    return made


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    return Text(f"{value:,}" if isinstance(value, int) else harmless(str(value)))


def json_block(text: str) -> str:
    """Returns JSON text for people: indented, in its own order; what is no JSON stays as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
