"""What only the store on files has: kills, full disks, damage, many small tasks, space given back."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs import FileLogStore, LogLimits, LogStoreUnavailable
from taskyard_scheduler.logs.archive import Append, Archive
from taskyard_scheduler.logs.index import Index
from taskyard_scheduler.logs.segments import Segments
from taskyard_service.logging import make_logger

WRITER = """
import sys
from pathlib import Path
from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs.admission import LogLimits
from taskyard_scheduler.logs.archive import Append, Archive
from taskyard_service.logging import make_logger

archive = Archive(Path(sys.argv[1]), make_logger("writer"), LogLimits(), 200_000)
n = 0
while True:
    tasks = [Append("t", f"task-{i}", 1, n, [LogLine(text=f"{i}:{n} " + "x" * (n % 300))]) for i in range(5)]
    archive.append(tasks)
    n += 1
    print(n, flush=True)
"""


class Journal(io.StringIO):
    """What the store logged."""

    @property
    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.getvalue().splitlines()]


def archive(folder: Path, journal: Journal | None = None, segment_bytes: int = 64 * 1024 * 1024) -> Archive:
    log = make_logger("test", stream=journal or Journal())
    return Archive(folder, log, LogLimits(), segment_bytes)


def append(store: Archive, task: str, first: int, *texts: str) -> int:
    return store.append([Append("t", task, 1, first, [LogLine(text=text) for text in texts])])[0].next_line


def read(store: Archive, task: str) -> list[str]:
    page = store.read("t", task, 1, -1, 100_000)
    assert not page.more
    return [line.content.text for line in page.lines]


def segments(folder: Path) -> list[Path]:
    return sorted((folder / "segments").iterdir())


def test_a_killed_writer_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    for acknowledged_at_least in (5, 60, 200):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            answered = 0
            for line in writer.stdout:
                answered = int(line)
                if answered >= acknowledged_at_least:
                    break
            writer.send_signal(signal.SIGKILL)
            answered = max([answered, *(int(rest) for rest in writer.stdout.read().split() if rest.isdigit())])
        store = archive(tmp_path)
        for i in range(5):
            kept = read(store, f"task-{i}")
            assert len(kept) >= answered
            assert kept == [f"{i}:{n} " + "x" * (n % 300) for n in range(len(kept))]
            assert append(store, f"task-{i}", len(kept), "after") == len(kept) + 1
        store.delete("t", [f"task-{i}" for i in range(5)])
        store.close()


def test_a_torn_end_is_cut_and_what_the_index_missed_is_found(tmp_path: Path) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "0", "1")
    store.close()
    (segment,) = segments(tmp_path)
    whole = segment.read_bytes()
    index = (tmp_path / "index.db").read_bytes()
    store = archive(tmp_path)
    append(store, "a", 2, "2")
    append(store, "b", 0, "b0")
    store.close()
    # As a kill between the segment's write and the index's commit leaves it, amid a further record.
    grown = segment.read_bytes()
    segment.write_bytes(grown + whole[:-3])
    (tmp_path / "index.db").write_bytes(index)
    journal = Journal()
    store = archive(tmp_path, journal)
    assert read(store, "a") == ["0", "1", "2"]
    assert read(store, "b") == ["b0"]
    assert segment.read_bytes() == grown
    assert journal.events == ["cut the torn end of a log segment"]
    assert append(store, "b", 1, "b1") == 2
    store.close()
    store = archive(tmp_path)
    assert read(store, "b") == ["b0", "b1"]
    store.close()


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_lost_index_is_made_anew_from_the_segments(tmp_path: Path, damage: str) -> None:
    store = archive(tmp_path, segment_bytes=500)
    for n in range(40):
        append(store, f"task-{n % 3}", n // 3, f"{n}" * 10)
    store.close()
    assert len(segments(tmp_path)) > 3
    index = tmp_path / "index.db"
    if damage == "missing":
        index.unlink()
    else:
        index.write_bytes(b"no database " * 1_000)
    journal = Journal()
    store = archive(tmp_path, journal)
    for task in range(3):
        assert read(store, f"task-{task}") == [f"{n}" * 10 for n in range(task, 40, 3)]
    assert append(store, "task-0", 14, "on") == 15
    assert ("the index of the log store is damaged, making it anew" in journal.events) == (damage == "garbage")
    store.close()


def test_a_record_damaged_on_disk_is_shown_as_lost_lines_and_hides_no_other(tmp_path: Path) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "zero", "one")
    append(store, "a", 2, "two")
    store.close()
    (segment,) = segments(tmp_path)
    data = bytearray(segment.read_bytes())
    data[data.index(b"zero")] ^= 1
    segment.write_bytes(data)
    store = archive(tmp_path)
    shown = read(store, "a")
    assert "lines 0 to 1 were damaged" in shown[0]
    assert shown[1:] == ["two"]
    store.close()
    (tmp_path / "index.db").unlink()
    store = archive(tmp_path)
    assert read(store, "a") == ["two"]
    assert append(store, "a", 3, "three") == 4
    store.close()


def test_a_segment_that_lost_its_end_gives_what_it_has_and_takes_the_lines_again(tmp_path: Path) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "0")
    size = segments(tmp_path)[0].stat().st_size
    append(store, "a", 1, "1")
    append(store, "b", 0, "b")
    store.close()
    os.truncate(segments(tmp_path)[0], size + 5)
    store = archive(tmp_path)
    assert read(store, "a") == ["0"]
    assert read(store, "b") == []
    assert append(store, "a", 1, "1") == 2
    assert append(store, "b", 0, "b") == 1
    store.close()
    store = archive(tmp_path)
    assert (read(store, "a"), read(store, "b")) == (["0", "1"], ["b"])
    store.close()


def test_lines_that_look_like_records_are_only_lines(tmp_path: Path) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "x")
    store.close()
    record = segments(tmp_path)[0].read_bytes().decode("latin-1")
    store = archive(tmp_path)
    append(store, "b", 0, record, record)
    store.close()
    (tmp_path / "index.db").unlink()
    store = archive(tmp_path)
    assert read(store, "a") == ["x"]
    assert read(store, "b") == [record, record]
    store.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = archive(tmp_path)
    with pytest.raises(LogStoreUnavailable, match="in use by another process"):
        archive(tmp_path)
    store.close()
    archive(tmp_path).close()


def test_an_index_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    archive(tmp_path).close()
    db = sqlite3.connect(tmp_path / "index.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(LogStoreUnavailable, match="version 99"):
        archive(tmp_path)
    assert not (tmp_path / "index.damaged").exists()


def test_deleting_gives_space_back_and_keeps_the_living(tmp_path: Path) -> None:
    store = archive(tmp_path, segment_bytes=10_000)
    for n in range(200):
        append(store, f"task-{n}", 0, f"{n} " + "x" * 500)
    before = len(segments(tmp_path))
    assert before >= 10
    living = [n for n in range(200) if n % 25 == 0]
    store.delete("t", [f"task-{n}" for n in range(200) if n not in living])
    after = segments(tmp_path)
    assert sum(path.stat().st_size for path in after) < 30_000
    for n in living:
        assert read(store, f"task-{n}") == [f"{n} " + "x" * 500]
    store.close()
    # Nothing deleted comes back at the next start, and what was moved is found.
    store = archive(tmp_path, segment_bytes=10_000)
    assert read(store, "task-1") == []
    assert read(store, "task-25") == ["25 " + "x" * 500]
    assert append(store, "task-25", 1, "on") == 2
    store.close()


def test_a_stop_between_moving_and_removing_neither_doubles_nor_revives(tmp_path: Path) -> None:
    store = archive(tmp_path, segment_bytes=5_000)
    for n in range(30):
        append(store, f"task-{n}", 0, "x" * 400)
    first = segments(tmp_path)[0]
    saved = first.read_bytes()
    store.delete("t", [f"task-{n}" for n in range(1, 20)])
    assert not first.exists()
    store.close()
    first.write_bytes(saved)  # the unlink did not reach the disk
    store = archive(tmp_path, segment_bytes=5_000)
    assert read(store, "task-0") == ["x" * 400]
    store.close()


def all_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "0")
    size = segments(tmp_path)[0].stat().st_size
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(LogStoreUnavailable, match="No space left on device; see to the disk"):
            append(store, "a", 1, "1")
    assert segments(tmp_path)[0].stat().st_size == size
    assert append(store, "a", 1, "again") == 2
    assert read(store, "a") == ["0", "again"]
    store.close()


def test_a_commit_of_the_index_that_fails_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = archive(tmp_path)
    append(store, "a", 0, "0")

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Index, "grow", fails)
        with pytest.raises(LogStoreUnavailable, match="database or disk is full"):
            append(store, "a", 1, "1")
    assert append(store, "a", 1, "again") == 2
    store.close()
    (tmp_path / "index.db").unlink()  # the segments alone tell the same
    store = archive(tmp_path)
    assert read(store, "a") == ["0", "again"]
    store.close()


def test_copies_of_records_do_not_count_twice(tmp_path: Path) -> None:
    limits = LogLimits(attempt_bytes=2_000)

    def made() -> Archive:
        return Archive(tmp_path, make_logger("test", stream=Journal()), limits)

    store = made()
    append(store, "a", 0, *["x" * 100] * 10)
    store.close()
    (segment,) = segments(tmp_path)
    segment.with_name("00000002.seg").write_bytes(segment.read_bytes())  # moved, and not removed yet
    (tmp_path / "index.db").unlink()
    store = made()
    assert read(store, "a") == ["x" * 100] * 10
    answer = store.append([Append("t", "a", 1, 10, [LogLine(text="y" * 100)] * 5)])[0]
    assert (answer.next_line, answer.closed) == (15, False)
    store.close()


def test_a_stop_before_a_file_is_removed_revives_nothing_and_the_space_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = archive(tmp_path, segment_bytes=1_000)
    for n in range(20):
        append(store, f"task-{n}", 0, "x" * 400)
    before = len(segments(tmp_path))

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Segments, "remove", fails)
        with pytest.raises(LogStoreUnavailable, match="cannot delete logs: Input/output error"):
            store.delete("t", [f"task-{n}" for n in range(20)])
    store.close()
    assert len(segments(tmp_path)) == before
    store = archive(tmp_path, segment_bytes=1_000)
    assert [read(store, f"task-{n}") for n in range(20)] == [[]] * 20
    assert len(segments(tmp_path)) == 1
    store.close()


def test_a_full_log_that_lost_its_mark_gets_it_again(tmp_path: Path) -> None:
    limits = LogLimits(attempt_bytes=500)

    def made() -> Archive:
        return Archive(tmp_path, make_logger("test", stream=Journal()), limits)

    store = made()
    append(store, "a", 0, *["x" * 100] * 4)
    size = segments(tmp_path)[0].stat().st_size
    assert append(store, "a", 4, "y" * 100) == 5
    assert "truncated" in read(store, "a")[-1]
    store.close()
    os.truncate(segments(tmp_path)[0], size)
    store = made()
    assert read(store, "a") == ["x" * 100] * 4
    assert append(store, "a", 4, "y" * 100) == 5
    assert "truncated" in read(store, "a")[-1]
    store.close()


def full_disk(folder: Path) -> None:
    """Runs in a process of its own: its files cannot grow beyond a limit, as on a full disk."""
    store = archive(folder)
    append(store, "a", 0, "before")
    used = max(path.stat().st_size for path in [*segments(folder), *folder.glob("index.db*")])
    # Python ignores SIGXFSZ, so that writing beyond the limit fails with EFBIG.
    resource.setrlimit(resource.RLIMIT_FSIZE, (used + 20_000, resource.RLIM_INFINITY))
    line, refusals = 1, list[str]()
    for _ in range(40):
        try:
            line = append(store, "a", line, "y" * 3_000)
        except LogStoreUnavailable as error:
            refusals.append(str(error))
        assert len(read(store, "a")) == line
    assert len(refusals) > 20
    assert all("see to the disk" in sentence for sentence in refusals)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert append(store, "a", line, "after") == line + 1
    store.close()
    store = archive(folder)
    kept = read(store, "a")
    assert kept == ["before", *["y" * 3_000] * (line - 1), "after"]
    store.close()


def test_a_full_disk_refuses_whole_batches_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; import test_logs_files as t; t.full_disk(Path(sys.argv[1]))"
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


async def test_ten_thousand_attempts_of_one_line_are_few_files_and_quick(tmp_path: Path) -> None:
    store = FileLogStore(tmp_path, make_logger("test", stream=Journal()))
    await store.start()
    begin = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for n in range(10_000):
            group.create_task(store.append("t", f"task-{n}", 1, 0, [LogLine(text=f"line of {n}")]), name=f"w{n}")
    took = time.perf_counter() - begin
    files = all_files(tmp_path)
    assert len(files) <= 4, files
    assert took < 10, f"{took:.1f} s"
    for n in (0, 4_321, 9_999):
        page = await store.read("t", f"task-{n}", 1, -1, 10)
        assert [line.content.text for line in page.lines] == [f"line of {n}"]
    await store.stop()


async def test_a_stopped_store_refuses_and_stop_writes_what_waits(tmp_path: Path) -> None:
    store = FileLogStore(tmp_path, make_logger("test", stream=Journal()))
    await store.start()
    writing = [asyncio.create_task(store.append("t", str(n), 1, 0, [LogLine(text="x")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.stop()
    assert [answer.next_line for answer in await asyncio.gather(*writing)] == [1] * 50
    with pytest.raises(LogStoreUnavailable, match="not running"):
        await store.append("t", "late", 1, 0, [LogLine(text="x")])


async def test_a_store_that_is_behind_refuses_instead_of_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskyard_scheduler.logs.filestore.WAITING_LIMIT_BYTES", 10_000)
    store = FileLogStore(tmp_path, make_logger("test", stream=Journal()))
    await store.start()
    line = [LogLine(text="x" * 1_000)]
    answers = await asyncio.gather(*(store.append("t", str(n), 1, 0, line) for n in range(50)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, LogStoreUnavailable)]
    assert 30 < len(refused) < 50
    assert "later" in str(refused[0])
    assert (await store.append("t", "49", 1, 0, line)).next_line == 1
    await store.stop()
