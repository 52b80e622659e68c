"""What `--check` shows: what a task or a run would be, and where it would go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group
from rich.text import Text

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_cli.show import facts, run_word, status_word, table, when

WORKERS_SHOWN = 5


def task_check(check: tasks_pb2.TaskCheck) -> Group:
    """Returns the page of a task."""
    task = check.task
    top = facts(
        [
            ("type", task.task_type),
            ("definition", task.task_name),
            ("would be", status_word(task.status)),
            ("due", when(task.schedule_time)),
            ("expires", when(task.expire_time)),
            ("priority", task.priority),
            ("tags", ", ".join(task.tags)),
            *((f"param {name}", value) for name, value in sorted(task.params.items())),
            ("input", task.input_json),
            ("workers", _workers(check.worker_ids)),
        ]
    )
    return Group(top, Text(), Text(_verdict(check)), *_reasons(check))


def run_check(check: workflows_pb2.RunCheck) -> Group:
    """Returns the page of a run."""
    run = check.run
    top = facts(
        [
            ("workflow", f"{run.workflow}, version {run.version}"),
            ("would be", run_word(run.state)),
            ("due", when(run.schedule_time)),
            ("expires", when(run.expire_time)),
            ("tags", ", ".join(run.tags)),
            ("inputs", run.inputs_json),
            ("variables", run.variables_json),
        ]
    )
    rows = (_step(step) for step in check.steps)
    return Group(top, Text(), table(("STEP", "TYPE", "INPUT", "WORKERS", "WHY NOT NOW"), rows, empty="no steps"))


def _step(step: workflows_pb2.StepCheck) -> tuple[Any, ...]:
    task = step.check.task
    params = " ".join(f"{name}={value}" for name, value in sorted(task.params.items()))
    given = " ".join(filter(None, (params, task.input_json)))
    why = "; ".join(reason.message for reason in step.check.reasons)
    return step.step_id, task.task_type, given, _workers(step.check.worker_ids), why


def _workers(ids: Iterable[str]) -> str:
    listed = sorted(ids)
    more = f" and {len(listed) - WORKERS_SHOWN} more" if len(listed) > WORKERS_SHOWN else ""
    return ", ".join(listed[:WORKERS_SHOWN]) + more


def _verdict(check: tasks_pb2.TaskCheck) -> str:
    if not check.reasons:
        return "It is right, and would start at once. Nothing was submitted."
    return "It is right, and would wait. Nothing was submitted."


def _reasons(check: tasks_pb2.TaskCheck) -> list[Text]:
    return [Text.assemble("  ", (reason.code, "bold"), f"  {reason.message}") for reason in check.reasons]
