"""docs/traceability.md names tests that exist, for every row; what is not shown yet says so and why."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import ROOT

SECTIONS = {
    "Workspace", "Contract", "Core", "Scheduler", "Python worker and client", "Command", "Demo", "Simulation",
    "Benchmarks", "Bad input", "Faults", "Submitting", "By hand", "Built-in task types", "Watching", "HTTP and JSON",
    "Artifacts", "Real workflows", "Conformance kit", "Java", "Not yet shown",
}  # fmt: skip
PAGE = (ROOT / "docs" / "traceability.md").read_text(encoding="utf-8")


def rows(page: str) -> Iterator[tuple[str, str, str]]:
    """Yields section, what, and shown-by of each row."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        name, _, body = section.partition("\n")
        for line in body.splitlines():
            if line.startswith("| ") and not line.startswith("| what |"):
                what, shown = line.strip().removesuffix("|").removeprefix("|").split(" | ", 1)
                yield name, what.strip(), shown.strip()


def known_tests() -> dict[str, set[str]]:
    """Returns the test functions of every test file, by the file's name, which is unique in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*test_*.py", "*Test.java"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in listed:
        path = ROOT / name
        if path.exists():
            assert path.name not in found, f"two files are called {path.name}"
            found[path.name] = set((methods_of if path.suffix == ".java" else functions_of)(path))
    return found


def functions_of(path: Path) -> Iterator[str]:
    """Yields the names of a file's test functions; of a state machine, the name that it is run under."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (each.id for each in node.targets if isinstance(each, ast.Name) and each.id.startswith("test_"))


def methods_of(path: Path) -> Iterator[str]:
    """Yields the names of the test methods of a class in Java."""
    marked = re.compile(r"@(?:Test|ParameterizedTest|TestFactory)\b[^{]*?\s(\w+)\([^{;]*\{", re.DOTALL)
    text = re.sub(r"@\w+Source\((?:[^()\"]|\"[^\"]*\")*\)", "", path.read_text(encoding="utf-8"))
    yield from (found[1] for found in marked.finditer(text))


def unknown(shown: str, tests: dict[str, set[str]], targets: set[str]) -> list[str]:
    """Returns what a row names that does not exist; the row itself when it names nothing."""
    named = re.findall(r"`([^`]+)`", shown)
    return [each for each in named if not _exists(each, tests, targets)] if named else [shown or "(empty)"]


def _exists(named: str, tests: dict[str, set[str]], targets: set[str]) -> bool:
    if named.startswith("make "):
        return named.removeprefix("make ") in targets
    file, _, function = named.partition("::")
    return bool(tests.get(file)) if not function else function in tests.get(file, ())


def test_every_row_names_tests_that_exist() -> None:
    tests = known_tests()
    targets = set(re.findall(r"^([a-z%-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = [row for row in rows(PAGE) if row[0] != "Not yet shown"]
    assert len(listed) > 60
    assert {what: bad for _, what, shown in listed if (bad := unknown(shown, tests, targets))} == {}


def test_every_section_is_there_and_has_rows() -> None:
    assert {section for section, _, _ in rows(PAGE)} == SECTIONS


def test_what_is_not_shown_says_what_is_missing() -> None:
    assert [what for section, what, why in rows(PAGE) if section == "Not yet shown" and len(why) < 20] == []


@pytest.mark.parametrize(
    ("shown", "bad"),
    [
        ("`test_traceability.py::test_no_such`", ["test_traceability.py::test_no_such"]),
        ("`test_no_such.py`", ["test_no_such.py"]),
        ("`make no-such`", ["make no-such"]),
        ("", ["(empty)"]),
        ("by hand", ["by hand"]),
        ("`test_traceability.py`, `make demo`", []),
    ],
)
def test_what_does_not_exist_is_found(shown: str, bad: list[str]) -> None:
    assert unknown(shown, {"test_traceability.py": {"test_x"}}, {"demo"}) == bad
