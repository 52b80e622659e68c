"""A run that two processes share: everything runs once, nothing beside what must be alone, and nothing is hidden."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import shares

ROOT = Path(__file__).parents[1]
FILES = (
    "python/core/test_one.py", "python/core/test_two.py", "python/cli/test_three.py", "tests/test_four.py",
    "tests/simulation/test_five.py", "tests/simulation/test_six.py",
)  # fmt: skip
CASES = 4
SHARED = "-n 2 --max-worker-restart=0".split()
STORY = f"""
import os, time
import pytest

@pytest.mark.parametrize("number", range({CASES}))
def test_it(number, record_property, request):
    began = time.monotonic_ns()
    record_property("finding", f"{{os.environ['PYTEST_XDIST_WORKER']}} {{began}} {{time.monotonic_ns()}}")
    if number == 2 and "SKIP" in os.environ:
        pytest.skip("for a reason")
"""


def run(folder: Path, files: tuple[str, ...] = FILES, **environ: str) -> tuple[int, str]:
    """Runs such files as `make test` does, under this repository's conftest; returns exit code and output."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STORY)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CI", "TASKYARD_"))}
    places = {"PYTHONPATH": str(ROOT / "tests"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins cost seconds
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", *SHARED, "--import-mode=importlib"], cwd=folder,
        env=kept | places | environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def found(printed: str) -> Iterator[tuple[str, str, int, int]]:
    """Yields of each test that ran its file, the process, its beginning and its end."""
    for name, process, began, ended in re.findall(r"(\S+)::test_it\[\d\]:\n(\w+) (\d+) (\d+)", printed):
        yield name, process, int(began), int(ended)


def test_everything_runs_once_each_file_in_one_process_and_what_is_alone_last(tmp_path: Path) -> None:
    code, printed = run(tmp_path, SKIP="1")
    ran = list(found(printed))
    assert code == 0, printed
    assert "[loadscope" not in printed, "xdist's own log is nothing that people want to read"
    assert sorted(name for name, *_ in ran) == sorted(FILES * CASES)
    assert all(len({process for name, process, *_ in ran if name == file}) == 1 for file in FILES)
    alone = [each for each in ran if each[0].startswith(shares.ALONE)]
    assert max(ended for *_, ended in set(ran) - set(alone)) <= min(began for *_, began, _ in alone)
    assert len({process for _, process, *_ in alone}) == 1
    assert f"{len(FILES)} skipped (what they show is not shown)" in printed
    assert all(f"{name}::test_it[2]: for a reason" in printed for name in FILES)


@pytest.mark.parametrize("files", [FILES[4:], FILES[3:5]])
def test_a_run_of_few_files_ends(files: tuple[str, ...], tmp_path: Path) -> None:
    code, printed = run(tmp_path, files)
    assert code == 0, printed
    assert sorted(name for name, *_ in found(printed)) == sorted(files * CASES)


def test_a_skip_fails_the_run_where_none_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text("import pytest\npytest.skip('not here', allow_module_level=True)\n")
    code, printed = run(tmp_path, FILES[:1], SKIP="1", TASKYARD_NO_SKIPS="1")
    assert code == 1, printed
    assert "2 skipped (not allowed here: the run fails)" in printed
    assert printed.count("test_whole.py: not here") == 1


def test_a_process_that_dies_fails_the_run_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_death.py").write_text("import os\n\ndef test_death():\n    os._exit(1)\n")
    code, printed = run(tmp_path)
    assert code == 1, printed
    assert "FAILED test_death.py::test_death" in printed
    assert "crashed and worker restarting disabled" in printed


def test_the_makefile_shares_as_these_tests_do() -> None:
    assert f"SHARED := {' '.join(SHARED).replace('2', '$(PROCESSES)', 1)}\n" in (ROOT / "Makefile").read_text()


def test_what_is_said_to_be_alone_or_long_exists() -> None:
    assert all((ROOT / name).exists() for name in shares.ALONE + shares.LONG)
