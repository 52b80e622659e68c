from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from worker_fakes import assignment, working

from taskyard_worker import Context, TaskRegistry
from taskyard_worker.keys import MAX_AGE_MS, MAX_BYTES, FileKeys, MemoryKeys


class Wall:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


def nothing(event: str, /, **facts: object) -> None: ...


def test_the_first_output_stays_and_tenants_do_not_share_keys() -> None:
    keys = MemoryKeys(Wall())
    keys.remember("a", "key", "1")
    keys.remember("a", "key", "2")
    keys.remember("b", "key", "3")
    assert (keys.find("a", "key"), keys.find("b", "key"), keys.find("a", "other")) == ("1", "3", None)


def test_keys_are_bounded_by_count_age_and_bytes() -> None:
    wall = Wall()
    keys = MemoryKeys(wall, max_keys=3)
    for number in range(5):
        keys.remember("t", str(number), "x")
    assert [keys.find("t", str(number)) for number in range(5)] == [None, None, "x", "x", "x"]
    wall.now += MAX_AGE_MS + 1
    assert keys.find("t", "4") is None
    keys.remember("t", "new", "y")
    assert len(keys) == 1
    keys = MemoryKeys(wall)
    for number in range(5):
        keys.remember("t", str(number), "x" * (MAX_BYTES // 3))
    assert len(keys) == 3


def test_keys_outlive_the_process(tmp_path: Path) -> None:
    wall, path = Wall(), tmp_path / "keys.jsonl"
    keys = FileKeys(path, wall, nothing)
    keys.remember("t", "ключ\n", '{"a": "\u2028"}')
    keys.remember("t", "second", "2")
    keys.save()
    keys.remember("t", "unsaved", "3")
    again = FileKeys(path, wall, nothing)
    assert (again.find("t", "ключ\n"), again.find("t", "second")) == ('{"a": "\u2028"}', "2")
    assert again.find("t", "unsaved") is None


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    wall, path = Wall(), tmp_path / "keys.jsonl"
    keys = FileKeys(path, wall, nothing)
    for number in range(3):
        keys.remember("t", str(number), "x")
    keys.save()
    path.write_bytes(path.read_bytes()[:-5])
    again = FileKeys(path, wall, nothing)
    assert [again.find("t", str(number)) for number in range(3)] == ["x", "x", None]
    again.remember("t", "next", "y")
    again.save()
    assert FileKeys(path, wall, nothing).find("t", "next") == "y"


def test_the_file_does_not_grow_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    keys = FileKeys(path, Wall(), nothing, max_keys=10)
    for number in range(500):
        keys.remember("t", str(number), "x")
        keys.save()
    assert len(path.read_text().splitlines()) <= 21
    assert FileKeys(path, Wall(), nothing, max_keys=10).find("t", "499") == "x"


def test_a_full_disk_is_told_once_and_what_waited_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def warn(event: str, /, **facts: object) -> None:
        told.append(event)

    path = tmp_path / "keys.jsonl"
    keys = FileKeys(path, Wall(), warn)

    def no_room(*args: Any, **named: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_room)
        for number in range(3):
            keys.remember("t", str(number), "x")
            keys.save()
    assert told == ["the memory of idempotency keys cannot be written"]
    keys.remember("t", "3", "x")
    keys.save()
    again = FileKeys(path, Wall(), nothing)
    assert [again.find("t", str(number)) for number in range(4)] == ["x"] * 4


async def test_a_key_that_is_delivered_again_gets_the_first_result(registry: TaskRegistry) -> None:
    runs: list[str] = []

    @registry.task("work")
    async def handler(ctx: Context) -> str:
        runs.append(ctx.task_id)
        if len(runs) == 1:
            raise ValueError("the first attempt fails")
        return f"run {len(runs)}"

    async with working(registry) as bench:
        stream = await bench.link.stream()
        for token, tenant in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")):
            stream.assign(assignment(token, idempotency_key="key", tenant=tenant))
            await stream.result(token)
        outputs = {result.attempt_token: result.output_json for result in stream.results}
        assert outputs == {"a": "", "b": '"run 2"', "c": '"run 2"', "d": '"run 3"'}
        assert len(runs) == 3
