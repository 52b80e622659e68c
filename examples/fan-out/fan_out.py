"""Counts the words of all *.txt files of a folder, one task for each, and adds them up.

A second start takes the same keys: what was counted already is not counted again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from taskyard_client import Client, TaskFailed, new_task, task_output


def main(folder: Path) -> int:
    """Submits, waits, adds up, and says what failed. Returns the exit code."""
    files = sorted(folder.resolve().glob("*.txt"))
    tasks = [
        new_task("count_words", {"path": str(file)}, idempotency_key=f"words of {file}", tags=["fan-out"])
        for file in files
    ]
    with Client(os.environ["TASKYARD_ADDRESS"], os.environ["TASKYARD_TOKEN"]) as client:
        handles = []
        for handle, error in client.submit_many(tasks):
            if handle is None:
                raise SystemExit(f"not accepted: {error}")
            handles.append(handle)
        known = sum(handle.repeated for handle in handles)
        ended = client.wait_tasks([handle.id for handle in handles], timeout=300)
    words, failed = 0, 0
    for task in ended.values():
        try:
            words += task_output(task)["words"]
        except TaskFailed as failure:
            failed += 1
            print(f"failed: {failure}")
    print(f"{len(files)} files, {known} of them known already, {words} words, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
