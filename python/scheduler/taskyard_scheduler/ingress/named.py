"""What a call is about must be named. Whether there is such a thing is for the call to find out."""

from __future__ import annotations

from taskyard_core.violations import InvalidInput, Violation


def require_task(task_id: str, field: str = "task_id") -> None:
    """Checks that a task is named.

    Raises:
        InvalidInput: The id is empty.
    """
    _require(field, task_id, "give the id of a task; `taskyard tasks` lists them")


def require_run(run_id: str) -> None:
    """Checks that a run is named; see `require_task`."""
    _require("run_id", run_id, "give the id of a run; `taskyard runs` lists them")


def require_step(step_id: str) -> None:
    """Checks that a step is named; see `require_task`."""
    _require("step_id", step_id, "give the id of a step; `taskyard runs show` lists them")


def require_workflow(name: str) -> None:
    """Checks that a workflow is named; see `require_task`."""
    _require("name", name, "give the name of a workflow; `taskyard workflow list` lists them")


def require_definition(name: str) -> None:
    """Checks that a task definition is named; see `require_task`."""
    _require("name", name, "give the name of a task definition; `ListTaskDefinitions` lists them")


def require_worker(worker_id: str) -> None:
    """Checks that a worker is named; see `require_task`."""
    _require("worker_id", worker_id, "give the id of a worker; `taskyard workers` lists them")


def require_caller(worker_id: str, field: str = "worker_id") -> None:
    """Checks that a worker says who it is; see `require_task`."""
    _require(field, worker_id, "give the id that this worker registered with")


def _require(field: str, value: str, way: str) -> None:
    if not value:
        raise InvalidInput([Violation(field, f"it is empty; {way}")])
