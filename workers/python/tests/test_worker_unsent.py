"""What a worker that stops could not send of its tasks' logs is sent by the next one in its directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from worker_fakes import Answers, FakeLink, Silent, assignment, gated, working

from taskyard.v1.tasks_pb2 import LogLine
from taskyard.v1.workers_pb2 import LogChunk
from taskyard_worker import TaskRegistry
from taskyard_worker.link import LinkError
from taskyard_worker.unsent import FileLogs, UnsentLogs

LATER = [f"later {number}" for number in range(6)]


def chunk(token: str, *texts: str) -> LogChunk:
    return LogChunk(task_id=f"task-{token}", attempt_token=token, lines=[LogLine(text=text) for text in texts])


def unsent_logs(folder: Path, log: Silent | None = None) -> FileLogs:
    return FileLogs(folder / "unsent.logs", (log or Silent()).warning)


async def stop_out_of_reach(registry: TaskRegistry, link: FakeLink, logs: UnsentLogs) -> Silent:
    """Runs a task whose first line is sent and whose others are not, since the scheduler is gone."""
    gate, _, _ = gated(registry)
    async with working(registry, link, logs=logs, reach_grace_s=0.02) as bench:
        stream = await link.stream()
        stream.assign(assignment("a"))
        await stream.until(lambda s: s.started == ["a"])
        attempt = bench.runtime.work.running[0]
        attempt.write_log("INFO", "first")
        await link.changed.until(lambda: link.log_lines.get("a") == ["first"])
        await bench.runtime.session.logs_sent()
        link.open_answers = link.log_answers = Answers(LinkError("UNAVAILABLE", "", "refused"))
        stream.fail("UNAVAILABLE")
        for line in LATER:
            attempt.write_log("INFO", line)
        gate.set()
        bench.runtime.drain()
        await bench.ended()
        assert link.log_lines["a"] == ["first"]
        return bench.log


async def test_the_next_life_sends_what_was_left(registry: TaskRegistry, tmp_path: Path) -> None:
    link, logs = FakeLink(), unsent_logs(tmp_path)
    said = await stop_out_of_reach(registry, link, logs)
    [facts] = [facts for _, event, facts in said.events if event == "log lines stay on disk for the next start"]
    assert facts == {"count": 6, "tasks": ["task-a"]}
    again = FakeLink()
    again.log_lines = link.log_lines  # the scheduler's files
    async with working(registry, again, logs=unsent_logs(tmp_path)) as bench:
        await again.stream()
        await bench.runtime.session.logs_sent()
        assert again.log_lines["a"] == ["first", *LATER]
        assert [chunk.first_line for call in again.log_calls for chunk in call.chunks] == [1]
        assert logs.replay() == []
        bench.runtime.drain()
        await bench.ended()
    assert not os.listdir(tmp_path)


async def test_two_lives_without_a_scheduler_lose_nothing(registry: TaskRegistry, tmp_path: Path) -> None:
    logs = unsent_logs(tmp_path)
    logs.keep([chunk("a", "one", "two")])
    link = FakeLink(log_answers=Answers(LinkError("UNAVAILABLE", "", "refused")))
    async with working(registry, link, logs=unsent_logs(tmp_path), reach_grace_s=0.02) as bench:
        await link.stream()
        bench.runtime.logbook.append("task-b", "b", "log", "INFO", ["three"])
        bench.runtime.drain()
        link.open_answers = link.log_answers
        link.streams[0].fail("UNAVAILABLE")
        await bench.ended()
    kept = {part.attempt_token: [line.text for line in part.lines] for part in logs.replay()}
    assert kept == {"a": ["one", "two"], "b": ["three"]}


async def test_without_room_on_the_disk_it_says_what_is_lost(registry: TaskRegistry, tmp_path: Path) -> None:
    said = await stop_out_of_reach(registry, FakeLink(), unsent_logs(tmp_path / "missing"))
    [facts] = [facts for level, event, facts in said.events if level == "error" and "log lines" in event]
    assert (facts["count"], facts["tasks"]) == (6, ["task-a"])


def test_a_write_that_fails_leaves_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = unsent_logs(tmp_path)
    logs.keep([chunk("a", "one")])

    def full(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        logs.keep([chunk("b", "two")])
    assert logs.replay() == [chunk("a", "one")]
    assert [path.name for path in tmp_path.iterdir()] == ["unsent.logs"]


def test_a_damaged_file_is_told_and_left_behind(tmp_path: Path) -> None:
    log = Silent()
    (tmp_path / "unsent.logs").write_bytes(b"\xff\xff\xff")
    assert unsent_logs(tmp_path, log).replay() == []
    assert log.said("damaged and lost")
    assert list(tmp_path.iterdir()) == []
