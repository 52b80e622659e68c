"""Task definitions as a filter of lists sees them. The message itself is what is stored."""

from __future__ import annotations

from typing import Final

from taskyard.v1 import tasks_pb2 as pb

PRIORITY: Final = 5
"""What a definition without a priority gives its tasks."""


def definition_values(definition: pb.TaskDefinition) -> dict[str, str | int | None]:
    """Returns what a filter of definitions looks at, by the columns of `filters.DEFINITION_FIELDS`."""
    return {
        "name": definition.name,
        "number": definition.number,
        "task_type": definition.task_type,
        "priority": definition.priority if definition.HasField("priority") else PRIORITY,
        "exclusive": int(definition.exclusive),
        "created_at": definition.create_time.ToMilliseconds(),
        "updated_at": definition.update_time.ToMilliseconds(),
    }
