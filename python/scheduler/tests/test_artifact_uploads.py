"""What an upload leaves in rows, whatever its pieces are: size, SHA-256, and the artifacts that its JSON names."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from leaders import leading

from taskyard_core.ids import IdSource
from taskyard_scheduler.artifacts import FolderStore, Key
from taskyard_scheduler.artifacts.uploads import Limits, Uploads
from taskyard_scheduler.ingress.artifacts import Head
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_service.errors import DeadlineExceeded, ResourceExhausted
from taskyard_service.logging import make_logger

NAMED = [f"018f3b5e-7c1a-7abc-9def-{number:012x}" for number in range(40)]


async def pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def uploads(folder: Path, **limits: float) -> tuple[FolderStore, Uploads]:
    store = FolderStore(folder, make_logger("test", stream=io.StringIO()))
    return store, Uploads(store, IdSource(Random(1).getrandbits), Limits(int(limits.pop("size", 1 << 20)), **limits))


def head(media_type: str) -> Head:
    return Head("name", media_type, None, "", "")


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson; charset=utf-8", "text/csv"])
@pytest.mark.parametrize("size", [1, 7, 50, 997, 70_000])
async def test_what_json_names_is_found_over_any_cut(tmp_path: Path, media_type: str, size: int) -> None:
    data = ("x" * 1_000).join(f'"artifact://{id}"' for id in NAMED).encode().replace(b"//", b"\\/\\/", 5)
    store, taking = uploads(tmp_path)
    await store.start()
    memory = MemoryStore(MemoryDatabase())
    async with leading(memory) as leader:
        artifact = await taking.take(leader, "t", head(media_type), pieces(data, size), None)
        assert (artifact.size, artifact.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        held = [bool(await memory.artifact_holders("t", id, 1)) for id in NAMED]
        assert set(held) == {"json" in media_type}
        assert await memory.get_artifact("t", artifact.artifact_id) is not None
    assert await store.scan(None, 9) == [Key("t", artifact.artifact_id)]
    assert taking.pending == set()
    await store.stop()


async def test_limits_of_size_and_silence_leave_nothing(tmp_path: Path) -> None:
    store, taking = uploads(tmp_path, size=10, idle_s=0.01)
    await store.start()

    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()
        yield b"y"

    async with leading(MemoryStore(MemoryDatabase())) as leader:
        with pytest.raises(DeadlineExceeded, match=r"nothing came for 0\.01 s"):
            await taking.take(leader, "t", head("text/csv"), silent(), None)
        with pytest.raises(ResourceExhausted, match="more than 10 bytes"):
            await taking.take(leader, "t", head("text/csv"), pieces(b"x" * 11, 5), None)
    assert await store.scan(None, 9) == []
    assert list((tmp_path / ".incoming").iterdir()) == []
    await store.stop()
