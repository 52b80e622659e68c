"""`python -m bench [NAME ...]`: what `make bench` and `make bench-NAME` call."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def start() -> int:
    """Runs the command with tests/ on the import path, where the private servers are."""
    sys.path.append(str(ROOT / "tests"))
    from bench.command import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(start())
