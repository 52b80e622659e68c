"""Files that a tool writes and that are checked in: written, or with --check compared with what they should be."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settle(files: Mapping[Path, str], tool: str) -> int:
    """Reads the tool's command line, and does what it says.

    Args:
        files: What each file should hold.
        tool: Name of the tool's file.

    Returns:
        The exit code: 1 when --check found a file that is not current.
    """
    parser = argparse.ArgumentParser(prog=tool)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not current")
    check = parser.parse_args().check
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if check:
            print(f"{name} is not current: run `python tools/{tool}`", file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
            print(f"wrote {name}")
    return int(check and bool(stale))
