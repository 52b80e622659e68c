"""Artifacts as handlers have them, on the loop and in threads; large outputs; inputs that refer to values."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_artifacts import PIECE, FakeArtifacts, artifact_id, transfers
from worker_fakes import assignment, order, status, working

from taskyard.v1.tasks_pb2 import TASK_STATUS_SUCCESS
from taskyard.v1.workers_pb2 import TaskResult
from taskyard_worker import Context, InvalidInput, TaskRegistry
from taskyard_worker import transfers as transfers_module
from taskyard_worker.link import LinkError
from taskyard_worker.outcome import Outcome
from taskyard_worker.verdict import MAX_OUTPUT_BYTES

LARGE = 300_000
GONE = LinkError("UNAVAILABLE", "", "gone away")


@pytest.fixture
def artifacts() -> FakeArtifacts:
    return FakeArtifacts()


async def run(
    registry: TaskRegistry,
    artifacts: FakeArtifacts,
    folder: Path,
    /,
    *,
    params: dict[str, str] | None = None,
    **values: Any,
) -> TaskResult:
    """Runs a task of type `work`; returns its result."""
    async with working(registry, transfers=transfers(artifacts, folder)) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a", input_json=json.dumps(values), params=params or {}))
        return await stream.result("a")


# What handlers do.


async def test_an_async_handler_puts_gets_opens_and_downloads(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(b"a,b\n" * 400_000)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        uris = [
            await ctx.artifacts.put(b"bytes", "b.bin"),
            await ctx.artifacts.put("汉字"),
            await ctx.artifacts.put(source),
            await ctx.artifacts.put(pieces(), "p.json", "text/x"),
        ]
        await ctx.artifacts.download(uris[2], target)
        sizes = [len(chunk) async for chunk in ctx.artifacts.open(uris[2])]
        return [await ctx.artifacts.get(uris[0]) == b"bytes", sizes, uris]

    result = await run(registry, artifacts, tmp_path)
    uris = [f"artifact://{artifact_id(number)}" for number in range(1, 5)]
    assert json.loads(result.output_json) == [True, [PIECE, 1_600_000 - PIECE], uris]
    assert list(artifacts.stored.values()) == [b"bytes", "汉字".encode(), source.read_bytes(), b"onetwo"]
    assert [(head.name, head.media_type) for head in artifacts.heads] == [
        ("b.bin", "application/octet-stream"), ("", "text/plain; charset=utf-8"), ("in.csv", "text/csv"),
        ("p.json", "text/x"),
    ]  # fmt: skip
    assert target.read_bytes() == source.read_bytes()
    attempts = {(h.attempt.worker_id, h.attempt.task_id, h.attempt.attempt_token) for h in artifacts.heads}
    assert attempts == {("worker-1", "task-a", "a")}
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_handler_in_a_thread_does_the_same(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    target = tmp_path / "out"

    def pieces() -> Iterator[bytes]:
        yield b"x" * PIECE
        yield b"y"

    @registry.task("work")
    def handler(ctx: Context) -> Any:
        uri = ctx.artifacts.put_sync(pieces(), "p")
        ctx.artifacts.download_sync(uri, target)
        first = next(iter(ctx.artifacts.open_sync(uri)))
        return [len(ctx.artifacts.get_sync(uri)), len(first), ctx.artifacts.put_sync("text")]

    result = await run(registry, artifacts, tmp_path)
    assert json.loads(result.output_json) == [PIECE + 1, PIECE, f"artifact://{artifact_id(2)}"], result.error_message
    assert target.stat().st_size == PIECE + 1


async def test_what_belongs_to_the_other_kind_of_handler_says_which_to_call(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    @registry.task("work")
    def handler(ctx: Context, how: str) -> Any:
        if how == "put":
            return ctx.artifacts.put(b"")
        return asyncio.run(read(ctx))

    async def read(ctx: Context) -> bytes:
        return await ctx.artifacts.get(f"artifact://{artifact_id(1)}")

    for how, words in (("put", "put_sync"), ("get", "open_sync")):
        result = await run(registry, artifacts, tmp_path, how=how)
        assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
        assert words in result.error_message

    other = TaskRegistry()

    @other.task("work")
    async def blocking(ctx: Context) -> Any:
        return ctx.artifacts.put_sync(b"")

    result = await run(other, artifacts, tmp_path)
    assert "would block the event loop" in result.error_message


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (f"artifact://{artifact_id(1)}#", "without #, for its bytes"),
        (f"artifact://{artifact_id(1)}#/a", "stands for a value"),
        (f"artifact://{artifact_id(9)}", "there is no artifact"),
        ("file:///etc/passwd", "is no artifact's URI"),
        ("", "is no artifact's URI"),
    ],
)
async def test_what_is_no_uri_of_bytes_is_an_invalid_input(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, uri: str, words: str
) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return str(await ctx.artifacts.get(uri))

    artifacts.put(b"{}")
    result = await run(registry, artifacts, tmp_path)
    assert (status(result), result.error_kind) == ("FAILED", "INVALID_INPUT")
    assert words in result.error_message


async def test_an_upload_that_is_not_answered_is_tried_again_with_the_same_request_id(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return await ctx.artifacts.put(b"data")

    artifacts.upload_errors.extend([GONE, LinkError("RESOURCE_EXHAUSTED", "TOO_MANY_UPLOADS", "many", 0.01)])
    artifacts.upload_errors.append(LinkError("INTERNAL", "", "Internal error from Core"))
    result = await run(registry, artifacts, tmp_path)
    assert json.loads(result.output_json) == f"artifact://{artifact_id(1)}"
    assert len({head.request_id for head in artifacts.heads}) == 1
    assert len(artifacts.heads) == 4


async def test_a_download_goes_on_where_it_broke(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 12_000
    uri = f"artifact://{artifacts.put(data)}"

    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return await ctx.artifacts.get(uri) == data

    artifacts.download_errors.extend([GONE, GONE])
    result = await run(registry, artifacts, tmp_path)
    assert json.loads(result.output_json) is True
    assert [request.offset for request in artifacts.requests] == [0, PIECE, 2 * PIECE]


async def test_damaged_bytes_are_found_before_the_last_of_them_is_given_out(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    uri = f"artifact://{artifacts.put(b'data')}"
    got: list[bytes] = []

    @registry.task("work")
    async def handler(ctx: Context) -> None:
        got.extend([chunk async for chunk in ctx.artifacts.open(uri)])

    artifacts.damaged = True
    result = await run(registry, artifacts, tmp_path)
    assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")
    assert "damaged" in result.error_message
    assert got == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LinkError("RESOURCE_EXHAUSTED", "ARTIFACT_TOO_LARGE", "too large"), "OUTPUT_TOO_LARGE"),
        (LinkError("RESOURCE_EXHAUSTED", "STORAGE_FULL", "no room"), "HANDLER_ERROR"),
        (LinkError("FAILED_PRECONDITION", "STALE_ATTEMPT", "stale"), "HANDLER_ERROR"),
        (LinkError("INVALID_ARGUMENT", "INVALID_INPUT", "head.name"), "INVALID_INPUT"),
    ],
)
async def test_how_an_upload_fails(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, error: LinkError, kind: str
) -> None:
    @registry.task("work")
    async def handler(ctx: Context) -> Any:
        return await ctx.artifacts.put(b"data")

    artifacts.upload_errors.append(error)
    result = await run(registry, artifacts, tmp_path)
    assert (status(result), result.error_kind) == ("FAILED", kind)
    assert error.message in result.error_message
    assert len(artifacts.heads) == 1


async def test_a_thread_that_waits_for_the_scheduler_stops_when_it_is_told_to(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    ended = threading.Event()

    @registry.task("work")
    def handler(ctx: Context) -> Any:
        try:
            return ctx.artifacts.put_sync(b"data")
        finally:
            ended.set()

    artifacts.upload_errors.extend([GONE] * 1_000)
    async with working(registry, transfers=transfers(artifacts, tmp_path)) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await artifacts.changed.until(lambda: len(artifacts.heads) > 1)
        stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == "CANCELLED"
        assert ended.is_set()


# Large outputs.


@pytest.mark.parametrize("mode", ["loop", "thread"])
async def test_a_large_output_becomes_an_artifact(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, mode: str
) -> None:
    value = {"text": "汉" * LARGE, "b": [1, {"c": None}]}

    async def on_loop() -> Any:
        return value

    registry.task("work")(on_loop if mode == "loop" else lambda: value)
    result = await run(registry, artifacts, tmp_path)
    assert (status(result), result.output_json) == ("SUCCESS", f'"artifact://{artifact_id(1)}#"')
    assert json.loads(artifacts.stored[artifact_id(1)]) == value
    assert artifacts.heads[0].media_type == "application/json"


@pytest.mark.parametrize(("size", "large"), [(256 * 1024 - 2, False), (256 * 1024 - 1, True)])
async def test_the_limit_is_256_kib(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, size: int, large: bool
) -> None:
    @registry.task("work")
    async def handler() -> Any:
        return "x" * size

    result = await run(registry, artifacts, tmp_path)
    assert bool(artifacts.heads) == large
    assert len(result.output_json) == (50 if large else size + 2)


async def test_an_output_over_the_limit_of_artifacts_fails_and_says_so(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    @registry.task("work")
    async def handler() -> Any:
        return "x" * LARGE

    artifacts.upload_errors.append(LinkError("RESOURCE_EXHAUSTED", "ARTIFACT_TOO_LARGE", "more than 100 bytes"))
    result = await run(registry, artifacts, tmp_path)
    assert (status(result), result.error_kind) == ("FAILED", "OUTPUT_TOO_LARGE")
    assert result.error_message == "the output could not be stored: more than 100 bytes"


async def test_a_cancel_ends_the_upload_of_an_output(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    @registry.task("work")
    def handler() -> Any:
        return "x" * LARGE

    artifacts.upload_errors.extend([GONE] * 1_000)
    async with working(registry, transfers=transfers(artifacts, tmp_path)) as bench:
        stream = await bench.link.stream()
        stream.assign(assignment("a"))
        await artifacts.changed.until(lambda: len(artifacts.heads) > 1)
        stream.push(cancels=[order("a")])
        assert status(await stream.result("a")) == "CANCELLED"


async def test_a_scheduler_that_is_away_is_waited_for_longer_when_the_work_is_done(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @registry.task("work")
    async def handler(ctx: Context, put: bool) -> Any:
        return await ctx.artifacts.put(b"data") if put else "x" * LARGE

    monkeypatch.setattr(transfers_module, "PATIENCE_S", 0.0)
    artifacts.upload_errors.extend([GONE] * 3)
    result = await run(registry, artifacts, tmp_path, put=False)
    assert (status(result), len(artifacts.heads)) == ("SUCCESS", 4)
    artifacts.upload_errors.append(GONE)
    result = await run(registry, artifacts, tmp_path, put=True)
    assert (status(result), result.error_kind, result.error_message) == ("FAILED", "HANDLER_ERROR", "gone away")


# Inputs.


async def test_strings_with_a_fragment_become_values_and_others_stay(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    id = artifacts.put(json.dumps({"a": {"b/c~d": [1, "two"]}, "n": 7}).encode())
    uri = f"artifact://{id}"
    values = {
        "whole": f"{uri}#", "deep": f"{uri}#/a/b~1c~0d/1", "list": [f"{uri}#/n", {"x": f"{uri}#/a/b~1c~0d"}],
        "bytes": uri, "text": f"see {uri}#/n", "key": {f"{uri}#/n": 1},
    }  # fmt: skip

    @registry.task("work")
    async def handler(input: dict[str, Any]) -> Any:
        return input

    result = await run(
        registry, artifacts, tmp_path, params={"flat": f"{uri}#/n", "p": f"{uri}#/a/b~1c~0d/1"}, **values
    )
    assert json.loads(result.output_json) == {
        **values, "whole": {"a": {"b/c~d": [1, "two"]}, "n": 7}, "deep": "two", "list": [7, {"x": [1, "two"]}],
        "flat": "7", "p": "two",
    }  # fmt: skip
    assert len(artifacts.requests) == 1, "an artifact is fetched once for an attempt"


async def test_a_flat_parameter_is_read_as_its_handler_says(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    uri = f"artifact://{artifacts.put(b'[5, 6]')}#/1"

    @registry.task("work")
    async def handler(number: int) -> Any:
        return number + 1

    result = await run(registry, artifacts, tmp_path, params={"number": uri})
    assert result.output_json == "7", result.error_message


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (f"artifact://{artifact_id(9)}#", "there is no artifact"),
        (f"artifact://{artifact_id(1)}#/b", "no key 'b'"),
        (f"artifact://{artifact_id(1)}#/a/2", "a list of 2"),
        (f"artifact://{artifact_id(1)}#/a/0/x", "there is a int"),
        (f"artifact://{artifact_id(1)}#a", "begins with /"),
        (f"artifact://{artifact_id(2)}#", "no JSON"),
    ],
)
async def test_a_reference_to_nothing_is_an_invalid_input_that_names_field_and_uri(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path, reference: str, words: str
) -> None:
    artifacts.put(b'{"a": [1, 2]}')
    artifacts.put(b"nonsense")
    called: list[int] = []

    @registry.task("work")
    async def handler(input: dict[str, Any]) -> None:
        called.append(1)

    result = await run(registry, artifacts, tmp_path, list=[1, {"of": reference}])
    assert (status(result), result.error_kind) == ("FAILED", "INVALID_INPUT")
    assert result.error_message.startswith(f"'list[1].of' is '{reference}'")
    assert words in result.error_message
    assert called == []


async def test_an_input_that_cannot_be_had_now_is_tried_by_another_attempt(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    id = artifacts.put(b"1")

    @registry.task("work")
    async def handler(input: dict[str, Any]) -> None:
        raise InvalidInput("not reached")

    artifacts.damaged = True
    result = await run(registry, artifacts, tmp_path, x=f"artifact://{id}#")
    assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")


async def test_a_start_removes_what_a_killed_worker_has_left(artifacts: FakeArtifacts, tmp_path: Path) -> None:
    left = tmp_path / "scratch" / "token" / "file"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    transfers(artifacts, tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_large_output_keeps_its_metadata(
    registry: TaskRegistry, artifacts: FakeArtifacts, tmp_path: Path
) -> None:
    @registry.task("work")
    async def handler() -> Outcome:
        return Outcome(TASK_STATUS_SUCCESS, json.dumps("x" * MAX_OUTPUT_BYTES), metadata={"total_tokens": "5"})

    result = await run(registry, artifacts, tmp_path)
    assert result.output_json == f'"artifact://{artifact_id(1)}#"'
    assert dict(result.metadata) == {"total_tokens": "5"}
