"""The log store is opened when it can be had, and a leader does not wait for that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from taskyard.v1.tasks_pb2 import LogLine
from taskyard_scheduler.logs import FileLogStore
from taskyard_scheduler.logs.port import LogStoreUnavailable
from taskyard_scheduler.logs.tenure import Tenure
from taskyard_service.logging import make_logger

LOG = make_logger("test", "error")
LINE = [LogLine(text="x")]


async def test_files_that_another_holds_are_opened_once_they_are_free(tmp_path: Path) -> None:
    holder, ours = FileLogStore(tmp_path, LOG), FileLogStore(tmp_path, LOG)
    await holder.start()
    tenure = Tenure(ours, LOG)
    await tenure.begin()
    with pytest.raises(LogStoreUnavailable):
        await ours.append("t", "task", 1, 0, LINE)
    await holder.append("t", "task", 1, 0, LINE)
    await holder.stop()
    async with asyncio.timeout(10):
        while True:
            try:
                page = await ours.read("t", "task", 1, -1, 10)
                break
            except LogStoreUnavailable:
                await asyncio.sleep(0.01)  # it says nothing when it opens
    assert [line.content.text for line in page.lines] == ["x"]
    await tenure.end()


async def test_a_tenure_that_never_got_the_files_ends_and_another_begins(tmp_path: Path) -> None:
    holder, ours = FileLogStore(tmp_path, LOG), FileLogStore(tmp_path, LOG)
    await holder.start()
    tenure = Tenure(ours, LOG)
    await tenure.begin()
    await tenure.end()
    await holder.stop()
    await tenure.begin()
    assert (await ours.append("t", "task", 1, 0, LINE)).next_line == 1
    await tenure.end()
    await tenure.end()
    await holder.start()  # nothing of ours is left open
    await holder.stop()
