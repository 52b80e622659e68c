"""What is SQLite's own: the file and its lock, a full disk, damage, kill -9, and what the planner makes of queries."""

from __future__ import annotations

import asyncio
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from store_rows import NOW, changes, instance, worker

from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import RowsRefused, Store, StoreError, StoreHeld, StoreUnavailable
from taskyard_scheduler.store.sqlite_writer import ROWS, SHAPES, SqliteWriter, round_up
from taskyard_scheduler.store.writes import STEPS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "taskyard.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = open_store(f"sqlite:///{path}")
    await opened.open()
    await opened.begin_term("test", NOW)
    yield opened
    await opened.close()


@pytest.mark.parametrize("synchronous", ["FULL", "NORMAL"])
async def test_durability_is_as_configured(path: Path, synchronous: str) -> None:
    store = open_store(f"sqlite:///{path}", synchronous=synchronous)  # type: ignore[arg-type]
    await store.open()
    found = await store.settings()
    assert (found["synchronous"], found["journal_mode"]) == (synchronous, "wal")
    await store.close()


# The file.


async def test_a_held_file_is_refused_with_its_holder(store: Store, path: Path) -> None:
    other = open_store(f"sqlite:///{path}")
    with pytest.raises(StoreHeld, match=r"taskyard.db is held by another process \(pid \d+\): stop it"):
        await other.open()
    await other.close()
    await store.commit(1, changes(1, worker_upserts=[worker("w")]))  # the holder is not disturbed
    await store.close()
    await other.open()
    await other.close()


HOLDER = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from store_rows import NOW, changes, instance
from taskyard_scheduler.store.open import open_store

async def main():
    store = open_store(sys.argv[1])
    await store.open()
    term = (await store.begin_term("holder", NOW)).term
    for revision in range(1, 1_000_000):
        await store.commit(term, changes(revision, instance_inserts=[instance() for _ in range(20)]))
        print(revision, flush=True)

asyncio.run(main())
"""


async def test_a_killed_process_loses_nothing_and_holds_nothing(path: Path) -> None:
    url = f"sqlite:///{path}"
    command = [sys.executable, "-c", HOLDER, url, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220 - quick
        assert process.stdout is not None
        for _ in range(30):
            process.stdout.readline()
        with pytest.raises(StoreHeld):
            await open_store(url).open()
        process.send_signal(signal.SIGKILL)
        answered = 30 + len(process.stdout.read().split())
    store = open_store(url)
    await store.open()
    revision = (await store.begin_term("next", NOW)).revision
    rows = await store.list_instances("default", [], None, 1_000_000, newest_first=False)
    await store.close()
    assert answered <= revision <= answered + 1  # the last one may be written and not be told
    assert len(rows) == 20 * revision


async def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    write_letter(path)
    store = open_store(f"sqlite:///{path}")
    with pytest.raises(
        StoreError, match=r"taskyard.db is damaged or no database .*: restore it from a backup"
    ) as caught:
        await store.open()
    assert not isinstance(caught.value, StoreUnavailable)


def write_letter(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"This is a letter to my aunt. " * 1000)


async def test_a_damaged_database_is_no_reason_to_try_again(path: Path) -> None:
    store = open_store(f"sqlite:///{path}")
    await store.open()
    await store.begin_term("a", NOW)
    await store.commit(1, changes(1, instance_inserts=[instance() for _ in range(3000)]))
    await store.close()
    damage(path)
    with pytest.raises(StoreError, match="damaged") as caught:
        await open_and_read(store)
    assert not isinstance(caught.value, StoreUnavailable)
    await store.close()


async def open_and_read(store: Store) -> None:
    await store.open()
    await store.list_instances("default", [], None, 9999, newest_first=False)


def damage(path: Path) -> None:
    """Overwrites a part in the middle, as a bad disk does."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4096 * 20)


async def test_a_path_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await open_store(f"sqlite:///{tmp_path / 'file' / 'taskyard.db'}").open()


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Lets no file of this process grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_is_waited_out(store: Store, path: Path) -> None:
    first, second = [instance() for _ in range(50)], [instance(params_json="x" * 5000) for _ in range(200)]
    await store.commit(1, changes(1, instance_inserts=first))
    commit = changes(2, instance_inserts=second)
    with full_disk(path.with_name("taskyard.db-wal").stat().st_size + 10_000):
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.commit(1, commit)
        rows = await store.list_instances("default", [], None, 999, newest_first=False)
        assert len(rows) == 50  # reads go on
    await store.commit(1, commit)
    assert len(await store.list_instances("default", [], None, 999, newest_first=False)) == 250


async def test_another_programs_lock_is_waited_out(store: Store, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(store.commit(1, changes(1, worker_upserts=[worker("w")])))
    assert await store.load_workers() == []
    assert not writing.done()
    other.execute("COMMIT")
    await writing
    other.close()
    assert await store.load_workers() == [worker("w")]


async def test_a_value_of_no_columns_type_is_refused(store: Store) -> None:
    with pytest.raises(RowsRefused, match=r"params_json|type"):
        await store.commit(1, changes(1, instance_inserts=[instance(), instance(params_json=object())]))


async def test_a_closed_store_says_so(store: Store) -> None:
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        await store.load_workers()


# Statements.


def test_sizes_are_few_and_never_too_small() -> None:
    assert [round_up(count) for count in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 513, ROWS)] == [
        1, 2, 3, 4, 6, 6, 8, 8, 12, 16, 768, 768,
    ]  # fmt: skip
    assert all(count <= round_up(count) <= ROWS for count in range(1, ROWS + 1))
    assert len({round_up(count) for count in range(1, ROWS + 1)}) <= 20
    widest = max(len(step.columns) for step in STEPS)
    assert (ROWS + 1) * widest <= 32_766


def test_shapes_are_bounded_and_cover_what_differs() -> None:
    writer = SqliteWriter()
    step = writer.steps["instance_inserts"]
    width = len(step.columns)
    for number in range(200):
        differing = {number % width, (number * 7) % width, (number * 11 + 3) % width, (number // 5) % width}
        rows = [tuple(at + n if at in differing else 0 for at in range(width)) for n in range(3)]
        shape = writer._shape(step, list(zip(*rows, strict=True)))
        assert differing.issubset(shape)
        assert shape[:2] == (0, 1)
        assert len(set(shape)) == len(shape)
        assert len(writer._shapes[step.kind]) <= SHAPES
