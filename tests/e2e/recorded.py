"""Imports a WfFormat file with the command, runs it on real processes, and holds its history against its edges."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from e2e.site import Site
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1 import workflows_pb2 as pb

PATIENCE_S = 60.0


async def import_file(site: Site, file: Path, *options: str) -> pb.Workflow:
    """Imports a file as a user does, with steps that end at once; returns the workflow as stored."""
    command = ("-m", "taskyard_cli", "import", "wfformat", str(file), "--time-scale", "0", "-o", "json", *options)
    environ = site.environ(TASKYARD_ADDRESS=site.address, TASKYARD_TOKEN=site.token())
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=environ, cwd=site.folder, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, err.decode()
    return json_format.Parse(out, pb.ApplyWorkflowResponse()).workflow


async def run_and_check(site: Site, workflow: str, graph: Mapping[str, Sequence[str]]) -> pb.GetRunResponse:
    """Runs a workflow whose steps are the tasks of a graph; returns its history.

    Raises:
        AssertionError: Not every step succeeded, or the history shows a step that began before one it waits for ended.
    """
    client = site.client()
    run = await client.start_run(workflow)
    assert (await run.wait(PATIENCE_S)).state == pb.RUN_STATE_SUCCEEDED
    told = await client.get_run(run.id)
    listed = client.list_tasks(filter=f'run_id == "{run.id}"', page_size=1000)
    check_history(told, {task.step_id: task async for task in listed}, graph)
    return told


async def check_files(site: Site, document: Mapping[str, Any], told: pb.GetRunResponse, scale: float) -> None:
    """Holds the artifacts of a run against the files that were recorded: each was written, at its size, and read.

    Raises:
        AssertionError: They are others.
    """
    client = site.client()
    specification = document["workflow"]["specification"]
    sizes = {each["id"]: math.ceil(each["sizeInBytes"] * scale) for each in specification.get("files", [])}
    writers = {file: task["id"] for task in specification["tasks"] for file in task.get("outputFiles", [])}
    tasks_of = {step.step_id: step.task_id for step in told.steps}
    outputs = {id: await client.task(task_id).result() for id, task_id in tasks_of.items()}
    for task in specification["tasks"]:
        files = outputs[task["id"]]["files"]
        assert files.keys() == set(task.get("outputFiles", []))
        for file, uri in files.items():
            artifact = await client.artifacts.get(uri)
            assert (artifact.name, artifact.size) == (file, sizes.get(file, 0))
        read = json.loads((await client.get_task(tasks_of[task["id"]])).task.input_json)["read"]
        mine = [file for file in task.get("inputFiles", []) if writers.get(file) in task["parents"]]
        assert read == [outputs[writers[file]]["files"][file] for file in dict.fromkeys(mine)]


def check_history(
    told: pb.GetRunResponse, listed: Mapping[str, tasks.TaskInstance], graph: Mapping[str, Sequence[str]]
) -> None:
    """Holds the history of a run that has ended against the graph that was recorded elsewhere.

    Args:
        told: The run and its steps.
        listed: Their tasks by step.
        graph: By step: what it had to wait for.
    """
    steps = {step.step_id: step for step in told.steps}
    assert {step_id: list(step.needs) for step_id, step in steps.items()} == {k: list(v) for k, v in graph.items()}
    assert (told.run.steps_total, told.run.steps_ended) == (len(graph), len(graph))
    assert listed.keys() == graph.keys()
    bad = {step_id: step.status for step_id, step in steps.items() if step.status != tasks.TASK_STATUS_SUCCESS}
    assert not bad, f"did not succeed: {bad}"
    for step_id, parents in graph.items():
        _check_times(step_id, steps[step_id], listed[step_id], {each: steps[each] for each in parents})


def _check_times(step_id: str, step: pb.RunStep, task: tasks.TaskInstance, parents: Mapping[str, pb.RunStep]) -> None:
    assigned, start, end = (each.ToNanoseconds() for each in (task.assign_time, step.start_time, step.end_time))
    assert 0 < assigned <= start <= end, f"{step_id}: assigned {assigned}, started {start}, ended {end}"
    for name, parent in parents.items():
        before = parent.end_time.ToNanoseconds()
        assert start >= before, f"{step_id} started {(before - start) / 1e6} ms before {name} had ended"
        assert assigned >= before, f"{step_id} was assigned {(before - assigned) / 1e6} ms before {name} had ended"
