from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st
from worker_fakes import Answers, FakeLink, assignment, working

from taskyard.v1.tasks_pb2 import LogLine
from taskyard.v1.workers_pb2 import LogChunk, LogChunkAck
from taskyard_worker import TaskRegistry
from taskyard_worker.context import Context
from taskyard_worker.link import LinkError
from taskyard_worker.logbook import (
    MAX_ATTEMPT_BYTES,
    MAX_LINE_BYTES,
    MAX_PENDING_BYTES,
    PART_CHARACTERS,
    LogBook,
    cut_line,
)


class Book(LogBook):
    def __init__(self) -> None:
        self.woken = 0
        self.lost = 0
        super().__init__(lambda: 1_700_000_000_123, self._woke, self._lose)

    def _woke(self) -> None:
        self.woken += 1

    def _lose(self, lines: int) -> None:
        self.lost += lines

    def say(self, text: str, token: str = "a") -> None:  # noqa: S107 - an attempt token of a test
        self.append(f"task-{token}", token, "log", "INFO", [text])

    def take(self) -> list[str]:
        """Sends what waits, as the scheduler would take it, and returns the lines."""
        lines: list[str] = []
        while chunks := self.chunks():
            for chunk in chunks:
                lines += [line.text for line in chunk.lines]
                self.acknowledge(ack(chunk))
        return lines


def ack(chunk: LogChunk, *, closed: bool = False) -> LogChunkAck:
    return LogChunkAck(attempt_token=chunk.attempt_token, next_line=chunk.first_line + len(chunk.lines), closed=closed)


def test_lines_are_numbered_and_carry_what_they_are() -> None:
    book = Book()
    book.say("one\ntwo")
    first = book.chunks()[0]
    assert (first.task_id, first.attempt_token, first.first_line) == ("task-a", "a", 0)
    assert [(line.text, line.stream, line.level) for line in first.lines] == [
        ("one", "log", "INFO"),
        ("two", "log", "INFO"),
    ]
    assert first.lines[0].time.ToMilliseconds() == 1_700_000_000_123
    book.acknowledge(ack(first))
    book.say("three")
    assert book.chunks()[0].first_line == 2
    assert book.woken == 2


def test_what_is_not_acknowledged_is_sent_again_from_the_line_that_is_expected() -> None:
    book = Book()
    book.say("0\n1\n2\n3")
    assert len(book.chunks()[0].lines) == 4
    book.acknowledge(LogChunkAck(attempt_token="a", next_line=2))
    chunk = book.chunks()[0]
    assert (chunk.first_line, [line.text for line in chunk.lines]) == (2, ["2", "3"])


def test_a_scheduler_that_lost_lines_is_followed() -> None:
    book = Book()
    book.say("0\n1")
    book.acknowledge(ack(book.chunks()[0]))
    book.say("2")
    book.acknowledge(LogChunkAck(attempt_token="a", next_line=1))
    assert book.chunks()[0].first_line == 1


def test_a_closed_log_takes_no_more() -> None:
    book = Book()
    book.say("0\n1")
    book.acknowledge(ack(book.chunks()[0], closed=True))
    book.say("2")
    assert book.chunks() == []
    assert book.empty


def test_an_ended_attempt_is_forgotten_once_its_lines_are_sent() -> None:
    book = Book()
    book.say("0")
    book.end("a")
    assert book.take() == ["0"]
    assert book._logs == {}
    book.say("1", "b")
    book.take()
    book.end("b")
    assert book._logs == {}


def joined(lines: list[LogLine]) -> str:
    return "".join(line.text + ("" if line.partial else "\n") for line in lines)


@given(st.lists(st.text("a\né", max_size=8) | st.integers(0, 2).map(lambda n: "x" * (n * PART_CHARACTERS + n))))
def test_text_that_comes_in_pieces_is_what_it_was_once_joined(pieces: list[str]) -> None:
    book = Book()
    for piece in pieces:
        book.append_text("task-a", "a", "output", piece)
    lines = [line for chunk in book.chunks() for line in chunk.lines]
    assert joined(lines) == "".join(pieces)
    assert {line.stream for line in lines} <= {"output"}
    assert all("\n" not in line.text and len(line.text) <= PART_CHARACTERS for line in lines)


def test_a_line_is_cut_at_64_kib_with_a_mark() -> None:
    book = Book()
    book.say("é" * 40_000)
    line = book.take()[0]
    assert len(line.encode()) <= MAX_LINE_BYTES
    assert line.endswith("[line cut at 64 KiB]")


@given(st.text(max_size=50).map(lambda text: text * 2000))
def test_cutting_keeps_valid_text_within_the_limit(text: str) -> None:
    cut = cut_line(text)
    assert len(cut.encode()) <= MAX_LINE_BYTES
    assert cut == text or cut.endswith("[line cut at 64 KiB]")


def test_an_attempt_writes_10_mib_and_then_a_mark() -> None:
    book = Book()
    lines: list[str] = []
    for _ in range(300):
        book.say("x" * 60_000)
        lines += book.take()
    assert lines[-1] == "[log cut: this attempt has written 10 MiB; further lines are not kept]"
    assert lines.count(lines[-1]) == 1
    assert MAX_ATTEMPT_BYTES <= sum(map(len, lines)) < MAX_ATTEMPT_BYTES + 100_000


def test_what_waits_is_bounded_and_a_line_tells_how_much_was_dropped() -> None:
    book = Book()
    for number in range(1200):
        book.say("x" * 60_000, f"a{number % 12}")
    waiting = sum(len(line.text) for log in book._logs.values() for line in log.lines)
    assert waiting <= MAX_PENDING_BYTES
    assert book.lost > 0
    book.take()
    book.say("after", "a0")
    note, after = book.take()
    assert after == "after"
    assert note.startswith("[")
    assert "lines dropped" in note


def test_one_talkative_attempt_does_not_silence_the_others() -> None:
    book = Book()
    for _ in range(100):
        book.say("x" * 60_000, "loud")
    book.say("quiet", "quiet")
    first = book.chunks()
    assert [chunk.attempt_token for chunk in first] == ["loud"]
    book.acknowledge(ack(first[0]))
    assert book.chunks()[0].attempt_token == "quiet"


def test_threads_may_write_at_once() -> None:
    book = Book()

    def write(name: str) -> None:
        for number in range(500):
            book.say(f"{name} {number}", "shared")

    threads = [threading.Thread(target=write, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = book.take()
    assert len(lines) == 2000
    for name in "0123":
        assert [line for line in lines if line.startswith(name)] == [f"{name} {number}" for number in range(500)]


async def test_logs_reach_the_scheduler_in_order_also_after_errors() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler(ctx: Context) -> None:
        for number in range(10):
            ctx.log.warning("line %d", number)

    @registry.task("threaded")
    def threaded(ctx: Context) -> None:
        ctx.log.error("from a thread: 100%")

    down = LinkError("UNAVAILABLE", "", "down")
    link = FakeLink(log_answers=Answers(down, down, True))
    async with working(registry, link) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"), assignment("b", "threaded"))
        await link.changed.until(lambda: len(link.log_lines.get("a", ())) == 10 and "b" in link.log_lines)
        assert link.log_lines["a"] == [f"line {number}" for number in range(10)]
        assert link.log_lines["b"] == ["from a thread: 100%"]


async def test_logs_that_cannot_be_sent_hold_up_nothing() -> None:
    registry = TaskRegistry()

    @registry.task("work")
    async def handler(ctx: Context) -> None:
        ctx.log.info("x" * 1000)

    async with working(registry, FakeLink(log_answers=Answers(LinkError("UNAVAILABLE", "", "down")))) as bench:
        stream = await bench.link.stream()
        stream.assign(*(assignment(str(number)) for number in range(10)))
        await stream.until(lambda s: len(s.results) == 10)
