"""The leader goes on when the database does not take a row, whatever is wrong with it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

from gated_store import PATIENCE_S, submission
from leaders import leading

from taskyard_core.engine.events import Accepted, Cancel
from taskyard_core.records import CANCELLED
from taskyard_scheduler.store.open import open_store


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
