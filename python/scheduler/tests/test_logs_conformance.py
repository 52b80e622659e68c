"""What every log store promises, run on each."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs import FileLogStore, LogLimits, LogPage, LogStore, MemoryLogStore
from taskyard_service.logging import make_logger

LIMITS = LogLimits(line_bytes=1_000, attempt_bytes=6_000_000)
NASTY = [
    "",
    "\x00",
    "\r\n",
    "\u2028",
    "😀" * 3,
    "TYL1" * 50,
    "\x1b[31mred",
    "'; DROP TABLE chunks; --",
    "a\tb",
]


@pytest.fixture(params=["memory", "files"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogStore]:
    made: LogStore
    if request.param == "memory":
        made = MemoryLogStore(LIMITS)
    else:
        made = FileLogStore(tmp_path / "logs", make_logger("test", stream=io.StringIO()), limits=LIMITS)
    await made.start()
    yield made
    await made.stop()


def lines(*texts: str) -> list[LogLine]:
    return [LogLine(text=text, stream="stdout") for text in texts]


def texts(page: LogPage) -> list[str]:
    return [line.content.text for line in page.lines]


async def test_any_text_comes_back_as_it_went_in(store: LogStore) -> None:
    answer = await store.append("t", "task", 1, 0, lines(*NASTY))
    assert (answer.next_line, answer.closed) == (len(NASTY), False)
    page = await store.read("t", "task", 1, -1, 100)
    assert texts(page) == NASTY
    assert [(line.attempt, line.line) for line in page.lines] == [(1, n) for n in range(len(NASTY))]
    assert not page.more


async def test_repeated_overlapping_and_early_chunks_are_kept_once_and_in_order(store: LogStore) -> None:
    await store.append("t", "task", 1, 0, lines("0", "1", "2"))
    assert (await store.append("t", "task", 1, 5, lines("5"))).next_line == 3
    assert (await store.append("t", "task", 1, 0, lines("0", "1", "2"))).next_line == 3
    assert (await store.append("t", "task", 1, 1, lines("1", "2", "3"))).next_line == 4
    assert texts(await store.read("t", "task", 1, -1, 100)) == ["0", "1", "2", "3"]


async def test_attempts_tasks_and_tenants_are_apart(store: LogStore) -> None:
    for tenant, task, attempt in [("a", "x", 1), ("a", "x", 2), ("a", "y", 1), ("b", "x", 1)]:
        await store.append(tenant, task, attempt, 0, lines(f"{tenant}{task}{attempt}"))
    assert texts(await store.read("b", "x", 1, -1, 10)) == ["bx1"]
    assert texts(await store.read("a", "x", 2, -1, 10)) == ["ax2"]
    assert texts(await store.read("b", "y", 1, -1, 10)) == []


async def test_pages_join_without_gap_or_overlap(store: LogStore) -> None:
    for start in range(0, 100, 7):
        await store.append("t", "task", 1, start, lines(*(str(n) for n in range(start, min(start + 7, 100)))))
    seen: list[str] = []
    more = True
    while more:
        page = await store.read("t", "task", 1, len(seen) - 1, 9)
        assert len(page.lines) <= 9
        seen += texts(page)
        more = page.more
    assert seen == [str(n) for n in range(100)]


async def test_a_page_is_bounded_in_bytes_too(store: LogStore) -> None:
    many = lines(*["x" * 1_000] * 5_500)
    await store.append("t", "task", 1, 0, many)
    page = await store.read("t", "task", 1, -1, 10_000)
    assert page.more
    assert 4_000 < len(page.lines) < 4_200
    rest = await store.read("t", "task", 1, page.lines[-1].line, 10_000)
    assert len(page.lines) + len(rest.lines) == 5_500
    assert not rest.more


async def test_a_full_log_says_so_in_its_last_line(store: LogStore) -> None:
    answer = await store.append("t", "task", 1, 0, lines(*["x" * 1_000] * 6_100))
    assert answer.closed
    last = await store.read("t", "task", 1, answer.next_line - 2, 10)
    assert "truncated" in texts(last)[0]
    assert not last.more
    again = await store.append("t", "task", 1, answer.next_line, lines("late"))
    assert again == answer


async def test_a_long_line_is_cut_with_a_mark(store: LogStore) -> None:
    await store.append("t", "task", 1, 0, lines("y" * 5_000))
    (text,) = texts(await store.read("t", "task", 1, -1, 1))
    assert text.endswith("[cut: the line has 5,000 bytes]")
    assert len(text) <= 1_000


async def test_a_follower_is_woken_by_lines_and_by_the_end(store: LogStore) -> None:
    with store.changes("t", "task") as changes:
        waiting = asyncio.create_task(changes.wait(), name="follower")
        await store.append("t", "other", 1, 0, lines("x"))
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.append("t", "task", 1, 0, lines("x"))
        await asyncio.wait_for(waiting, 5)
        store.wake("t", "task")
        await asyncio.wait_for(changes.wait(), 5)


async def test_a_follower_misses_nothing_between_reading_and_waiting(store: LogStore) -> None:
    async def follow() -> list[str]:
        seen: list[str] = []
        with store.changes("t", "task") as changes:
            while len(seen) < 50:
                page = await store.read("t", "task", 1, len(seen) - 1, 3)
                seen += texts(page)
                if not page.lines:
                    await changes.wait()
        return seen

    following = asyncio.create_task(follow(), name="follower")
    for n in range(50):
        await store.append("t", "task", 1, n, lines(str(n)))
    assert await asyncio.wait_for(following, 20) == [str(n) for n in range(50)]


async def test_deleted_logs_are_gone_and_others_stay(store: LogStore) -> None:
    for task in ("a", "b"):
        for attempt in (1, 2):
            await store.append("t", task, attempt, 0, lines(task))
    await store.append("other", "a", 1, 0, lines("a"))
    await store.delete("t", ["a", "unknown"])
    assert texts(await store.read("t", "a", 1, -1, 10)) == []
    assert texts(await store.read("t", "a", 2, -1, 10)) == []
    assert texts(await store.read("t", "b", 2, -1, 10)) == ["b"]
    assert texts(await store.read("other", "a", 1, -1, 10)) == ["a"]
    assert (await store.append("t", "a", 1, 0, lines("anew"))).next_line == 1
    assert texts(await store.read("t", "a", 1, -1, 10)) == ["anew"]


async def test_many_writers_at_once_lose_nothing(store: LogStore) -> None:
    async def write(task: int) -> None:
        for n in range(20):
            await store.append("t", str(task), 1, n, lines(f"{task}:{n}"))

    async with asyncio.TaskGroup() as group:
        for task in range(30):
            group.create_task(write(task), name=f"writer-{task}")
    for task in range(30):
        page = await store.read("t", str(task), 1, -1, 100)
        assert texts(page) == [f"{task}:{n}" for n in range(20)]
