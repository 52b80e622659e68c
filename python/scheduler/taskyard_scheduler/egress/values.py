"""Values that many messages share: times, maps kept as JSON, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import ASSIGNED, CANCELLING, RUNNING, SUCCESS

_UNFAILED: Final = frozenset({SUCCESS, ASSIGNED, RUNNING, CANCELLING})
"""States in which what the row says of a failure is an earlier attempt's, or not yet settled."""


def timestamp(ms: int) -> Timestamp:
    """Returns a time given in Unix milliseconds."""
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


def put_time(target: Timestamp, ms: int | None) -> None:
    """Sets a message's time; None leaves it absent."""
    if ms is not None:
        target.seconds = ms // 1000
        target.nanos = ms % 1000 * 1_000_000


def text_map(text: str) -> Mapping[str, str]:
    """Reads a map of texts that was stored as JSON. Half a surrogate pair, which cannot travel, becomes a mark."""
    values: dict[str, str] = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        return {_whole(key): _whole(value) for key, value in values.items()}
    return values


def error_of(state: int, kind: str, message: str) -> pb.TaskError | None:
    """Returns why the last attempt did not succeed; None when it did or is still under way."""
    if state in _UNFAILED or not (kind or message):
        return None
    return pb.TaskError(kind=kind, message=message)


def utf8_size(text: str) -> int:
    """Returns how many bytes a text takes on the wire."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _whole(text: str) -> str:
    """Replaces halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
