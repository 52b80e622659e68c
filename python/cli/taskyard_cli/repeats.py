"""Says on stderr that an idempotency key was used before, and whether for something else: then nothing was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from rich.text import Text

from taskyard.v1.tasks_pb2 import TaskInstance, TaskSubmission
from taskyard.v1.workflows_pb2 import Run
from taskyard_cli.show import err, harmless
from taskyard_client import AsyncClient, TaskyardError

SHOWN = 5
"""Most differences that are named."""


async def tell_repeated_task(client: AsyncClient, sent: TaskSubmission, task_id: str) -> None:
    """Says that the key of `sent` is that of an earlier task, and in what the two differ."""
    differences: list[str] = []
    with suppress(TaskyardError):  # the id, which is there, must not be lost because of the note
        differences = task_differences(sent, (await client.get_task(task_id)).task)
    _tell("task", task_id, sent.idempotency_key, differences, f"taskyard task show {task_id}")


async def tell_repeated_run(
    client: AsyncClient, key: str, workflow: str, version: int, inputs: Mapping[str, Any], run_id: str
) -> None:
    """Says that a run's key is that of an earlier run, and in what the two differ."""
    differences: list[str] = []
    with suppress(TaskyardError):  # as above
        differences = run_differences(workflow, version, inputs, (await client.get_run(run_id)).run)
    _tell("run", run_id, key, differences, f"taskyard runs show {run_id}")


def task_differences(sent: TaskSubmission, first: TaskInstance) -> list[str]:
    """Returns what an earlier task has otherwise than a submission, as far as its record can tell.

    A definition's defaults are in the record and not in the submission: with one, only what was sent is compared.
    """
    found = ["type"] if sent.task_type and sent.task_type != first.task_type else []
    if sent.task_name != first.task_name:
        found.append("definition")
    if sent.HasField("priority") and sent.priority != first.priority:
        found.append("priority")
    whole = not (sent.task_name or first.task_name)
    if (whole or sent.HasField("resources")) and sent.resources != first.resources:
        found.append("resources")
    found += _members("param", dict(sent.params), dict(first.params), whole=whole)
    return found + _members("input", _object(sent.input_json), _object(first.input_json), whole=whole)


def run_differences(workflow: str, version: int, inputs: Mapping[str, Any], first: Run) -> list[str]:
    """Returns what an earlier run has otherwise. Defaults are in its record: only what is given now is compared."""
    found = ["workflow"] if workflow != first.workflow else []
    if version not in (0, first.version):
        found.append("version")
    return found + _members("input", inputs, _object(first.inputs_json), whole=False)


def _members(kind: str, now: Mapping[str, Any], first: Mapping[str, Any], *, whole: bool) -> list[str]:
    names = [name for name in now if name not in first or now[name] != first[name]]
    names += [name for name in first if whole and name not in now]
    return [f"{kind} {name}" for name in sorted(names)]


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}


def _tell(what: str, some_id: str, key: str, differences: list[str], show: str) -> None:
    said = f"note: the key `{key}` is that of {what} {some_id}; this made no other {what}"
    if differences:
        named = ", ".join(differences[:SHOWN]) + (", …" if len(differences) > SHOWN else "")
        said += f", although it asks for something else ({named}): take another key for that; `{show}` shows the first"
    err().print(Text(harmless(said)))
