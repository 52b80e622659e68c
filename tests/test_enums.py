"""The numbers and words that the core shares with the contract, which it may not import."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskyard.v1 import fleet_pb2, pauses_pb2, tasks_pb2, workers_pb2, workflows_pb2
from taskyard_core.engine import attempts, effects, explain
from taskyard_core.pauses import PauseScope
from taskyard_core.records import RunState, TaskState
from taskyard_core.transitions import WorkerState

ROOT = Path(__file__).parents[1]


def contract(enum: object, prefix: str) -> dict[str, int]:
    """Returns an enum of the contract without its prefix and its zero."""
    items = enum.items()  # type: ignore[attr-defined]  # the generated wrapper has it, its stub has no base to name
    return {name.removeprefix(prefix): number for name, number in items if number}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            {**TaskState.__members__, "INTERRUPTED": attempts.INTERRUPTED, "REJECTED": attempts.REJECTED},
            contract(tasks_pb2.TaskStatus, "TASK_STATUS_"),
        ),
        (dict(RunState.__members__), contract(workflows_pb2.RunState, "RUN_STATE_")),
        (dict(WorkerState.__members__), contract(fleet_pb2.WorkerState, "WORKER_STATE_")),
        (dict(PauseScope.__members__), contract(pauses_pb2.PauseScope, "PAUSE_SCOPE_")),
        (
            {name: getattr(effects, name) for name in ("RECORDED", "STALE_ATTEMPT", "UNKNOWN_TASK")},
            contract(workers_pb2.ResultOutcome, "RESULT_OUTCOME_"),
        ),
    ],
    ids=["TaskStatus", "RunState", "WorkerState", "PauseScope", "ResultOutcome"],
)
def test_numbers(ours: dict[str, int], theirs: dict[str, int]) -> None:
    assert ours == theirs


def test_the_contract_lists_every_reason_for_waiting() -> None:
    proto = (ROOT / "proto/taskyard/v1/tasks.proto").read_text()
    message = proto[proto.index("message WaitReason {") :]
    listed = re.findall(r"[A-Z]+(?:_[A-Z]+)+|RUNNING|PAUSED|DEFERRED", message[: message.index("string code")])
    made = re.findall(r'WaitReason\(\s*"([A-Z_]+)"', Path(explain.__file__).read_text())
    assert sorted(listed) == sorted(set(made))
    shown = (ROOT / "python/core/tests/test_engine_explain.py").read_text()
    assert [code for code in listed if f'"{code}"' not in shown] == []
