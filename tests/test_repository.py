"""The repository's own promises: one version, a lock without addresses, targets that exist and are listed."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MEMBERS: list[str] = WORKSPACE["tool"]["uv"]["workspace"]["members"]
PROJECTS = {member: tomllib.loads((ROOT / member / "pyproject.toml").read_text()) for member in MEMBERS}
LOCK = (ROOT / "requirements.lock").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z%-]+):", MAKEFILE, re.MULTILINE))


def required_names(requirements: list[str]) -> set[str]:
    """Returns the distributions that a list of requirements names."""
    return {re.split(r"[\s\[<>=!;]", requirement, maxsplit=1)[0].lower() for requirement in requirements}


def test_all_packages_have_one_version_and_one_python() -> None:
    assert {project["project"]["version"] for project in PROJECTS.values()} == {"0.1.0"}
    assert {project["project"]["requires-python"] for project in PROJECTS.values()} == {">=3.11"}


@pytest.mark.parametrize("member", MEMBERS)
def test_our_own_requirements_are_pinned_to_the_same_version(member: str) -> None:
    project = PROJECTS[member]["project"]
    extras = project.get("optional-dependencies", {}).values()
    ours = [
        line
        for line in [*project["dependencies"], *(entry for extra in extras for entry in extra)]
        if line.startswith("taskyard")
    ]
    assert [line for line in ours if not line.endswith(f"=={project['version']}")] == []


@pytest.mark.parametrize("member", MEMBERS)
def test_the_lock_holds_what_each_package_requires(member: str) -> None:
    locked = set(re.findall(r"^([a-z0-9._-]+)==", LOCK, re.MULTILINE))
    wanted = required_names(PROJECTS[member]["project"]["dependencies"])
    assert {name for name in wanted if not name.startswith("taskyard")} - locked == set()


def test_the_lock_pins_with_hashes_and_holds_no_address() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert len(packages) > 50
    assert [entry for entry in packages if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK
    assert "index-url" not in LOCK


def test_import_rules_cover_every_package() -> None:
    packages = {
        Path(name).name
        for project in PROJECTS.values()
        for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    }
    assert packages == set(WORKSPACE["tool"]["importlinter"]["root_packages"])


def test_every_target_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= named
    assert named - TARGETS == set()


def test_help_lists_every_target_that_people_call() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wanted = ["help", "demo", "test", "test-long", "verify", "proto", "descriptor", "bench", "bench-%"]
    wanted += ["conformance", "conformance-python", "conformance-go"]
    assert [target for target in wanted if not re.search(rf"^  {target} ", listed, re.MULTILINE)] == []


def test_what_ci_may_leave_out_is_a_marker_that_make_test_understands() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    (marker,) = set(re.findall(r"WITHOUT=(\w+)", script))
    assert f"--collect-only -m {marker}" in script, "what is left out is named"
    known = WORKSPACE["tool"]["pytest"]["ini_options"]["markers"]
    assert [line for line in known if line.startswith(f"{marker}: ")]
    command = ["make", "--dry-run", "test", f"WITHOUT={marker}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f'-m "not long and not {marker}"' in shown
    whole = subprocess.run(command[:3], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert '-m "not long"' in whole


def test_tracked_files_name_no_package_index() -> None:
    # In pieces, so that this file does not find itself.
    hosts = "|".join(["py" + "pi\\.org", "python" + "hosted\\.org", "registry\\.npm" + "js"])
    command = ["git", "grep", "-IlE", hosts]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout.split() == []
