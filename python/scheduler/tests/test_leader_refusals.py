"""The leader goes on when the database does not take a row, or anything at all; who is refused meanwhile knows why."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from gated_store import PATIENCE_S, GatedStore, submission
from leaders import leading

from taskyard_core.engine.events import Accepted, Cancel
from taskyard_core.records import CANCELLED, Changes
from taskyard_scheduler import leader as leader_module
from taskyard_scheduler.grpc_errors import translate
from taskyard_scheduler.store.memory import MemoryDatabase
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import StoreUnavailable
from taskyard_scheduler.store.sqlite import SqliteDialect
from taskyard_service.errors import Unavailable


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
    """Takes no commit while `full`."""

    full = True

    def _commit(self, term: int, changes: Changes) -> None:
        if self.full:
            raise StoreUnavailable("/var/lib/taskyard.db: the disk is full (disk I/O)", "the disk is full")
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
        store.full = False
        assert isinstance((await accepted)[0], Accepted)
        leader.admit(1)


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
    answer = translate(error)
    assert isinstance(answer, Unavailable)
    reason = f" ({told})" if told else ""
    assert answer.message == f"the database does not answer{reason}: try again"
