"""The leader goes on when the database does not take a row, or anything at all; who is refused meanwhile knows why."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
from gated_store import PATIENCE_S, GatedStore, submission
from leaders import leading
from sqlalchemy.engine import make_url

from taskyard_core.engine.events import Accepted, Cancel
from taskyard_core.records import CANCELLED, Changes
from taskyard_scheduler import leader as leader_module
from taskyard_scheduler.grpc_errors import translate
from taskyard_scheduler.store.memory import MemoryDatabase
from taskyard_scheduler.store.mysql import MysqlDialect
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import StoreUnavailable
from taskyard_scheduler.store.sqlite import SqliteDialect
from taskyard_service.errors import ResourceExhausted, Unavailable


async def test_a_row_that_somebody_deleted_holds_nothing_up(tmp_path: Path) -> None:
    path = tmp_path / "taskyard.db"
    store = open_store(f"sqlite:///{path}")
    await store.open()
    try:
        async with leading(store) as leader, asyncio.timeout(PATIENCE_S):
            deleted, other = [outcome.id for outcome in await submission(leader, "a", "b")]
            with sqlite3.connect(path) as connection:
                connection.execute("DELETE FROM instances WHERE id = ?", (deleted,))
            replies: list[Any] = []
            for id in (deleted, other):
                replies.append(leader.future())
                leader.handle(Cancel(replies[-1], id, "enough"))
            assert await asyncio.gather(*replies) == [CANCELLED, CANCELLED]
            [accepted] = await submission(leader, "c")
            assert isinstance(accepted, Accepted)
        [row] = await store.get_instances("default", [other])
        assert await store.get_instances("default", [deleted]) == []
        assert CANCELLED in row
    finally:
        await store.close()


class FullStore(GatedStore):
    """Takes no commit while it has a refusal."""

    refusal: StoreUnavailable | None = StoreUnavailable("/var/lib/taskyard.db: the disk is full", "the disk is full")

    def _commit(self, term: int, changes: Changes) -> None:
        if self.refusal is not None:
            raise self.refusal
        super()._commit(term, changes)


async def test_who_is_refused_while_nothing_can_be_stored_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "STALL_LIMIT_S", 0.0)
    store = FullStore(MemoryDatabase())
    store.open_wide()
    async with leading(store) as leader, asyncio.timeout(PATIENCE_S):
        accepted = submission(leader, "a")
        await store.until_asked(2)  # once more: so the leader knows that the database does not answer
        with pytest.raises(Unavailable) as caught:
            leader.admit(1)
        assert caught.value.message == (
            "the database does not answer (the disk is full); nothing new is taken: try again"
        )
        store.refusal = None
        assert isinstance((await accepted)[0], Accepted)
        leader.admit(1)


async def test_who_waits_while_the_disk_is_full_is_told_so_and_that_it_may_still_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every call that waits for a commit is answered; what it asked for is done later, and a repeat finds it."""
    monkeypatch.setattr(leader_module, "FULL_LIMIT_S", 0.0)
    store = FullStore(MemoryDatabase())
    store.open_wide()
    store.refusal = StoreUnavailable("/var/lib/taskyard.db: full", "the disk is full: make room", full=True)
    async with leading(store) as leader, asyncio.timeout(PATIENCE_S):
        waits = [submission(leader, "a"), asyncio.ensure_future(leader.committed())]
        answers = await asyncio.gather(*waits, return_exceptions=True)
        for answer in answers:
            assert isinstance(answer, ResourceExhausted)
            assert (answer.reason, answer.retry_after_s) == ("STORAGE_FULL", None)
            assert answer.message == (
                "the database does not answer (the disk is full: make room); what was asked is not stored yet and may "
                "still be done once there is room: repeat the same request then to know"
            )
        with pytest.raises(Unavailable, match="nothing new is taken"):
            leader.admit(1)
        store.refusal = None
        [again] = await submission(leader, "a")
        assert isinstance(again, Accepted)
        assert again.repeated
        leader.admit(1)
    assert len(await store.list_instances("default", [], None, 9, newest_first=False)) == 1


async def test_what_passes_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_module, "FULL_LIMIT_S", 0.0)
    store = FullStore(MemoryDatabase())
    store.open_wide()
    async with leading(store) as leader, asyncio.timeout(PATIENCE_S):
        waits = submission(leader, "a")
        await store.until_asked(4)
        assert not waits.done()
        store.refusal = None
        [accepted] = await waits
        assert isinstance(accepted, Accepted)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full: make room, writing goes on by itself"),
        (sqlite3.SQLITE_IOERR, "the disk does not read or write: look at the system's log"),
        (sqlite3.SQLITE_NOMEM, ""),
    ],
)
def test_what_everyone_is_told_names_no_file(code: int, told: str) -> None:
    raised = sqlite3.OperationalError("disk I/O error at /var/lib")
    raised.sqlite_errorcode = code
    error = SqliteDialect(Path("/var/lib/taskyard.db")).translate(raised)
    assert isinstance(error, StoreUnavailable)
    assert error.full == (code == sqlite3.SQLITE_FULL)
    answer = translate(error)
    assert isinstance(answer, Unavailable)
    reason = f" ({told})" if told else ""
    assert answer.message == f"the database does not answer{reason}: try again"


@pytest.mark.parametrize(("blocks", "full"), [(0, True), (1, False)])
def test_a_disk_without_room_is_full_also_where_sqlite_only_says_that_it_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blocks: int, full: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=blocks))
    raised = sqlite3.OperationalError("disk I/O error")
    raised.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    error = SqliteDialect(tmp_path / "taskyard.db").translate(raised)
    assert isinstance(error, StoreUnavailable)
    assert (error.full, "disk is full" in error.told) == (full, full)


@pytest.mark.parametrize(("code", "full"), [(1021, True), (1114, True), (2006, False), (1205, False)])
def test_a_full_disk_of_a_database_server_is_told_apart(code: int, full: bool) -> None:
    dialect = MysqlDialect(make_url("mysql+pymysql://someone:secret@nowhere/taskyard"))
    error = dialect.translate(pymysql.err.OperationalError(code, "on /var/lib/mysql"))
    assert isinstance(error, StoreUnavailable)
    assert error.full == full
    assert "/var" not in error.sentence
    assert ("disk is full" in error.sentence) == full
