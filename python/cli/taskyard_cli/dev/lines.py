"""Turns the services' JSON log lines into lines for people. A line that is no JSON stays as it is."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from taskyard_cli.show import harmless

_OWN_PLACE = frozenset({"event", "level", "time", "timestamp", "component", "exception", "scheduler_id"})
VALUE_LIMIT = 300
"""Characters of one value that are shown; the whole line is in the service's log file."""


def readable(line: str) -> str:
    """Returns a log line for people, without its line end."""
    try:
        entry = json.loads(line)
    except ValueError:
        return harmless(line)
    if not isinstance(entry, dict) or "event" not in entry:
        return harmless(line)
    level = str(entry.get("level", "info")).upper()
    parts = [_clock(entry.get("time", entry.get("timestamp"))), f"{level:<7}", _short(entry["event"])]
    parts += [f"{name}={_short(value)}" for name, value in entry.items() if name not in _OWN_PLACE]
    if entry.get("exception"):
        parts.append(f"({_exception(entry['exception'])})")
    return harmless(" ".join(part for part in parts if part))


def _clock(time: Any) -> str:
    try:
        return datetime.fromisoformat(str(time)).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return ""


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_LIMIT else text[:VALUE_LIMIT] + "…"


def _exception(value: Any) -> str:
    """Returns the last word of an exception, structured or as text; its traceback is in the log file."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{value[0].get('exc_type', '')}: {_short(value[0].get('exc_value', ''))}"
    return _short(str(value).strip().rsplit("\n", 1)[-1])
