"""What is held back, as operators see it."""

from __future__ import annotations

from taskyard.v1 import pauses_pb2 as pb
from taskyard_core.pauses import Pause
from taskyard_scheduler.egress.values import put_time


def pause_message(pause: Pause) -> pb.Pause:
    """Returns a pause."""
    message = pb.Pause(name=pause.name, reason=pause.reason, paused_by=pause.paused_by)
    message.scope = pb.PauseScope.ValueType(int(pause.scope))
    put_time(message.create_time, pause.created_at)
    return message


def pause_values(pause: Pause) -> dict[str, str | int | None]:
    """Returns what a filter of pauses looks at, by the columns of `filters.PAUSE_FIELDS`."""
    return {
        "scope": int(pause.scope), "name": pause.name, "paused_by": pause.paused_by, "created_at": pause.created_at,
    }  # fmt: skip
