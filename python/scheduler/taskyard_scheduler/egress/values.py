"""Values that many messages share: times, maps kept as JSON, errors."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import policies_pb2, workflows_pb2
from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.engine.attempts import MARKED_KIND
from taskyard_core.records import ASSIGNED, CANCELLING, RUNNING, SUCCESS, Policy

_UNFAILED: Final = frozenset({SUCCESS, ASSIGNED, RUNNING, CANCELLING})
"""States in which what the row says of a failure is an earlier attempt's, or not yet settled."""


_HasError = pb.TaskInstance | pb.TaskAttempt | workflows_pb2.RunStep


def put_time(target: Timestamp, ms: int) -> None:
    """Sets a message's time, given in Unix milliseconds."""
    target.seconds = ms // 1000
    target.nanos = ms % 1000 * 1_000_000


def put_resources(target: policies_pb2.Resources, policy: Policy) -> None:
    """Says in a message's field what a task asks for; leaves the field absent when that is nothing."""
    if policy.asks:
        target.cpu_millis = policy.cpu_millis
        target.memory_mb = policy.memory_mb
        target.gpus = policy.gpus


def put_texts(target: MutableMapping[str, str], text: str) -> None:
    """Fills a message's map from JSON. Half a surrogate pair, which cannot travel, becomes a mark."""
    values: dict[str, str] = json.loads(text)
    if "\\u" in text:
        values = {_whole(key): _whole(value) for key, value in values.items()}
    for key, value in values.items():
        target[key] = value


def put_error(message: _HasError, state: int, kind: str, text: str) -> None:
    """Says in a message why its last attempt did not succeed, if it did not and is not under way; or who marked it."""
    if (kind or text) and (state not in _UNFAILED or kind == MARKED_KIND):
        message.error.kind = kind
        message.error.message = text


def utf8_size(text: str) -> int:
    """Returns how many bytes a text takes on the wire."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _whole(text: str) -> str:
    """Replaces halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
