"""A recorded workflow: its tasks, how long each ran, and the files that they read and wrote. Knows no format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """One task.

    Attributes:
        id: Unique in the recording; any text.
        name: For people; several tasks may have one name.
        parents: Ids of the tasks that it waited for.
        runtime_s: How long it ran, in seconds; None: not recorded.
        inputs: Ids of the files that it read.
        outputs: Ids of the files that it wrote.
    """

    id: str
    name: str
    parents: tuple[str, ...]
    runtime_s: float | None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recording:
    """A workflow as it ran elsewhere: a graph without cycles whose every edge leads to a task of it.

    Attributes:
        name: Not empty.
        description: For people; may be empty.
        tasks: At least one.
        sizes: Bytes by file; files without a recorded size are not in it.
    """

    name: str
    description: str
    tasks: tuple[RecordedTask, ...]
    sizes: Mapping[str, int]
