"""The Python worker with one thing wrong: `mutant.py NAME` starts it as that mutant (conformance/mutants.py)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from conformance.mutants import MUTANTS

from taskyard_worker.main import main

if __name__ == "__main__":
    MUTANTS[sys.argv[1]].patch()
    os.environ["TASKYARD_TASKS"] = str(Path(__file__).with_name("handlers.py"))
    os.environ.setdefault("TASKYARD_BIND", "127.0.0.1")
    sys.exit(main(["--no-builtin"]))
