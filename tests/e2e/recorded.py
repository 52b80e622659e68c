"""Imports a WfFormat file with the command, runs it on real processes, and holds its history against its edges."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

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


async def run_and_check(site: Site, workflow: str, graph: Mapping[str, Sequence[str]]) -> None:
    """Runs a workflow whose steps are the tasks of a graph.

    Raises:
        AssertionError: Not every step succeeded, or the history shows a step that began before one it waits for ended.
    """
    client = site.client()
    run = await client.start_run(workflow)
    assert (await run.wait(PATIENCE_S)).state == pb.RUN_STATE_SUCCEEDED
    check_history(await client.get_run(run.id), graph)


def check_history(told: pb.GetRunResponse, graph: Mapping[str, Sequence[str]]) -> None:
    """Holds the history of a run that has ended against the graph that was recorded elsewhere."""
    steps = {step.step_id: step for step in told.steps}
    assert {step_id: list(step.needs) for step_id, step in steps.items()} == {k: list(v) for k, v in graph.items()}
    assert (told.run.steps_total, told.run.steps_ended) == (len(graph), len(graph))
    bad = {step_id: step.status for step_id, step in steps.items() if step.status != tasks.TASK_STATUS_SUCCESS}
    assert not bad, f"did not succeed: {bad}"
    for step_id, step in steps.items():
        start, end = step.start_time.ToNanoseconds(), step.end_time.ToNanoseconds()
        assert 0 < start <= end, f"{step_id} started at {step.start_time} and ended at {step.end_time}"
        for parent in graph[step_id]:
            before = steps[parent].end_time.ToNanoseconds()
            assert start >= before, f"{step_id} started {(before - start) / 1e6} ms before {parent} had ended"
