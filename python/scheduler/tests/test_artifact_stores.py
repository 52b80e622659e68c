"""What every artifact store promises, run on each: a folder, an address of fsspec on disk, and one in memory."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import fsspec
import pytest

from taskyard_scheduler.artifacts import CHUNK_BYTES, ArtifactStore, ArtifactStoreUnavailable, BytesMissing, Key
from taskyard_scheduler.artifacts.open import open_artifacts
from taskyard_scheduler.artifacts.port import Incoming
from taskyard_scheduler.artifacts.remote import RemoteStore
from taskyard_service.logging import make_logger

TENANTS = ["default", "a/../b", ".incoming", "汉字 %2F~", "A", "a", ".."]
Make = Callable[[], ArtifactStore]


def new_key(number: int, tenant: str = "default", at: int = 0x0199_0000_0000) -> Key:
    digits = f"{at:012x}"
    return Key(tenant, f"{digits[:8]}-{digits[8:]}-7000-8000-{number:012x}")


@pytest.fixture(params=["folder", "file", "fsspec", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    log = make_logger("test", stream=io.StringIO())
    fsspec.filesystem("memory").store.clear()
    if request.param == "fsspec":
        return lambda: RemoteStore(f"file://{tmp_path}/remote", log)
    urls = {"folder": "", "file": f"file://{tmp_path}/a%20b", "memory": "memory://artifacts"}
    return lambda: open_artifacts(urls[request.param], tmp_path, log)


@pytest.fixture
async def store(make: Make) -> AsyncIterator[ArtifactStore]:
    made = make()
    await made.start()
    yield made
    await made.stop()


async def put(store: ArtifactStore, key: Key, *pieces: bytes) -> None:
    incoming = await store.receive()
    for piece in pieces:
        await incoming.write(piece)
    await incoming.keep(key)
    await incoming.discard()


async def read(store: ArtifactStore, key: Key, offset: int, length: int) -> bytes:
    return b"".join([piece async for piece in store.read(key, offset, length)])


@pytest.mark.parametrize("tenant", TENANTS)
async def test_bytes_come_back_as_they_went_in_whatever_the_tenant_is_called(store: ArtifactStore, tenant: str) -> None:
    data = bytes(range(256))
    await put(store, new_key(1, tenant), data[:100], b"", data[100:])
    assert await read(store, new_key(1, tenant), 0, 256) == data
    with pytest.raises(BytesMissing):
        await read(store, new_key(1, "another"), 0, 1)
    assert await store.scan(None, 9) == [new_key(1, tenant)]


async def test_any_part_can_be_read_and_pieces_are_bounded(store: ArtifactStore) -> None:
    data = b"0123456789" * (CHUNK_BYTES // 5)
    await put(store, new_key(1), data[:CHUNK_BYTES], data[CHUNK_BYTES:])
    pieces = [len(piece) async for piece in store.read(new_key(1), 3, len(data) - 3)]
    assert max(pieces) <= CHUNK_BYTES
    assert sum(pieces) == len(data) - 3
    assert await read(store, new_key(1), 7, 5) == b"78901"
    assert await read(store, new_key(1), len(data) - 1, 1) == b"9"
    assert await read(store, new_key(1), 0, 0) == b""


async def test_more_than_there_is_is_told(store: ArtifactStore) -> None:
    await put(store, new_key(1), b"abc")
    with pytest.raises(BytesMissing, match="less than it should"):
        await read(store, new_key(1), 0, 4)


async def test_nothing_is_seen_before_it_is_kept_nor_after_it_was_discarded(store: ArtifactStore) -> None:
    incoming = await store.receive()
    await incoming.write(b"half")
    assert await store.scan(None, 9) == []
    await incoming.discard()
    await incoming.discard()
    assert await store.scan(None, 9) == []
    with pytest.raises(BytesMissing):
        await read(store, new_key(1), 0, 1)


async def test_what_is_kept_is_not_discarded(store: ArtifactStore) -> None:
    await put(store, new_key(1), b"abc")
    assert await read(store, new_key(1), 0, 3) == b"abc"


async def test_a_start_removes_what_lost_uploads_have_left_and_nothing_else(make: Make) -> None:
    first = make()
    await first.start()
    await put(first, new_key(1), b"kept")
    lost: Incoming = await first.receive()
    await lost.write(b"lost")
    second = make()
    await second.start()
    with pytest.raises(ArtifactStoreUnavailable):
        await lost.keep(new_key(2))
    assert await second.scan(None, 9) == [new_key(1)]
    await lost.discard()
    await first.stop()
    await second.stop()
    await second.stop()


async def test_what_is_deleted_is_gone_and_deleting_it_again_is_fine(store: ArtifactStore) -> None:
    await put(store, new_key(1), b"a")
    await put(store, new_key(2), b"b")
    await store.delete(new_key(1))
    await store.delete(new_key(1))
    assert await store.scan(None, 9) == [new_key(2)]
    await put(store, new_key(1), b"again")
    assert await read(store, new_key(1), 0, 5) == b"again"


async def test_keys_are_scanned_in_order_by_pages(store: ArtifactStore) -> None:
    tenants = sorted(TENANTS)
    keys = [new_key(n, tenant, 0x0199_0000_0000 + n * 300_000) for tenant in tenants for n in range(8)]
    for key in reversed(keys):
        await put(store, key, b"x")
    found: list[Key] = []
    while page := await store.scan(found[-1] if found else None, 5):
        found += page
    assert found == keys


async def test_a_store_that_is_not_running_says_so(make: Make) -> None:
    with pytest.raises(ArtifactStoreUnavailable, match="not running"):
        await make().receive()


async def test_many_at_once_do_not_mix(store: ArtifactStore) -> None:
    async def one(number: int) -> bytes:
        data = number.to_bytes(2, "big") * 50_000
        await put(store, new_key(number), data[:30_000], data[30_000:])
        return await read(store, new_key(number), 0, len(data))

    got = await asyncio.gather(*(one(number) for number in range(40)))
    assert got == [number.to_bytes(2, "big") * 50_000 for number in range(40)]


async def test_an_address_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactStoreUnavailable, match="no driver reads this address"):
        open_artifacts("nosuch://x", tmp_path, make_logger("test", stream=io.StringIO()))
