"""No package loses a cancellation of its own while it ends something, and none waits for that without limit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted([*ROOT.glob("python/*/taskyard_*"), *ROOT.glob("workers/python/taskyard_*")])


def modules(package: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(package.rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """Returns the calls of a function or method of this name, however it is reached."""
    return [each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each.func).endswith(name)]


def is_bounded(tree: ast.AST, line: int) -> bool:
    """Tells whether a line is inside `async with asyncio.timeout(...)`."""
    blocks = (each for each in ast.walk(tree) if isinstance(each, ast.AsyncWith))
    return any(
        block.lineno <= line <= (block.end_lineno or 0) and "timeout" in ast.unparse(block.items[0]) for block in blocks
    )


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_cancellation_is_suppressed(package: Path) -> None:
    """`await task` under it cannot tell the task's cancellation from the caller's: `asyncio.wait` can."""
    found = [
        f"{path}:{call.lineno}"
        for path, tree in modules(package)
        for call in calls(tree, "suppress")
        if "CancelledError" in ast.unparse(call) or "BaseException" in ast.unparse(call)
    ]
    assert not found, "wait for it with `asyncio.wait` and a timeout, as `end_tasks` does"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_function_waits_without_limit_for_what_it_has_cancelled(package: Path) -> None:
    found: list[str] = []
    for path, tree in modules(package):
        for function in ast.walk(tree):
            if not isinstance(function, ast.AsyncFunctionDef):
                continue
            cancelled = [call.lineno for call in calls(function, ".cancel") if not call.args]
            waits = [*calls(function, "asyncio.wait"), *calls(function, "asyncio.gather")]
            found += [
                f"{path}:{call.lineno} {function.name}"
                for call in waits
                if any(line < call.lineno for line in cancelled)
                and not any(word.arg == "timeout" for word in call.keywords)
                and not is_bounded(function, call.lineno)
            ]
    assert not found, "give it a timeout, and say what is left behind"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_server_is_waited_for_without_limit(package: Path) -> None:
    """With Python 3.12 and with uvloop it waits for every connection, and a peer that reads nothing ends none."""
    found = [
        f"{path}:{call.lineno}"
        for path, tree in modules(package)
        for call in calls(tree, ".wait_closed")
        if not is_bounded(tree, call.lineno)
    ]
    assert not found, "wait for it within `asyncio.timeout`"


@pytest.mark.parametrize(
    ("source", "bounded"),
    [
        ("async def f(s):\n    await s.wait_closed()", False),
        ("async def f(s):\n    async with asyncio.timeout(1):\n        await s.wait_closed()", True),
        ("async def f(s):\n    async with asyncio.timeout(1):\n        pass\n    await s.wait_closed()", False),
    ],
)
def test_the_search_sees_limits(source: str, bounded: bool) -> None:
    tree = ast.parse(source)
    [call] = calls(tree, ".wait_closed")
    assert is_bounded(tree, call.lineno) == bounded
