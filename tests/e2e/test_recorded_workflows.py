"""Workflows of the shapes that scientific workflows have: imported, run, and every edge found in the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from wfformat_documents import SHAPES, document, encoded, legal

from e2e.recorded import check_history, import_file, run_and_check
from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb


@pytest.mark.parametrize("name", SHAPES)
async def test_a_workflow_of_this_shape_runs_along_its_edges(name: str, shared_site: Site, tmp_path: Path) -> None:
    shape = SHAPES[name]
    graph = shape.make()
    assert legal(graph)
    file = tmp_path / f"{name}.json"
    file.write_bytes(encoded(document(graph, name=name)))
    workflow = await import_file(shared_site, file)
    assert (workflow.name, len(workflow.steps)) == (name, shape.tasks)
    assert sum(len(step.needs) for step in workflow.steps) == shape.edges
    await run_and_check(shared_site, name, graph)


def history(
    *steps: tuple[str, int, int], status: tasks.TaskStatus.ValueType = tasks.TASK_STATUS_SUCCESS
) -> pb.GetRunResponse:
    made = [
        pb.RunStep(
            step_id=step_id, status=status, needs=["a"] if step_id == "b" else [],
            start_time=Timestamp(nanos=start), end_time=Timestamp(nanos=end),
        )
        for step_id, start, end in steps
    ]  # fmt: skip
    return pb.GetRunResponse(run=pb.Run(steps_total=len(made), steps_ended=len(made)), steps=made)


def test_a_history_that_breaks_an_edge_is_found() -> None:
    graph = {"a": [], "b": ["a"]}
    check_history(history(("a", 1, 5), ("b", 5, 6)), graph)
    with pytest.raises(AssertionError, match="before a had ended"):
        check_history(history(("a", 1, 5), ("b", 4, 6)), graph)
    with pytest.raises(AssertionError, match="did not succeed"):
        check_history(history(("a", 1, 5), ("b", 5, 6), status=tasks.TASK_STATUS_FAILED), graph)
    with pytest.raises(AssertionError):
        check_history(history(("a", 1, 5), ("b", 5, 6)), {"a": [], "b": []})
    with pytest.raises(AssertionError):
        check_history(history(("a", 1, 5)), graph)
