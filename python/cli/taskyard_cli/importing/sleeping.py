"""Makes of a recording a workflow whose steps sleep as long as its tasks ran, and may read and write as they did."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.duration_pb2 import Duration

from taskyard.v1.policies_pb2 import TimeoutPolicy
from taskyard.v1.workflows_pb2 import Workflow, WorkflowStep
from taskyard_cli.importing.members import shown
from taskyard_cli.importing.recording import RecordedTask, Recording
from taskyard_cli.importing.replaying import files_of, producers

NAME_LIMIT = 200
ID_LIMIT = 128
TEXT_LIMIT = 10_000

HOUR_S = 3600
LONGEST_S = 30 * 24 * HOUR_S - HOUR_S
"""Longest sleep of a step, in seconds: an attempt may take 30 days, and needs some time beside its sleep."""

LONG_S = HOUR_S // 2
"""From here on a step asks for more than the hour that an attempt has when nothing is said, in seconds."""

_ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]")
_DIGITS = 8
_NO_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def name_fault(name: str) -> str:
    """Returns what is wrong with a workflow's name; empty: nothing."""
    if not 1 <= len(name) <= NAME_LIMIT:
        return f"{shown(name)} has {len(name):,} characters; a workflow's name has 1 to {NAME_LIMIT}"
    if found := _NO_NAME.search(name):
        return f"{shown(name)} contains U+{ord(found[0]):04X}; a workflow's name has no control characters"
    if name != name.strip():
        return f"{shown(name)} begins or ends with white space; a workflow's name does not"
    return ""


def runtime_fault(task: RecordedTask, scale: float) -> str:
    """Returns why a task's run time makes no step's sleep; empty: it makes one."""
    if scale == 0:
        return ""
    if task.runtime_s is None:
        return f"no run time of {shown(task.id)} is recorded; --time-scale 0 makes steps that end at once"
    if task.runtime_s * scale > LONGEST_S:
        return (
            f"{task.runtime_s:,.10g} s x {scale:g} is longer than a step may sleep ({LONGEST_S:,} s);"
            " give a smaller --time-scale"
        )
    return ""


def sleep_workflow(recording: Recording, scale: float, name: str = "", file_scale: float = 0.0) -> Workflow:
    """Returns the workflow.

    Args:
        recording: What was recorded; `runtime_fault` finds nothing in its tasks.
        scale: Seconds of sleep for each second of run time, from 0.
        name: Of the workflow; empty: the recording's.
        file_scale: Bytes of an artifact for each byte of a file, from 0; 0: no files.
    """
    ids = step_ids(task.id for task in recording.tasks)
    made = producers(recording)

    def files(task: RecordedTask) -> dict[str, Any] | None:
        return files_of(task, recording, file_scale, ids, made) if file_scale else None

    return Workflow(
        name=name or recording.name,
        description=recording.description[:TEXT_LIMIT],
        steps=[_step(task, ids, _sleep_s(task, scale), files(task)) for task in recording.tasks],
    )


def _sleep_s(task: RecordedTask, scale: float) -> float:
    seconds = round((task.runtime_s or 0.0) * scale, 6)
    return int(seconds) if seconds == int(seconds) else seconds


def _step(task: RecordedTask, ids: dict[str, str], seconds: float, files: dict[str, Any] | None) -> WorkflowStep:
    told = task.name if ids[task.id] == task.id else f"{task.name} (id {task.id})"
    step = WorkflowStep(
        id=ids[task.id],
        task_type="sleep" if files is None else "replay",
        needs=[ids[parent] for parent in task.parents],
        input_json=json.dumps({"seconds": seconds, **(files or {})}, separators=(",", ":")),
        description=told[:TEXT_LIMIT],
    )
    if seconds > LONG_S:
        step.timeouts.CopyFrom(TimeoutPolicy(run_timeout=Duration(seconds=math.ceil(seconds) + HOUR_S)))
    return step


def step_ids(task_ids: Iterable[str]) -> dict[str, str]:
    """Returns a step's id for each task's id, which are unique.

    A legal one stays. Of another one what is illegal becomes `_`, and a part of its hash is added: what it becomes
    does not depend on the others, so a recording with a task more has the same steps and one more.
    """
    listed = list(task_ids)
    taken = {each for each in listed if _ID.fullmatch(each)}
    found = {}
    for each in listed:
        found[each] = each if _ID.fullmatch(each) else _legal(each, taken)
        taken.add(found[each])
    return found


def _legal(task_id: str, taken: set[str]) -> str:
    digest = hashlib.sha256(task_id.encode()).hexdigest()
    plain = _ILLEGAL.sub("_", task_id)
    for digits in range(_DIGITS, len(digest) + 1):
        made = f"{plain[: ID_LIMIT - digits - 1]}-{digest[:digits]}"
        if made not in taken:
            return made
    raise AssertionError(f"{task_id!r} has the hash of another id")
