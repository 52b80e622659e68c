"""A search in a log is cut into calls of bounded length, and finds every line once over them."""

from __future__ import annotations

import pytest

from taskyard.v1 import tasks_pb2 as pb
from taskyard_scheduler.logs.memory import MemoryLogStore
from taskyard_scheduler.services import log_calls
from taskyard_scheduler.services.log_calls import LogCalls


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("every", [1, 4, 17, 1_000])
async def test_every_line_is_found_once(monkeypatch: pytest.MonkeyPatch, size: int, every: int) -> None:
    monkeypatch.setattr(log_calls, "PAGE_LIMIT", 5)
    monkeypatch.setattr(log_calls, "READS", 2)
    calls = LogCalls()
    calls._logs = MemoryLogStore()
    lines = [pb.LogLine(text=f"{'hit' if number % every == 0 else 'miss'} {number}") for number in range(60)]
    await calls._logs.append("t", "task", 1, 0, lines)
    found: list[str] = []
    after, asked = -1, 0
    while True:
        page = await calls._search("t", "task", 1, after, size, lambda line: line.text.startswith("hit"))
        asked += 1
        assert len(page.lines) <= size
        found += [line.content.text for line in page.lines]
        if not page.next_page_token:
            break
        assert int(page.next_page_token) > after, "the next call goes on from where this one looked"
        after = int(page.next_page_token)
    assert found == [line.text for line in lines if line.text.startswith("hit")]
    assert asked >= 60 / 10
