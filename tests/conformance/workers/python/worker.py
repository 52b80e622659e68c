"""The Python worker as the kit starts it: its own command, with the kit's handlers and no built-in types."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from taskyard_worker.main import main

if __name__ == "__main__":
    os.environ["TASKYARD_TASKS"] = str(Path(__file__).with_name("handlers.py"))
    os.environ.setdefault("TASKYARD_BIND", "127.0.0.1")
    sys.exit(main(["--no-builtin"]))
