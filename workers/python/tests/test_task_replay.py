"""The task type `replay`: what it writes, what it reads, and which inputs it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worker_artifacts import PIECE, FakeArtifacts, artifact_id, transfers
from worker_fakes import assignment, status, working

from taskyard.v1.workers_pb2 import TaskResult
from taskyard_worker.registry import TaskRegistry, make_handler
from taskyard_worker.tasks.replay import replay


async def run(artifacts: FakeArtifacts, folder: Path, **values: Any) -> TaskResult:
    registry = TaskRegistry()
    registry.add(make_handler("replay", replay))
    async with working(registry, transfers=transfers(artifacts, folder)) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", "replay", input_json=json.dumps(values)))
        return await stream.result("a")


async def test_files_of_the_sizes_given_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    artifacts = FakeArtifacts()
    sizes = {"empty": 0, "one": 1, "汉/字": PIECE + 7}
    for _ in range(2):
        result = await run(artifacts, tmp_path, seconds=0, write=sizes)
        told = json.loads(result.output_json)
        assert (told["slept_seconds"], list(told["files"])) == (0.0, list(sizes))
    written = list(artifacts.stored.values())
    assert [len(data) for data in written[:3]] == list(sizes.values())
    assert written[:3] == written[3:]
    assert [head.name for head in artifacts.heads[:3]] == list(sizes)


async def test_what_is_named_is_read_to_its_end(tmp_path: Path) -> None:
    artifacts = FakeArtifacts()
    uris = [f"artifact://{artifacts.put(data)}" for data in (b"", b"x" * (2 * PIECE + 1))]
    result = await run(artifacts, tmp_path, read=uris)
    assert json.loads(result.output_json) == {"slept_seconds": 0.0, "files": {}}
    assert [request.artifact_id for request in artifacts.requests] == [artifact_id(1), artifact_id(2)]


@pytest.mark.parametrize(
    "values",
    [
        {"read": "artifact://x"}, {"read": [1]}, {"read": ["artifact://x"]}, {"write": ["a"]}, {"write": {"a": -1}},
        {"write": {"a": 1.5}}, {"write": {"a": True}}, {"seconds": "soon"}, {"sconds": 1},
    ],
)  # fmt: skip
async def test_a_bad_input_is_named(values: dict[str, Any], tmp_path: Path) -> None:
    result = await run(FakeArtifacts(), tmp_path, **values)
    assert (status(result), result.error_kind) == ("FAILED", "INVALID_INPUT")
    assert repr(next(iter(values))) in result.error_message or "is no artifact's URI" in result.error_message
