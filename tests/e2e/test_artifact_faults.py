"""Artifacts while things break: kills in the middle of uploads, slow senders, full disks; and what goes when it may."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from e2e.artifact_sites import MIB, arriving, file_of, files_of, incoming, known, messages
from e2e.process import until
from e2e.refusals import refused
from e2e.site import Site
from taskyard.v1 import artifacts_pb2 as pb
from taskyard.v1 import tasks_pb2 as tasks
from taskyard_client import AsyncClient, NotFound, Overloaded, Retry

AT_ONCE = Retry(max_attempts=3, first_delay=0.01)
SIZE = 250
"""MiB: enough that an upload can be met in its middle."""


async def test_a_worker_killed_in_the_middle_of_an_upload_leaves_nothing_and_its_task_is_tried_again(
    any_site: Site, tmp_path: Path
) -> None:
    site = any_site
    await site.start_scheduler()
    worker = await site.start_worker("dies")
    client = site.client()
    path = file_of(tmp_path, SIZE)
    handle = await client.submit("keep", {"path": str(path)}, retry=AT_ONCE)
    await until(lambda: arriving(site), what="the first bytes of the upload")
    worker.kill()
    await until(lambda: incoming(site) == [], what="the end of what the upload left")
    assert await known(client) == []
    assert files_of(site) == []
    await site.start_worker("stays")
    uri = await handle.result(60)
    assert (await client.artifacts.get(uri)).size == SIZE * MIB
    assert [each.uri for each in await known(client)] == [uri]


async def test_a_scheduler_killed_in_the_middle_of_an_upload_is_given_it_again(any_site: Site, tmp_path: Path) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker("worker")
    client = site.client(timeout=60)
    path = file_of(tmp_path, SIZE)
    handle = await client.submit("keep", {"path": str(path)}, retry=Retry(max_attempts=1))
    await until(lambda: arriving(site), what="the first bytes of the upload")
    scheduler.kill()
    assert incoming(site) != []
    await site.start_scheduler("second")
    uri = await handle.result(60)
    task = await handle.status()
    assert (task.status, task.attempt) == (tasks.TASK_STATUS_SUCCESS, 1)
    assert [(each.uri, each.size) for each in await known(client)] == [(uri, SIZE * MIB)]
    assert incoming(site) == []
    assert len(files_of(site)) == 1


async def test_a_client_goes_on_through_a_restart_in_both_directions(site: Site, tmp_path: Path) -> None:
    scheduler = await site.start_scheduler()
    client = site.client(timeout=60)
    path = file_of(tmp_path, SIZE)
    sending = asyncio.create_task(client.artifacts.upload(path))
    await until(lambda: arriving(site), what="the first bytes of the upload")
    scheduler.kill()
    second = await site.start_scheduler("second")
    stored = await asyncio.wait_for(sending, 60)
    assert stored.size == SIZE * MIB
    chunks = client.artifacts.open(stored.uri)
    received = len(await anext(chunks))
    second.kill()
    await site.start_scheduler("third")
    async for chunk in chunks:
        received += len(chunk)
    assert received == SIZE * MIB


async def test_a_broken_upload_of_a_client_leaves_nothing(site: Site) -> None:
    await site.start_scheduler()
    door = site.door(site.token())
    call = door.artifacts.UploadArtifact(metadata=door.metadata)
    await call.write(pb.UploadArtifactRequest(head=pb.ArtifactHead(name="half")))
    await call.write(pb.UploadArtifactRequest(data=b"x" * MIB))
    await until(lambda: arriving(site))
    call.cancel()
    await until(lambda: incoming(site) == [])
    assert await known(site.client()) == []


async def test_one_slow_upload_delays_nobody(site: Site) -> None:
    await site.start_scheduler()
    client, door = site.client(), site.door(site.token())
    gate = asyncio.Event()

    async def slow() -> AsyncIterator[pb.UploadArtifactRequest]:
        yield pb.UploadArtifactRequest(head=pb.ArtifactHead(name="slow"))
        yield pb.UploadArtifactRequest(data=b"x")
        await gate.wait()
        yield pb.UploadArtifactRequest(data=b"y")

    waiting = [asyncio.ensure_future(door.artifacts.UploadArtifact(slow(), metadata=door.metadata)) for _ in range(50)]
    await until(lambda: len(incoming(site)) == 50)
    for number in range(20):
        assert (await client.artifacts.upload(b"quick", f"{number}")).size == 5
    gate.set()
    assert {(await each).artifact.size for each in waiting} == {2}
    assert len(await known(client)) == 70


async def test_a_full_disk_is_told_and_leaves_nothing(site: Site) -> None:
    scheduler = await site.start_scheduler()
    client = site.client()
    limits = resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, (2 * MIB, limits[1]))
    door = site.door(site.token())
    call = door.artifacts.UploadArtifact(messages(pb.ArtifactHead(), *[b"x" * MIB] * 3), metadata=door.metadata)
    answer = await refused(call)
    assert (answer.reason, answer.retry_after_s) == ("STORAGE_FULL", None)
    assert "make room" in answer.message
    with pytest.raises(Overloaded, match="no room"):
        await client.artifacts.upload(b"x" * 3 * MIB)
    assert incoming(site) == []
    assert (await client.artifacts.upload(b"x" * MIB)).size == MIB
    resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, limits)
    assert (await client.artifacts.upload(b"x" * 3 * MIB)).size == 3 * MIB


# Removal.


async def gone(client: AsyncClient, uri: str) -> bool:
    try:
        await client.artifacts.get(uri)
    except NotFound:
        return True
    return False


async def test_what_nothing_refers_to_is_removed_after_its_grace_and_all_else_kept(any_site: Site) -> None:
    site = any_site
    await site.start_scheduler(settings={"TASKYARD_ARTIFACT_GRACE_S": "2"})
    await site.start_worker("worker")
    client = site.client()
    unused = await client.artifacts.upload(b"unused")
    in_input = await client.artifacts.upload(b"input")
    in_variable = await client.artifacts.upload(b"variable")
    in_output = await client.artifacts.upload(b"output")
    inner = await client.artifacts.upload(b"inner")
    handle = await client.submit("tell", {"x": in_input.uri, "later": in_output.uri})
    await handle.result(60)
    await client.set_variable("model", {"index": in_variable.uri})
    large = await client.submit("tell", {"pad": "x" * 300_000, "in": [inner.uri]})
    outer = json.loads((await large.wait(60)).output_json).rstrip("#")
    await until(lambda: gone(client, unused.uri), what="the removal of what nothing refers to")
    await until(lambda: len(files_of(site)) == 5, what="the removal of its bytes")
    for kept in (in_input.uri, in_variable.uri, in_output.uri, inner.uri, outer):
        assert await client.artifacts.read(kept)
    await client.delete_variable("model")
    await until(lambda: gone(client, in_variable.uri), what="the removal of what a variable referred to")
    assert not await gone(client, in_input.uri)


async def test_bytes_without_an_artifact_are_removed_after_the_same_grace(site: Site) -> None:
    scheduler = await site.start_scheduler(settings={"TASKYARD_ARTIFACT_GRACE_S": "1"})
    client = site.client()
    stored = await client.artifacts.upload(b"kept", "kept")
    await client.set_variable("kept", stored.uri)
    [path] = files_of(site)
    lost = path.parent.with_name("018f3b5") / "018f3b5e-7c1a-7abc-9def-0123456789ab"
    lost.parent.mkdir()
    lost.write_bytes(b"lost")
    foreign = path.with_name("notes.txt")
    foreign.write_bytes(b"not ours")
    await until(lambda: not lost.exists(), what="the removal of bytes without an artifact")
    assert sorted(files_of(site)) == sorted([path, foreign])
    assert not lost.parent.exists()
    assert await client.artifacts.read(stored.uri) == b"kept"
    assert scheduler.code is None


async def test_a_restart_knows_all_that_was_answered(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    client = site.client(timeout=60)
    stored = await client.artifacts.upload(b"data", "a")
    scheduler.kill()
    await site.start_scheduler("second")
    assert await client.artifacts.get(stored.uri) == stored
    assert await client.artifacts.read(stored.uri) == b"data"


async def test_bytes_that_somebody_took_away_are_told(site: Site) -> None:
    await site.start_scheduler()
    client = site.client()
    stored = await client.artifacts.upload(b"data")
    [path] = files_of(site)
    path.unlink()
    with pytest.raises(NotFound, match="has no bytes") as caught:
        await client.artifacts.read(stored.uri)
    assert caught.value.reason == "ARTIFACT_BYTES_MISSING"


async def test_an_upload_over_http_that_breaks_off_leaves_nothing_and_is_no_fault_of_the_scheduler(site: Site) -> None:
    scheduler = await site.start_scheduler()
    head = (
        f"PUT /api/v1/artifacts/bytes?name=half HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.token()}\r\n"
        f"Content-Length: {3 * MIB}\r\n\r\n"
    )
    _, writer = await asyncio.open_connection("127.0.0.1", site.http_port)
    writer.write(head.encode() + b"x" * MIB)
    await until(lambda: arriving(site), what="the first bytes of the upload")
    writer.close()
    await until(lambda: incoming(site) == [], what="the end of what the upload left")
    assert await known(site.client()) == []
    assert [line for line in scheduler.events() if line["level"] == "error"] == []


async def test_a_download_over_http_whose_bytes_end_early_is_cut_and_told_in_the_log(site: Site) -> None:
    scheduler = await site.start_scheduler()
    stored = await site.client().artifacts.upload(b"x" * 3 * MIB)
    [path] = files_of(site)
    path.write_bytes(b"x" * MIB)
    headers = {"Authorization": f"Bearer {site.token()}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.http_port}", headers=headers) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(f"/api/v1/artifacts/{stored.artifact_id}/bytes")
        assert (await http.get("/healthz")).status_code == 200
    told = [str(line) for line in scheduler.events() if line["level"] == "error"]
    assert any("less than it should" in line for line in told)
