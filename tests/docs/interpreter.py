"""Runs blocks of Python as `python -m asyncio` does: one after the other, with `await` where a block wants it.

A line of stdin is a block: a list of its name and its text. What it prints is followed by a line on how it ended:
`well`, or, after the traceback, the name of the exception's type.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
import traceback
from typing import Any


def run(runner: asyncio.Runner, name: str, text: str, names: dict[str, Any]) -> str:
    """Runs a block; returns how it ended."""
    try:
        code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        made = eval(code, names)  # noqa: S307 - running what a page says is what this is for
        if inspect.iscoroutine(made):
            runner.run(made)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        return type(error).__name__
    return "well"


def main() -> None:
    """Runs all blocks of stdin."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            name, text = json.loads(line)
            end = run(runner, name, text, names)
            sys.stdout.write(f"\n--- ended {end} ---\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
