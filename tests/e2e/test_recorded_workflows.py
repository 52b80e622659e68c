"""Workflows of the shapes that scientific workflows have: imported, run, and every edge found in the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from wfformat_documents import SHAPES, document, encoded, legal

from e2e.recorded import check_files, check_history, import_file, run_and_check
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


async def test_steps_sleep_as_long_as_tasks_ran_by_the_scale(shared_site: Site, tmp_path: Path) -> None:
    graph = SHAPES["montage-005d"].make()
    runtimes = {task: 5.0 + at for at, task in enumerate(graph)}
    ends: dict[str, float] = {}  # of each task if nothing but the runtimes took time; parents come first in this graph
    for task, parents in graph.items():
        ends[task] = runtimes[task] + max((ends[parent] for parent in parents), default=0.0)
    file = tmp_path / "slow.json"
    file.write_bytes(encoded(document(graph, name="slow", runtimes=runtimes)))
    await import_file(shared_site, file, "--time-scale", "0.001")
    told = await run_and_check(shared_site, "slow", graph)
    took_ms = (told.run.end_time.ToNanoseconds() - told.run.create_time.ToNanoseconds()) / 1e6
    assert took_ms >= max(ends.values()) - 2  # the clock of the history counts milliseconds


async def test_recorded_file_sizes_are_made_real(shared_site: Site, tmp_path: Path) -> None:
    graph = {"a#1": [], "b": ["a#1"], 'c"${x}\\': ["a#1"], "d": ["b", 'c"${x}\\']}
    recorded = document(graph, name="files")
    file = tmp_path / "files.json"
    file.write_bytes(encoded(recorded))
    workflow = await import_file(shared_site, file, "--file-scale", "0.5")
    ids = dict(zip(graph, [step.id for step in workflow.steps], strict=True))
    renamed = {ids[task]: [ids[parent] for parent in parents] for task, parents in graph.items()}
    told = await run_and_check(shared_site, "files", renamed)
    for task in recorded["workflow"]["specification"]["tasks"]:
        task["id"], task["parents"] = ids[task["id"]], [ids[parent] for parent in task["parents"]]
    await check_files(shared_site, recorded, told, 0.5)


def check(
    *times: tuple[str, int, int, int],
    graph: dict[str, list[str]],
    status: tasks.TaskStatus.ValueType = tasks.TASK_STATUS_SUCCESS,
) -> None:
    """Checks a history in which each step was assigned, started and ended at these times, and `b` needed `a`."""
    steps = [
        pb.RunStep(
            step_id=step_id, status=status, needs=["a"] if step_id == "b" else [],
            start_time=Timestamp(nanos=start), end_time=Timestamp(nanos=end),
        )
        for step_id, _, start, end in times
    ]  # fmt: skip
    listed = {each[0]: tasks.TaskInstance(assign_time=Timestamp(nanos=each[1])) for each in times}
    run = pb.Run(steps_total=len(steps), steps_ended=len(steps))
    check_history(pb.GetRunResponse(run=run, steps=steps), listed, graph)


def test_a_history_that_breaks_an_edge_is_found() -> None:
    graph = {"a": [], "b": ["a"]}
    check(("a", 1, 1, 5), ("b", 5, 5, 6), graph=graph)
    with pytest.raises(AssertionError, match=r"b started .* before a had ended"):
        check(("a", 1, 1, 5), ("b", 3, 4, 6), graph=graph)
    with pytest.raises(AssertionError, match=r"b was assigned .* before a had ended"):
        check(("a", 1, 1, 5), ("b", 4, 5, 6), graph=graph)
    with pytest.raises(AssertionError, match="did not succeed"):
        check(("a", 1, 1, 5), ("b", 5, 5, 6), graph=graph, status=tasks.TASK_STATUS_FAILED)
    with pytest.raises(AssertionError):
        check(("a", 1, 1, 5), ("b", 5, 5, 6), graph={"a": [], "b": []})
    with pytest.raises(AssertionError):
        check(("a", 1, 1, 5), graph=graph)
