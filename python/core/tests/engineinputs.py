"""What the engine's machine draws from: tasks, workers, ends of attempts, leaps of time, a workflow with every rule."""

from __future__ import annotations

from typing import Any

from enginekit import StepSpec, retrying
from hypothesis import strategies as st

from taskyard_core.records import TaskState

S = TaskState
BEAT_MS = 10_000

TASKS: tuple[dict[str, Any], ...] = (
    {"policy_parts": {}},
    {"policy_parts": {"retry": retrying(2, 500)}, "task_type": "b"},
    {"policy_parts": {"retry": retrying(3, 0), "exclusive": True}, "task_type": "b"},
    {"policy_parts": {"exclusive": True, "start_ms": 400}},
    {"policy_parts": {"selector": "zone=x"}},
    {"policy_parts": {"cpu_millis": 600, "queued_ms": 20_000}},
    {"policy_parts": {"total_ms": 90_000, "retry": retrying(5, 2_000)}},
    {"policy_parts": {"run_ms": 3_000, "start_ms": 1_000}, "priority": 1},
    {"policy_parts": {"worker": "w0"}, "task_type": "b"},
)
SHAPES = st.fixed_dictionaries(
    {
        "types": st.sampled_from((("*",), ("*",), ("b",), ("noop",), ("b", "noop"))),
        "slots": st.integers(1, 4),
        "labels": st.sampled_from(({}, {"zone": "x"})),
        "cpu_millis": st.sampled_from((0, 1_000, 2_000)),
    }
)
STATUSES = (S.SUCCESS, S.SUCCESS, S.FAILED, S.FAILED, S.TIMEOUT, S.CANCELLED, 11, 12, S.DEFERRED, S.DEFERRED)
KINDS = ("", "", "INVALID_INPUT", "UNKNOWN_TASK_TYPE")
WAITS = (0, 1, 15, 400, 1_000, 1_000, 5_000, 5_000, 11_000, 31_000, 61_000, 3_600_000, 25 * 3_600_000)
RUN_STEPS: tuple[StepSpec, ...] = (
    ("a", [], {}),
    ("b", ["a"], {"retry": retrying(1), "params": {"x": "${steps.a.output.v}"}}),
    ("c", ["a"], {"rule": "all_done"}),
    ("d", ["b", "c"], {"rule": "one_failed"}),
    ("e", ["b", "c"], {"rule": "none_failed"}),
    ("f", ["d", "e"], {"rule": "one_success"}),
)
