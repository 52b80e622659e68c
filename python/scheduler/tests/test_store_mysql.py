"""What is MySQL's own: lost connections, locks, packets, values out of its types' range, a server that restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql
import pytest
from servers import MariaDB
from sqlalchemy.engine import Connection, make_url
from store_rows import NOW, changes, column, instance, instance_update, worker

from taskyard_scheduler.store.mysql import WRITER_KEEPALIVE_S, WRITER_SILENCE_S, lock_name
from taskyard_scheduler.store.mysql_writer import MysqlWriter, literal
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Deposed, RowsRefused, Store, StoreError, StoreUnavailable
from taskyard_scheduler.store.sql import COMMITS


@pytest.fixture
async def store(mariadb_database: str) -> AsyncIterator[Store]:
    opened = open_store(mariadb_database)
    await opened.open()
    await opened.begin_term("test", NOW)
    yield opened
    await opened.close()


@contextmanager
def session(url: str) -> Iterator[pymysql.cursors.Cursor]:
    """Gives a cursor of another program."""
    parsed = make_url(url)
    connection = pymysql.connect(host=parsed.host, port=parsed.port or 0, user="root", database=parsed.database)
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


async def count(store: Store) -> int:
    return len(await store.list_instances("default", [], None, 100_000, newest_first=False))


async def until_available(store: Store, revision: int, *rows: tuple[object, ...]) -> int:
    """Commits until it succeeds, as the scheduler does; returns how often it was told to try again."""
    for failures in range(1000):
        try:
            await store.commit(1, changes(revision, instance_inserts=list(rows)))
        except StoreUnavailable:
            await asyncio.sleep(0.02)
        else:
            return failures
    raise AssertionError("never available")


async def test_settings_name_what_durability_rests_on(store: Store) -> None:
    settings = await store.settings()
    assert settings["innodb_flush_log_at_trx_commit"] == "1"
    assert settings["isolation"] == "READ COMMITTED"
    assert "MariaDB" in settings["version"]


async def test_killed_connections_are_made_anew(store: Store, mariadb_database: str) -> None:
    await store.commit(1, changes(1, instance_inserts=[instance()]))
    assert await count(store) == 1
    database = make_url(mariadb_database).database
    with session(mariadb_database) as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        [(mine,)] = cursor.fetchall()
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (database,))
        for (thread,) in cursor.fetchall():
            if thread != mine:
                cursor.execute(f"KILL {thread}")
    with pytest.raises(StoreUnavailable):
        await store.commit(1, changes(2, instance_inserts=[instance()]))
    with pytest.raises(StoreUnavailable):
        await store.list_instances("default", [], None, 9, newest_first=False)
    row = instance()
    await store.commit(1, changes(2, instance_inserts=[row]))
    assert await count(store) == 2


async def test_a_server_that_restarts_under_load_loses_nothing(tmp_path: Path, mariadb: MariaDB) -> None:
    server = MariaDB(tmp_path / "server")
    server.start()
    store = open_store(server.create_database())
    await store.open()
    await store.begin_term("test", NOW)
    failures = number = 0
    bounces: list[asyncio.Task[None]] = []
    while number < 40 or not all(one.done() for one in bounces):
        number += 1
        if number in (10, 25):
            end = server.kill if number == 10 else server.stop
            bounces.append(asyncio.create_task(asyncio.to_thread(bounce, end, server.start), name="bounce"))
        failures += await until_available(store, number, *[instance() for _ in range(20)])
    assert failures
    await asyncio.gather(*bounces)
    with suppress(StoreUnavailable):  # the connection that lists had not been used since
        await count(store)
    assert await count(store) == 20 * number
    await store.close()
    server.stop()


def bounce(end: Callable[[], None], start: Callable[[], None]) -> None:
    end()
    start()


async def test_a_lost_answer_is_no_second_commit(store: Store, mariadb_database: str) -> None:
    """The server commits and its answer is lost: the repetition finds that out."""
    commit = changes(1, instance_inserts=[instance()], worker_upserts=[worker("w")])
    await store.commit(1, commit)
    other = open_store(mariadb_database)  # as after a new connection, which remembers nothing
    await other.open()
    await other.commit(1, commit)
    assert await count(other) == 1
    await other.close()


async def test_locks_of_others_are_waited_out(store: Store, mariadb_database: str) -> None:
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    update = changes(2, instance_updates=[instance_update(column(row, "id"))])
    with session(mariadb_database) as cursor:
        cursor.execute("SELECT * FROM instances FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="Lock wait timeout"):
            await store.commit(1, update)
    await store.commit(1, update)


async def test_two_leaders_at_one_revision_cannot_both_write(store: Store, mariadb_database: str) -> None:
    other = open_store(mariadb_database)
    await other.open()
    started = await other.begin_term("other", NOW)
    results = await asyncio.gather(
        store.commit(1, changes(1, instance_inserts=[instance()])),
        other.commit(started.term, changes(1, instance_inserts=[instance()])),
        return_exceptions=True,
    )
    assert isinstance(results[0], Deposed)
    assert results[1] is None
    assert await count(other) == 1
    await other.close()


async def test_a_new_term_waits_for_the_commit_that_is_under_way(store: Store, mariadb_database: str) -> None:
    other = open_store(mariadb_database)
    await other.open()
    with session(mariadb_database) as cursor:  # a commit that has proved its term and not ended
        cursor.execute("BEGIN")
        cursor.execute("UPDATE cluster SET revision = 1 WHERE term = 1 AND revision = 0")
        beginning = asyncio.ensure_future(other.begin_term("other", NOW))
        done, _ = await asyncio.wait({beginning}, timeout=0.3)
        assert not done
        cursor.connection.commit()
    started = await beginning
    assert (started.term, started.revision) == (2, 1)
    await other.close()


async def hang(store: Store, *statements: str) -> threading.Event:
    """Has the store's writer hang after these statements until the event that is returned is set."""
    began, wakes = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement)
        began.set()
        assert wakes.wait(60)

    writer = store._lane(COMMITS)  # type: ignore[attr-defined]
    hanging = writer.start(work)
    hanging.add_done_callback(lambda future: future.exception())
    assert await asyncio.to_thread(began.wait, 30)
    return wakes


async def test_a_leader_that_hangs_in_a_commit_keeps_nobody_out(store: Store, mariadb_database: str) -> None:
    """Frozen, or its machine is gone: the server frees what its transaction locked, and it writes nothing more."""
    other = open_store(mariadb_database)
    await other.open()
    wakes = await hang(store, "BEGIN", "UPDATE cluster SET revision = 1 WHERE term = 1 AND revision = 0")
    started = await other.begin_term("other", NOW)
    assert (started.term, started.revision) == (2, 0)
    wakes.set()
    with pytest.raises(StoreUnavailable):
        await store.commit(1, changes(1, instance_inserts=[instance()]))
    with pytest.raises(Deposed):
        await store.commit(1, changes(1, instance_inserts=[instance()]))
    assert await count(other) == 0
    await other.close()


async def test_a_leader_that_hangs_in_a_migration_keeps_nobody_out(store: Store, mariadb_database: str) -> None:
    lock = lock_name(make_url(mariadb_database), "schema")
    wakes = await hang(store, f"DO GET_LOCK('{lock}', 0)")
    other = open_store(mariadb_database)
    await other.open()
    await other.close()
    wakes.set()


async def test_a_writer_with_nothing_to_write_keeps_its_connection(store: Store) -> None:
    def identity(connection: Connection) -> object:
        return connection.exec_driver_sql("SELECT CONNECTION_ID()").scalar()

    writer = store._lane(COMMITS)  # type: ignore[attr-defined]
    before = await writer.run(identity)
    await asyncio.sleep(WRITER_SILENCE_S + 2 * WRITER_KEEPALIVE_S)  # the server's own time is what is tried
    assert await writer.run(identity) == before


# Values.


@pytest.mark.parametrize("name", ["task_name", "idempotency_key", "error_kind"])
async def test_what_is_too_long_is_refused_and_not_cut(store: Store, name: str) -> None:
    bad = instance(**{name: "é" * 256})
    with pytest.raises(RowsRefused, match=name) as caught:
        await store.commit(1, changes(1, instance_inserts=[instance(), bad, instance()]))
    assert [row.key for row in caught.value.rows] == [("default", column(bad, "id"))]
    assert await count(store) == 0
    await store.commit(1, changes(1, instance_inserts=[instance(**{name: "é" * 255})]))


async def test_an_integer_beyond_its_column_is_refused(store: Store) -> None:
    bad = instance(attempt=1 << 31)
    with pytest.raises(RowsRefused, match="attempt"):
        await store.commit(1, changes(1, instance_inserts=[instance(), bad]))


async def test_an_update_of_nothing_inserts_nothing(store: Store) -> None:
    row = instance()
    await store.commit(1, changes(1, instance_inserts=[row]))
    updates = [instance_update(column(row, "id"), revision=2), instance_update("nobody", revision=2)]
    with pytest.raises(RowsRefused) as caught:
        await store.commit(1, changes(2, instance_updates=updates))
    assert [(refused.key, refused.reason) for refused in caught.value.rows] == [
        (("default", "nobody"), "there is no such row")
    ]
    assert await store.get_instances("default", ["nobody", column(row, "id")]) == [(*row, None, 0)]


async def test_commits_larger_than_a_packet_are_cut_and_a_larger_row_refused(tmp_path: Path, mariadb: MariaDB) -> None:
    server = MariaDB(tmp_path / "server", "--max-allowed-packet=1M")
    server.start()
    store = open_store(server.create_database())
    await store.open()
    await store.begin_term("test", NOW)
    rows = [instance(params_json="é" * 200_000 + str(n)) for n in range(12)]
    await store.commit(1, changes(1, instance_inserts=rows))
    assert await count(store) == 12
    small, large = instance(), instance(params_json="é" * 600_000)
    with pytest.raises(RowsRefused, match=r"it takes 1200\d\d\d bytes, and max_allowed_packet is 1048576: raise it"):
        await store.commit(1, changes(2, instance_inserts=[small, large]))
    await store.commit(1, changes(2, instance_inserts=[small]))
    await store.close()
    server.stop()


# What a person did wrong.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"database": "nowhere"}, "there is no such database: create it"),
        ({"username": "nobody", "password": "secret"}, "user or password is wrong"),
    ],
    ids=["database", "user"],
)
async def test_a_wrong_url_is_said_without_its_password(
    mariadb_database: str, change: dict[str, str], words: str
) -> None:
    store = open_store(make_url(mariadb_database).set(**change).render_as_string(hide_password=False))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match=words) as caught:
        await store.open()
    assert not isinstance(caught.value, StoreUnavailable)
    assert "secret" not in str(caught.value)


async def test_no_server_is_a_reason_to_try_again() -> None:
    store = open_store("mysql+pymysql://root@127.0.0.1:1/taskyard")
    with pytest.raises(StoreUnavailable):
        await store.open()


async def test_a_schema_that_was_tampered_with_is_no_rows_fault(store: Store, mariadb_database: str) -> None:
    with session(mariadb_database) as cursor:
        cursor.execute("ALTER TABLE instances DROP COLUMN spare")
    with pytest.raises(StoreError, match="spare") as caught:
        await store.commit(1, changes(1, instance_inserts=[instance()]))
    assert not isinstance(caught.value, RowsRefused | StoreUnavailable)


# Texts of statements.


def test_literals() -> None:
    assert literal(None) == "NULL"
    assert literal(-5) == "-5"
    assert literal(True) == "1"
    assert literal("it's \\ \x00") == "'it\\'s \\\\ \x00'"
    assert literal(b"\x00\xff") == "X'00ff'"
    assert literal(b"") == "X''"


def test_what_all_rows_share_is_written_once() -> None:
    writer = MysqlWriter()
    step = writer.steps["instance_inserts"]
    text = writer._statement(step, [instance(task_name="one-name", token=f"{n:04}") for n in range(50)])
    assert text.count("one-name") == 1
    assert text.count("'0049'") == 1


def test_lock_names_fit_and_differ() -> None:
    long = "d" * 64
    names = {lock_name(make_url(f"mysql://h/{database}"), "leader") for database in ("a", "b", long, long + "x")}
    assert len(names) == 4
    assert all(len(name) <= 64 for name in names)
