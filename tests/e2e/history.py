"""What was done to a site and what it answered, and the model that all of it is held against.

The model is too simple to be wrong: each accepted task has one row, ends once, as its kind ends, and each
execution belongs to one attempt that the database knows, on that attempt's worker.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.site import Site
from taskyard.v1 import tasks_pb2 as pb
from taskyard_core.records import ENDED

SUCCESS, FAILED, CANCELLED = pb.TASK_STATUS_SUCCESS, pb.TASK_STATUS_FAILED, pb.TASK_STATUS_CANCELLED
UNRECORDED = frozenset({"shell", "tell", "sleep"})
"""Task types whose handlers leave no record."""


@dataclass(slots=True)
class Submitted:
    """One submission, whether or not its answer arrived."""

    task_type: str
    status: int
    """How it must end."""
    output: Mapping[str, Any] | None
    """What it must return; None: not looked at."""
    task_id: str = ""


@dataclass(slots=True)
class History:
    """Everything that the clients of one test have sent and seen. Submissions are by request id."""

    submitted: dict[str, Submitted] = field(default_factory=dict)
    endings: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    """Tasks that somebody wanted to end: they may have ended otherwise before."""

    def accepted(self, request_id: str, task_id: str) -> None:
        """An answer came: the same request always has the same id."""
        known = self.submitted[request_id]
        assert known.task_id in ("", task_id), f"request {request_id} made {known.task_id} and now {task_id}"
        known.task_id = task_id

    def ended(self, task: pb.TaskInstance) -> None:
        """A client saw a task's end: what is done stays done."""
        seen = (task.status, task.attempt, task.output_json)
        assert self.endings.setdefault(task.task_id, seen) == seen, f"{task.task_id} ended twice: {seen}"

    @property
    def ids(self) -> set[str]:
        """The tasks that were accepted."""
        return {each.task_id for each in self.submitted.values() if each.task_id}


async def check(site: Site, history: History) -> None:
    """Holds the history against the model, through the API and by SQL.

    Raises:
        AssertionError: Something was lost, doubled, changed after its end, or run without being anyone's attempt.
    """
    database = site.database()
    try:
        rows = {row["id"]: row for row in database.rows("SELECT * FROM instances")}
        archived = database.rows("SELECT * FROM attempts")
    finally:
        database.close()
    _check_rows(history, rows)
    attempts = _attempts(rows, archived)
    _check_executions(executions(site), rows, attempts)
    client = site.client()
    listed = {task.task_id: task.status async for task in client.list_tasks(page_size=1000)}
    assert listed == {id: row["state"] for id, row in rows.items()}


def _check_rows(history: History, rows: Mapping[str, Mapping[str, Any]]) -> None:
    lost = history.ids - rows.keys()
    assert not lost, f"accepted and lost: {sorted(lost)[:5]} and {len(lost)} in all"
    requests = Counter(row["request_id"] for row in rows.values())
    doubled = [id for id, count in requests.items() if count > 1]
    assert not doubled, f"requests with several tasks: {doubled[:5]}"
    for row in rows.values():
        told = history.submitted.get(row["request_id"])
        assert told is not None, f"nobody asked for {row['id']} (request {row['request_id']!r})"
        assert told.task_id in ("", row["id"]), f"request {row['request_id']} has {row['id']}, answered {told.task_id}"
        _check_end(history, row, told)


def _check_end(history: History, row: Mapping[str, Any], told: Submitted) -> None:
    assert row["phase"] == ENDED, f"{row['id']} has not ended: {row}"
    assert row["ended_at"] is not None
    allowed = {told.status, CANCELLED} if row["id"] in history.cancelled else {told.status}
    assert row["state"] in allowed, f"{row['id']} ({told.task_type}) ended in {row['state']}, not {allowed}: {row}"
    if row["state"] == SUCCESS and told.output is not None:
        assert json.loads(row["output_json"]) == told.output, f"{row['id']}: {row['output_json']}"
    seen = history.endings.get(row["id"])
    now = (row["state"], row["attempt"], row["output_json"])
    assert seen in (None, now), f"{row['id']} was seen ended as {seen} and is {now}"


def _attempts(rows: Mapping[str, Mapping[str, Any]], archived: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    """Returns the worker of each attempt; there must be each number once, with a token of its own."""
    workers: dict[tuple[str, int], str] = {}
    tokens: set[str] = set()
    last = [row for row in rows.values() if row["token"]]
    for row in [*archived, *last]:
        key = (row["id"], row["attempt"])
        assert key not in workers, f"attempt {key} is there twice"
        assert row["token"] not in tokens, f"token {row['token']} of {key} is another attempt's too"
        workers[key] = row["worker_id"]
        tokens.add(row["token"])
    for row in rows.values():
        missing = [n for n in range(1, row["attempt"] + 1) if (row["id"], n) not in workers]
        assert not missing, f"{row['id']} has {row['attempt']} attempts, but not {missing}"
    return workers


def executions(site: Site) -> list[dict[str, Any]]:
    """Returns what the handlers recorded, in the order in which they did."""
    if not site.records.exists():
        return []
    return [json.loads(line) for line in site.records.read_text().splitlines()]


def _check_executions(
    records: list[dict[str, Any]], rows: Mapping[str, Mapping[str, Any]], attempts: Mapping[tuple[str, int], str]
) -> None:
    begun = Counter((record["task"], record["attempt"]) for record in records if record["what"] == "start")
    ended = {(record["task"], record["attempt"]) for record in records if record["what"] == "end"}
    for key, count in begun.items():
        assert count == 1, f"attempt {key} ran {count} times"
        assert key in attempts, f"{key} ran, and the database knows no such attempt"
    for record in records:
        key = (record["task"], record["attempt"])
        assert attempts[key] == record["worker"], f"{key} ran on {record['worker']}, and is {attempts[key]}'s"
    for row in rows.values():
        if row["state"] == SUCCESS and row["task_type"] not in UNRECORDED:
            key = (row["id"], row["attempt"])
            assert key in begun, f"{key} succeeded, and never ran"
            assert key in ended, f"{key} succeeded, and never came to its end"
