from __future__ import annotations

import errno
import os
import resource
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.v1.workers_pb2 import AssignTaskRequest, ResultAck, TaskResult
from taskyard_worker import spool as spool_module
from taskyard_worker.results import KeptResults
from taskyard_worker.spool import FileSpool, read_records


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def frame(*tokens: str, size: int = 0) -> AssignTaskRequest:
    return AssignTaskRequest(
        results=[TaskResult(task_id=f"task-{token}", attempt_token=token, output_json="x" * size) for token in tokens]
    )


def acks(*tokens: str) -> list[ResultAck]:
    return [ResultAck(attempt_token=token) for token in tokens]


def open_spool(directory: Path, clock: Clock | None = None, told: list[str] | None = None) -> FileSpool:
    def warn(event: str, /, **facts: object) -> None:
        if told is not None:
            told.append(event)

    return FileSpool(directory, clock or Clock(), warn)


def replayed(directory: Path) -> list[str]:
    spool = open_spool(directory)
    tokens = [result.attempt_token for result in spool.replay()]
    spool.close()
    return tokens


def keep(results: KeptResults, part: AssignTaskRequest) -> None:
    for result in part.results:
        results.keep(result.attempt_token, result)
    results.save(part)


def test_what_was_written_is_there_after_a_kill(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)  # never closed, as a killed process closes nothing
    assert spool.append(frame("a", "b"), 2)
    assert spool.append(frame("c"), 3)
    assert replayed(tmp_path) == ["a", "b", "c"]
    assert replayed(tmp_path) == ["a", "b", "c"]  # until it is acknowledged


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.lists(st.text(max_size=8), min_size=1, max_size=4), min_size=1, max_size=5),
    cut=st.integers(0, 400),
    flip=st.integers(0, 400),
)
def test_a_torn_or_damaged_tail_costs_only_what_it_hits(parts: list[list[str]], cut: int, flip: int) -> None:
    records = [frame(*part).SerializeToString() for part in parts]
    data = bytearray(b"".join(spool_module._HEAD.pack(len(r), zlib.crc32(r)) + r for r in records))
    torn = bytes(data[: max(0, len(data) - cut)])
    kept = list(read_records(torn))
    assert kept == [AssignTaskRequest.FromString(record) for record in records[: len(kept)]]
    whole = sum(len(record) + 8 for record in records[: len(kept)])
    assert len(torn) - whole < (len(records[len(kept)]) + 8 if len(kept) < len(records) else 1)
    damaged = bytearray(data)
    damaged[flip % len(data)] ^= 0xFF
    survivors = list(read_records(bytes(damaged)))
    assert survivors == [AssignTaskRequest.FromString(record) for record in records[: len(survivors)]]


def test_a_record_that_is_damaged_but_well_formed_is_not_replayed(tmp_path: Path) -> None:
    open_spool(tmp_path).append(frame("aaaa"), 1)
    path = next(tmp_path.glob("*.spool"))
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"bbbb"))
    assert replayed(tmp_path) == []


def test_what_is_acknowledged_is_not_replayed_after_an_orderly_end(tmp_path: Path) -> None:
    results = KeptResults(open_spool(tmp_path))
    keep(results, frame("a", "b"))
    results.acknowledge(acks("a", "b", "unknown"))
    results.close()
    assert replayed(tmp_path) == []
    assert list(tmp_path.glob("*.spool")) == []


def test_what_is_left_is_replayed_after_an_orderly_end(tmp_path: Path) -> None:
    results = KeptResults(open_spool(tmp_path))
    keep(results, frame("a", "b"))
    results.acknowledge(acks("a"))
    results.close()
    assert "b" in replayed(tmp_path)


def test_old_segments_go_while_new_results_keep_coming(tmp_path: Path) -> None:
    results = KeptResults(open_spool(tmp_path))
    size = 1024 * 1024
    for number in range(40):
        keep(results, frame(f"r{number}", size=size))
        if number >= 3:
            results.acknowledge(acks(f"r{number - 3}"))
        assert len(list(tmp_path.glob("*.spool"))) <= 3
    left = sum(path.stat().st_size for path in tmp_path.glob("*.spool"))
    assert left < 3 * spool_module.SEGMENT_BYTES
    assert {"r37", "r38", "r39"} <= set(replayed(tmp_path))


def test_the_files_of_an_earlier_life_go_once_all_of_it_is_acknowledged(tmp_path: Path) -> None:
    first = open_spool(tmp_path)
    first.append(frame("a", "b"), 2)
    results = KeptResults(open_spool(tmp_path))
    assert results.restore() == 2
    keep(results, frame("c"))
    results.acknowledge(acks("a"))
    assert sorted(path.stem for path in tmp_path.glob("*.spool")) == ["000000000001", "000000000002"]
    results.acknowledge(acks("b"))
    assert sorted(path.stem for path in tmp_path.glob("*.spool")) == ["000000000002"]
    assert replayed(tmp_path) == ["c"]


def test_an_idle_spool_is_cleared_at_most_once_a_second(tmp_path: Path) -> None:
    clock = Clock()
    results = KeptResults(open_spool(tmp_path, clock))
    sizes = []
    for number in range(4):
        keep(results, frame(f"r{number}"))
        results.acknowledge(acks(f"r{number}"))
        sizes.append(next(tmp_path.glob("*.spool")).stat().st_size)
        clock.now += 0.4
    assert sizes[0] == 0
    assert 0 < sizes[1] < sizes[2]
    assert sizes[3] == 0


def test_a_full_disk_keeps_results_in_memory_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    spool = open_spool(tmp_path, told=told)
    spool.append(frame("before"), 1)
    real, full = os.write, [True]

    def write(file: int, data: bytes) -> int:
        if not full[0]:
            return real(file, data)
        if len(data) > 40 and full[0]:
            return real(file, data[:10])  # a short write first, as at the end of a disk
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    assert not spool.append(frame("a", size=100), 2)
    assert not spool.append(frame("b"), 3)
    assert len(told) == 1
    assert "make room on the disk" in told[0]
    assert replayed(tmp_path) == ["before"]
    full[0] = False
    assert spool.append(frame("c"), 4)
    assert told[1:] == ["the result spool is written again"]
    assert replayed(tmp_path) == ["before", "a", "b", "c"]
    assert spool.unwritten == 0


def test_a_file_that_the_system_lets_grow_no_further(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        written = [spool.append(frame(str(number), size=3_000), number + 1) for number in range(5)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert written == [True, True, True, False, False]
    assert replayed(tmp_path) == ["0", "1", "2"]
    assert spool.append(frame("5"), 6)
    assert replayed(tmp_path) == ["0", "1", "2", "3", "4", "5"]


def test_what_is_acknowledged_while_the_disk_is_full_is_not_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = KeptResults(open_spool(tmp_path))

    def write(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        keep(results, frame("a"))
        keep(results, frame("b"))
        results.acknowledge(acks("a"))
    keep(results, frame("c"))
    assert replayed(tmp_path) == ["b", "c"]


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(OSError, match="file"):
        open_spool(blocked / "spool")


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["keep", "ack", "restart"]), st.integers(0, 5)), max_size=30))
def test_nothing_unacknowledged_is_ever_lost(steps: list[tuple[str, int]], tmp_path_factory: Any) -> None:
    directory = tmp_path_factory.mktemp("spool")
    results, model, made = KeptResults(open_spool(directory)), dict[str, None](), 0
    for step, number in steps:
        if step == "keep":
            tokens = [f"r{made + n}" for n in range(number + 1)]
            made += len(tokens)
            keep(results, frame(*tokens))
            model.update(dict.fromkeys(tokens))
        elif step == "ack":
            tokens = list(model)[number : number + 3]
            results.acknowledge(acks(*tokens))
            for token in tokens:
                del model[token]
        else:
            results = KeptResults(open_spool(directory))  # the old one is killed, not closed
            results.restore()
            assert set(model) <= set(results.tokens())
            extra = [token for token in results.tokens() if token not in model]
            results.acknowledge(acks(*extra))
    assert list(results.tokens()) == list(model)
