"""Artifacts on real processes: in and out over gRPC and HTTP, large outputs through workflows, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from e2e.artifact_sites import MIB, file_of, incoming, known, messages, peak_mib
from e2e.process import until
from e2e.refusals import refused
from e2e.site import Site
from taskyard.v1 import artifacts_pb2 as pb
from taskyard.v1 import tasks_pb2 as tasks
from taskyard.v1.workflows_pb2 import RUN_STATE_SUCCEEDED, Workflow, WorkflowStep
from taskyard_client import InvalidInput, NotFound, Retry, WrongState
from taskyard_service.identity import Role

ONCE = Retry(max_attempts=1)


async def test_a_client_uploads_lists_reads_downloads_and_deletes(shared_site: Site, tmp_path: Path) -> None:
    client = shared_site.client()
    path = tmp_path / "in.csv"
    path.write_bytes(b"a,b\n" * 700_000)
    told: list[int] = []
    stored = await client.artifacts.upload(path, progress=told.append)
    assert (stored.name, stored.media_type, stored.size) == ("in.csv", "text/csv", 2_800_000)
    assert stored.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (stored.uri, stored.task_id, told[-1]) == (f"artifact://{stored.artifact_id}", "", 2_800_000)
    assert await client.artifacts.get(stored.uri) == stored
    assert await client.artifacts.read(stored.artifact_id) == path.read_bytes()
    assert b"".join([c async for c in client.artifacts.open(stored.uri, offset=5, length=6)]) == b",b\na,b"
    await client.artifacts.download(stored.uri, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == path.read_bytes()
    listed = client.artifacts.list(filter='name == "in.csv" && size > 5 && media_type == "text/csv"')
    assert [each async for each in listed] == [stored]
    await client.artifacts.delete(stored.uri)
    with pytest.raises(NotFound, match="there is no artifact"):
        await client.artifacts.get(stored.uri)
    with pytest.raises(NotFound):
        await client.artifacts.read(stored.uri)


async def test_an_empty_artifact_is_one_too(shared_site: Site, tmp_path: Path) -> None:
    client = shared_site.client()
    stored = await client.artifacts.upload(b"", "empty")
    assert (stored.size, await client.artifacts.read(stored.uri)) == (0, b"")
    await client.artifacts.download(stored.uri, tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""


async def test_a_large_output_flows_through_a_workflow(shared_site: Site) -> None:
    """Its own step has the URI; a step that wants a part gets that, and the client gets all of it."""
    client = shared_site.client()
    steps = [
        WorkflowStep(id="a", task_type="large", input_json='{"size": 300000}'),
        WorkflowStep(
            id="b", task_type="tell", needs=["a"],
            input_json='{"part": "${steps.a.output.b[0].n}", "all": "${steps.a.output}"}',
            params={"flat": "${steps.a.output.b[1]}"},
        ),
    ]  # fmt: skip
    await client.apply_workflow(
        Workflow(
            name="large", steps=steps, output_json='{"n": "${steps.b.output.part}", "deep": "${steps.a.output.b}"}'
        )
    )
    run = await client.start_run("large")
    ended = await run.wait(60)
    assert ended.state == RUN_STATE_SUCCEEDED, ended.error_message
    told = {step.step_id: step.task_id for step in (await client.get_run(run.id)).steps}
    first = (await client.get_task(told["a"])).task
    uri = json.loads(first.output_json)
    assert uri.startswith("artifact://")
    assert uri.endswith("#")
    assert await client.task(told["a"]).result() == {"text": "x" * 300_000, "b": [{"n": 7}, "last"]}
    second = (await client.get_task(told["b"])).task
    assert json.loads(second.input_json) == {"part": f"{uri}/b/0/n", "all": uri}
    assert dict(second.params) == {"flat": f"{uri}/b/1"}
    # What `tell` gives back is large again, so it is an artifact of its own, and its parts are values in that.
    output = await client.task(told["b"]).result()
    assert (output["part"], output["flat"], len(output["all"]["text"])) == (7, "last", 300_000)
    assert await run.result() == {"n": 7, "deep": [{"n": 7}, "last"]}
    artifact = await client.artifacts.get(uri.rstrip("#"))
    assert (artifact.media_type, artifact.task_id) == ("application/json", told["a"])
    with pytest.raises(WrongState, match=f"task {told['a']}") as caught:
        await client.artifacts.delete(artifact.uri)
    assert caught.value.reason == "IN_USE"


async def test_a_large_output_in_the_middle_of_a_text_fails_the_step_that_wants_it_so(shared_site: Site) -> None:
    client = shared_site.client()
    steps = [
        WorkflowStep(id="a", task_type="large", input_json='{"size": 300000}'),
        WorkflowStep(id="b", task_type="tell", needs=["a"], input_json='{"x": "it is ${steps.a.output.b}"}'),
    ]
    await client.apply_workflow(Workflow(name="in-text", steps=steps))
    run = await client.start_run("in-text")
    await run.wait(60)
    [failed] = [step for step in (await client.get_run(run.id)).steps if step.step_id == "b"]
    task = (await client.get_task(failed.task_id)).task
    assert task.error.kind == "TEMPLATE_ERROR"
    assert "too large to be put into text" in task.error.message


@pytest.mark.parametrize("task_type", ["large", "large_apart"])
async def test_isolated_or_not_a_large_output_is_an_artifact(shared_site: Site, task_type: str) -> None:
    handle = await shared_site.client().submit(task_type, {"size": 20 * MIB}, retry=ONCE)
    task = await handle.wait(60)
    assert task.status == tasks.TASK_STATUS_SUCCESS, task.error
    assert len(task.output_json) == 50
    assert len((await handle.result())["text"]) == 20 * MIB


async def test_isolated_handlers_have_artifacts_too(shared_site: Site) -> None:
    client = shared_site.client()
    stored = await client.artifacts.upload('{"a": [1, 2]}')
    handle = await client.submit("handle_apart", {"uri": stored.uri, "value": f"{stored.uri}#/a/1"}, retry=ONCE)
    result = await handle.result(60)
    assert (result["got"], result["value"]) == ('{"a": [1, 2]}', 2)
    assert result["pieces"] == '{"a": [1, 2]} again'
    assert (await client.artifacts.get(result["back"])).name == "again.txt"
    again = await client.submit("handle_apart_async", {"uri": stored.uri}, retry=ONCE)
    told = await again.result(60)
    assert told["got"] == '{"a": [1, 2]}'
    assert "there is no artifact" in told["missing"]


async def test_a_missing_artifact_in_an_input_is_named_and_not_tried_again(shared_site: Site) -> None:
    uri = "artifact://018f3b5e-7c1a-7abc-9def-0123456789ab#/x"
    handle = await shared_site.client().submit("tell", {"list": [{"of": uri}]})
    task = await handle.wait(60)
    assert (task.status, task.error.kind, task.attempt) == (tasks.TASK_STATUS_FAILED, "INVALID_INPUT", 1)
    assert task.error.message.startswith(f"'list[0].of' is '{uri}', which stands for nothing: there is no artifact")


# What is refused.


async def upload(site: Site, token: str, head: pb.ArtifactHead, *pieces: bytes) -> Any:
    door = site.door(token)
    return await door.artifacts.UploadArtifact(messages(head, *pieces), metadata=door.metadata)


@pytest.mark.parametrize(
    ("head", "reason", "field"),
    [
        (pb.ArtifactHead(size=5), "SIZE_MISMATCH", "head.size"),
        (pb.ArtifactHead(size=3), "SIZE_MISMATCH", "head.size"),
        (pb.ArtifactHead(sha256="0" * 64), "SHA256_MISMATCH", "head.sha256"),
        (pb.ArtifactHead(sha256="xyz"), "INVALID_INPUT", "head.sha256"),
        (pb.ArtifactHead(size=-1), "INVALID_INPUT", "head.size"),
        (pb.ArtifactHead(name="a\nb"), "INVALID_INPUT", "head.name"),
        (pb.ArtifactHead(name="x" * 201), "INVALID_INPUT", "head.name"),
        (pb.ArtifactHead(media_type="text"), "INVALID_INPUT", "head.media_type"),
        (pb.ArtifactHead(media_type="text/html\r\nX: y"), "INVALID_INPUT", "head.media_type"),
        (pb.ArtifactHead(request_id="x" * 129), "INVALID_INPUT", "head.request_id"),
    ],
)
async def test_a_bad_upload_is_refused_with_its_field_and_leaves_nothing(
    shared_site: Site, head: pb.ArtifactHead, reason: str, field: str
) -> None:
    client = shared_site.client()
    before = await known(client)
    answer = await refused(upload(shared_site, shared_site.token(), head, b"da", b"ta"))
    assert (answer.code, answer.reason, [*answer.fields]) == (grpc.StatusCode.INVALID_ARGUMENT, reason, [field])
    assert await known(client) == before
    assert incoming(shared_site) == []


async def test_messages_of_an_upload_in_another_order_are_refused(shared_site: Site) -> None:
    door = shared_site.door(shared_site.token())
    head = pb.UploadArtifactRequest(head=pb.ArtifactHead())
    for sent in (
        [pb.UploadArtifactRequest(data=b"x")],
        [head, head],
        [head, pb.UploadArtifactRequest(data=b"x" * (MIB + 1))],
    ):
        answer = await refused(door.artifacts.UploadArtifact(iter(sent), metadata=door.metadata))
        assert answer.code == grpc.StatusCode.INVALID_ARGUMENT, answer
    assert incoming(shared_site) == []


async def test_a_repeated_upload_is_one_artifact_and_another_content_is_refused(shared_site: Site) -> None:
    token = shared_site.token()
    first = await upload(shared_site, token, pb.ArtifactHead(request_id="once", name="a"), b"data")
    again = await upload(shared_site, token, pb.ArtifactHead(request_id="once", name="a"), b"da", b"ta")
    assert again == first
    answer = await refused(upload(shared_site, token, pb.ArtifactHead(request_id="once", name="a"), b"other"))
    assert answer.reason == "REQUEST_ID_REUSED"


async def test_a_worker_uploads_and_reads_for_its_own_attempts_alone(shared_site: Site) -> None:
    client = shared_site.client()
    stored = await client.artifacts.upload(b"data")
    handle = await client.submit("pause", {"number": 1, "seconds": 3600})
    token = shared_site.token(Role.WORKER)
    door = shared_site.door(token)

    async def runs() -> bool:
        return (await handle.status()).status == tasks.TASK_STATUS_RUNNING

    await until(runs)
    named = {"worker_id": "shared-worker", "task_id": handle.id, "attempt_token": "0" * 16}
    for attempt in (named, named | {"task_id": "x"}, named | {"worker_id": "other"}, {}):
        said = pb.ArtifactAttempt(**attempt)
        answer = await refused(upload(shared_site, token, pb.ArtifactHead(attempt=said), b"x"))
        assert (answer.code, answer.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "STALE_ATTEMPT")
        request = pb.DownloadArtifactRequest(artifact_id=stored.artifact_id, attempt=said)
        answer = await refused(door.artifacts.DownloadArtifact(request, metadata=door.metadata).read())
        assert answer.reason == "STALE_ATTEMPT"
    answer = await refused(upload(shared_site, token, pb.ArtifactHead(), b"x"))
    assert list(answer.fields) == ["head.attempt"]
    request = pb.DownloadArtifactRequest(artifact_id=stored.artifact_id)
    answer = await refused(door.artifacts.DownloadArtifact(request, metadata=door.metadata).read())
    assert list(answer.fields) == ["attempt"]
    await handle.cancel()


async def test_another_tenant_sees_and_changes_no_artifact(shared_site: Site) -> None:
    stored = await shared_site.client().artifacts.upload(b"ours", "ours.txt")
    theirs = shared_site.client(tenant="other")
    assert await known(theirs) == []
    for call in (theirs.artifacts.get, theirs.artifacts.read, theirs.artifacts.delete):
        with pytest.raises(NotFound):
            await call(stored.uri)
    headers = {"Authorization": f"Bearer {shared_site.token(tenant='other')}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{shared_site.http_port}", headers=headers) as http:
        assert (await http.get(f"/api/v1/artifacts/{stored.artifact_id}/bytes")).status_code == 404
    assert await shared_site.client().artifacts.read(stored.uri) == b"ours"


@pytest.mark.parametrize(("role", "reads", "writes"), [(Role.VIEWER, True, False), (Role.OPERATOR, True, True)])
async def test_viewers_read_and_operators_write(shared_site: Site, role: Role, reads: bool, writes: bool) -> None:
    stored = await shared_site.client().artifacts.upload(b"data")
    assert (await shared_site.client(role).artifacts.read(stored.uri) == b"data") == reads
    if not writes:
        answer = await refused(upload(shared_site, shared_site.token(role), pb.ArtifactHead(), b"x"))
        assert answer.code == grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(("offset", "length"), [(4, 0), (5, 1), (-1, 0), (0, -1)])
async def test_a_range_without_bytes_is_refused(shared_site: Site, offset: int, length: int) -> None:
    stored = await shared_site.client().artifacts.upload(b"data")
    door = shared_site.door(shared_site.token())
    request = pb.DownloadArtifactRequest(artifact_id=stored.artifact_id, offset=offset, length=length)
    answer = await refused(door.artifacts.DownloadArtifact(request, metadata=door.metadata).read())
    negative = min(offset, length) < 0
    assert answer.code == (grpc.StatusCode.INVALID_ARGUMENT if negative else grpc.StatusCode.OUT_OF_RANGE)


@pytest.mark.parametrize("name", ["artifact://x", "018f3b5e", "artifact://018f3b5e-7c1a-7abc-9def-0123456789ab#/a"])
async def test_what_names_no_artifact_is_refused_before_a_call(shared_site: Site, name: str) -> None:
    with pytest.raises(InvalidInput, match="artifact"):
        await shared_site.client().artifacts.get(name)


# HTTP.


@pytest.fixture
async def http(shared_site: Site) -> Any:
    headers = {"Authorization": f"Bearer {shared_site.token()}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{shared_site.http_port}", headers=headers) as client:
        yield client


async def put(http: httpx.AsyncClient, data: Any, **parameters: str) -> dict[str, Any]:
    answer = await http.put("/api/v1/artifacts/bytes", params=parameters, content=data)
    assert answer.status_code == 200, answer.text
    artifact: dict[str, Any] = answer.json()["artifact"]
    return artifact


async def test_bytes_go_in_and_out_over_http(http: httpx.AsyncClient) -> None:
    async def pieces() -> Any:
        for _ in range(40):
            yield b"x" * 65_537

    artifact = await put(http, pieces(), name="Ä b.txt", mediaType="text/plain", requestId="http")
    assert (artifact["size"], artifact["name"], artifact["mediaType"]) == (str(40 * 65_537), "Ä b.txt", "text/plain")
    assert await put(http, pieces(), name="Ä b.txt", media_type="text/plain", request_id="http") == artifact
    answer = await http.get(f"/api/v1/artifacts/{artifact['artifactId']}/bytes")
    assert answer.content == b"x" * 40 * 65_537
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["etag"] == f'"{artifact["sha256"]}"'
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%84%20b.txt"
    assert answer.headers["x-content-type-options"] == "nosniff"
    known = (await http.get(f"/api/v1/artifacts/{artifact['artifactId']}")).json()
    assert known["artifact"] == artifact


@pytest.mark.parametrize(
    ("asked", "status", "content", "told"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
    ],
)
async def test_ranges_over_http(
    http: httpx.AsyncClient, asked: str, status: int, content: bytes | None, told: str | None
) -> None:
    path = f"/api/v1/artifacts/{(await put(http, b'0123456789'))['artifactId']}/bytes"
    answer = await http.get(path, headers={"Range": asked})
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    assert content is None or answer.content == content
    head = await http.head(path, headers={"Range": asked})
    assert head.status_code == status
    assert status == 416 or head.headers["content-length"] == str(len(content or b""))


async def test_what_a_cache_has_is_not_sent_again(http: httpx.AsyncClient) -> None:
    artifact = await put(http, b"0123456789")
    path, etag = f"/api/v1/artifacts/{artifact['artifactId']}/bytes", f'"{artifact["sha256"]}"'
    assert (await http.get(path, headers={"If-None-Match": f'"x", {etag}'})).status_code == 304
    ranged = {"Range": "bytes=0-1"}
    assert (await http.get(path, headers={**ranged, "If-Range": etag})).status_code == 206
    assert (await http.get(path, headers={**ranged, "If-Range": '"x"'})).status_code == 200


async def test_bad_calls_over_http_say_why(shared_site: Site, http: httpx.AsyncClient) -> None:
    missing = "/api/v1/artifacts/018f3b5e-7c1a-7abc-9def-0123456789ab/bytes"
    stored = "/api/v1/artifacts/bytes"
    packed, nobody = {"Content-Encoding": "gzip"}, {"Authorization": ""}
    viewer, worker = ({"Authorization": f"Bearer {shared_site.token(role)}"} for role in (Role.VIEWER, Role.WORKER))
    cases: list[tuple[httpx.Response, int, str]] = [
        (await http.get(missing), 404, "ARTIFACT_NOT_FOUND"),
        (await http.get("/api/v1/artifacts/x/bytes"), 400, "INVALID_INPUT"),
        (await http.put(f"{stored}?nmae=x", content=b""), 400, "INVALID_INPUT"),
        (await http.put(f"{stored}?sha256={'0' * 64}", content=b"x"), 400, "SHA256_MISMATCH"),
        (await http.put(stored, content=b"x", headers=packed), 415, "INVALID_INPUT"),
        (await http.post(stored, content=b"x"), 405, "METHOD_NOT_ALLOWED"),
        (await http.get(missing, headers=nobody), 401, "UNAUTHENTICATED"),
        (await http.put(stored, content=b"x", headers=viewer), 403, "ROLE_NOT_ALLOWED"),
        (await http.get(missing, headers=worker), 403, "ROLE_NOT_ALLOWED"),
    ]  # fmt: skip
    for answer, status, reason in cases:
        assert answer.status_code == status, answer.text
        details = answer.json()["details"]
        assert reason == "UNAUTHENTICATED" or any(each.get("reason") == reason for each in details), answer.text
    assert incoming(shared_site) == []


# Size.


async def test_large_files_pass_with_bounded_memory(site: Site, tmp_path: Path) -> None:
    scheduler, worker = await site.start_scheduler(), await site.start_worker("worker")
    client = site.client()
    path = file_of(tmp_path, 192)
    await client.artifacts.read((await client.artifacts.upload(b"x" * MIB)).uri)  # what is loaded once is not counted
    before = peak_mib(scheduler), peak_mib(worker)
    stored = await client.artifacts.upload(path)
    assert stored.size == 192 * MIB
    handle = await client.submit("measure", {"uri": stored.uri}, retry=ONCE)
    assert await handle.result(60) == 192 * MIB
    kept = await client.submit("keep", {"path": str(path)}, retry=ONCE)
    assert (await client.artifacts.get(await kept.result(60))).sha256 == stored.sha256
    await client.artifacts.download(stored.uri, tmp_path / "back")
    assert (tmp_path / "back").stat().st_size == 192 * MIB
    assert await over_http(site, path) == stored.sha256
    grown = peak_mib(scheduler) - before[0], peak_mib(worker) - before[1]
    assert max(grown) < 96, grown  # about 20; a busy machine fills HTTP/2's windows, some of 16 MiB


async def over_http(site: Site, path: Path) -> str:
    """Sends a file over HTTP and takes it back; returns the SHA-256 of what came."""

    async def pieces() -> Any:
        with path.open("rb") as file:
            while piece := file.read(MIB):
                yield piece

    digest = hashlib.sha256()
    headers = {"Authorization": f"Bearer {site.token()}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.http_port}", headers=headers, timeout=60) as http:
        artifact = await put(http, pieces())
        async with http.stream("GET", f"/api/v1/artifacts/{artifact['artifactId']}/bytes") as answer:
            async for chunk in answer.aiter_bytes():
                digest.update(chunk)
    return digest.hexdigest()


async def test_the_limits_are_settings(site: Site) -> None:
    await site.start_scheduler(settings={"TASKYARD_ARTIFACT_LIMIT_MB": "1"})
    await site.start_worker("worker")
    client = site.client()
    assert (await client.artifacts.upload(b"x" * MIB)).size == MIB
    for data in (b"x" * (MIB + 1), [b"x" * MIB, b"y"]):
        with pytest.raises(InvalidInput, match="more than 1048576 bytes") as caught:
            await client.artifacts.upload(data)
        assert caught.value.reason == "ARTIFACT_TOO_LARGE"
    task = await (await client.submit("large", {"size": 2 * MIB})).wait(60)
    assert (task.error.kind, task.attempt) == ("OUTPUT_TOO_LARGE", 1)
    assert incoming(site) == []
