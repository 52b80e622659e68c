"""Makes recorded file sizes real: steps that read what the steps before them wrote, as artifacts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from taskyard_cli.importing.recording import RecordedTask, Recording


def producers(recording: Recording) -> dict[str, list[str]]:
    """Returns by file the tasks that wrote it."""
    found: dict[str, list[str]] = {}
    for task in recording.tasks:
        for file in task.outputs:
            found.setdefault(file, []).append(task.id)
    return found


def files_of(
    task: RecordedTask, recording: Recording, scale: float, ids: Mapping[str, str], made: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Returns what a `replay` step reads and writes.

    Args:
        task: The task that it stands for.
        recording: Where it is from.
        scale: Bytes for each recorded byte.
        ids: Step by task.
        made: See `producers`.
    """
    return {
        "read": [
            f'${{steps["{ids[parent]}"].output.files["{_quoted(file)}"]}}'
            for file in dict.fromkeys(task.inputs)
            if (parent := _writer(task, made.get(file, []))) is not None
        ],
        "write": {
            file.replace("${", "$${"): math.ceil(recording.sizes.get(file, 0) * scale)
            for file in dict.fromkeys(task.outputs)
        },
    }


def _writer(task: RecordedTask, writers: list[str]) -> str | None:
    """Returns which of those that wrote a file is one that the task waited for; what was there before has none."""
    return next((writer for writer in writers if writer in task.parents), None)


def _quoted(file: str) -> str:
    return file.replace("\\", "\\\\").replace('"', '\\"')
