"""The Java client against a real scheduler and worker: the program of its page, as it stands there."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.site import Site
from taskyard.v1.workflows_pb2 import Workflow, WorkflowInput, WorkflowStep

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "java-client.md"
WORKFLOW = Workflow(
    name="telling",
    inputs=[WorkflowInput(name="number")],
    steps=[WorkflowStep(id="tell", task_type="tell", input_json='{"number": "${inputs.number}"}')],
    output_json='"${steps.tell.output}"',
)


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Builds the client and returns its classes and what they need; skips where that cannot be."""
    if shutil.which("mvn") is None or run_java("sh", "tools/java.sh").returncode:
        pytest.skip("no JDK 21 or later with Maven: the Java client is not tried")
    file = tmp_path_factory.mktemp("java") / "class-path"
    built = run_java(
        *("sh", "tools/java.sh", "mvn", "-q", "-B", "-f", "workers/java/pom.xml", "-pl", "client", "-am"),
        *("-DskipTests", "install", "dependency:build-classpath", f"-Dmdep.outputFile={file}"),
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return f"{ROOT}/workers/java/client/target/classes:{file.read_text().strip()}"


def run_java(*command: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command in the repository's folder to its end."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900, env=environ)


@pytest.mark.timeout(900)  # a new machine fetches what the build needs
async def test_the_program_of_the_page_prints_what_the_page_says(class_path: str, site: Site, tmp_path: Path) -> None:
    program, printed = re.findall(r"```(?:java|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "Example.java").write_text(program)
    await site.start_scheduler()
    await site.start_worker()
    await site.client().apply_workflow(WORKFLOW)
    ran = await asyncio.to_thread(
        run_java,
        *("sh", "tools/java.sh", "java", "-cp", class_path, str(tmp_path / "Example.java")),
        environ=dict(os.environ) | {"TASKYARD_ADDRESS": site.address, "TASKYARD_TOKEN": site.token()},
    )
    assert ran.stdout == printed, ran.stderr
    assert ran.returncode == 0
