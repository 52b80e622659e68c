"""Every recorded workflow that lies beside the repository: imported, run, and every edge found in the history.

The files are others' and no part of the repository. TASKYARD_WORKFLOWS names their folder where it is elsewhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from wfformat_documents import SHAPES, figures, graph_of, legal

from e2e.recorded import check_files, import_file, run_and_check
from e2e.site import Site

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "workflows"
FOLDER = Path(os.environ.get("TASKYARD_WORKFLOWS") or BESIDE)

FILES = {
    "helloworld-chain-5-chameleon": "helloworld-chain-5",
    "helloworld-forkjoin-10-chameleon": "helloworld-forkjoin-10",
    "bacass-dirt02-001": "bacass",
    "srasearch-chameleon-10a-001": "srasearch-10a",
    "epigenomics-chameleon-hep-1seq-100k-001": "epigenomics-hep-1seq",
    "montage-chameleon-2mass-005d-001": "montage-005d",
    "blast-chameleon-large-001": "blast-large-001",
    "1000genome-chameleon-10ch-100k-001": "1000genome-10ch",
    "seismology-chameleon-1000p-001": "seismology-1000p",
}
"""The files that must be there, and the shape of each."""

ALL = sorted({*FILES, *(file.stem for file in FOLDER.glob("*.json"))})

pytestmark = pytest.mark.shared_data


@pytest.fixture
def folder() -> Path:
    if not FOLDER.is_dir():
        pytest.skip(f"{FOLDER} is not there; TASKYARD_WORKFLOWS names the folder with the recorded workflows")
    return FOLDER


@pytest.mark.parametrize("stem", ALL)
async def test_a_recorded_workflow_runs_along_its_edges(stem: str, folder: Path, shared_site: Site) -> None:
    file = folder / f"{stem}.json"
    recorded = json.loads(file.read_bytes())
    graph = graph_of(recorded)
    assert legal(graph), "ids that change need another comparison"
    if stem in FILES:
        shape = SHAPES[FILES[stem]]
        assert figures(graph) == (shape.tasks, shape.edges, shape.depth)
    workflow = await import_file(shared_site, file, "--name", stem)
    assert [step.description for step in workflow.steps] == [
        task["name"] for task in recorded["workflow"]["specification"]["tasks"]
    ]
    await run_and_check(shared_site, stem, graph)


async def test_the_run_times_are_those_recorded(folder: Path, shared_site: Site) -> None:
    for stem in FILES:
        recorded = json.loads((folder / f"{stem}.json").read_bytes())
        wanted = {each["id"]: each["runtimeInSeconds"] for each in recorded["workflow"]["execution"]["tasks"]}
        workflow = await import_file(shared_site, folder / f"{stem}.json", "--time-scale", "1")
        assert workflow.name == recorded["name"]
        slept = {step.id: json.loads(step.input_json)["seconds"] for step in workflow.steps}
        assert slept == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("stem", ["montage-chameleon-2mass-005d-001", "1000genome-chameleon-10ch-100k-001"])
async def test_recorded_files_are_written_and_read(stem: str, folder: Path, shared_site: Site) -> None:
    """What a step reads is what the steps before it wrote, at a part of the recorded sizes."""
    recorded = json.loads((folder / f"{stem}.json").read_bytes())
    workflow = await import_file(
        shared_site, folder / f"{stem}.json", "--file-scale", "0.0001", "--name", f"files-{stem}"
    )
    assert {step.task_type for step in workflow.steps} == {"replay"}
    told = await run_and_check(shared_site, workflow.name, graph_of(recorded))
    await check_files(shared_site, recorded, told, 0.0001)
