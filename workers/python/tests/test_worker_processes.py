"""Isolated handlers, shell commands and the supervisor, on real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import isolated_tasks
import pytest
from process_watch import alive, gone, number_in
from worker_fakes import Bench, FakeLink, FakeStream, InlineIsolation, Silent, assignment, status, wall_ms

from taskyard.v1.workers_pb2 import CancelAttempt, CheckpointAck
from taskyard_worker import supervisor
from taskyard_worker.isolation import ProcessIsolation
from taskyard_worker.keys import MemoryKeys
from taskyard_worker.processes import ProcessHost
from taskyard_worker.registry import TaskRegistry
from taskyard_worker.runtime import Runtime, Storage
from taskyard_worker.session import Identity
from taskyard_worker.spool import MemorySpool
from taskyard_worker.supervision import Supervision
from taskyard_worker.tasks.builtin import shell_handler
from taskyard_worker.threads import ThreadPool
from taskyard_worker.work import Places


@asynccontextmanager
async def real_worker() -> AsyncIterator[tuple[Bench, Supervision]]:
    """Run a worker with real processes against a fake scheduler."""
    log, link = Silent(), FakeLink()
    supervision = Supervision(log)
    host = ProcessHost(supervision)
    registry = TaskRegistry()
    for handler in isolated_tasks.registry:
        registry.add(handler)
    registry.add(shell_handler(host, os.environ))
    runtime = Runtime(
        link=link,
        identity=Identity("worker-1", "host", 0, ("*",), 20),
        registry=registry,
        storage=Storage(MemorySpool(), MemoryKeys(wall_ms)),
        places=Places(ThreadPool(2), ProcessIsolation(host, {**os.environ, "TASKYARD_TOKEN": "secret"})),
        random=Random(1),
        wall=wall_ms,
        log=log,
    )
    task = asyncio.create_task(runtime.run(), name="worker under test")
    try:
        yield Bench(link, runtime, task, log, InlineIsolation()), supervision
    finally:
        task.cancel()
        await asyncio.wait((task,))
        supervision.close()


@pytest.fixture
async def worker() -> AsyncIterator[Bench]:
    async with real_worker() as (bench, _):
        yield bench


@pytest.fixture
async def stream(worker: Bench) -> FakeStream:
    return await worker.link.stream()


def task(token: str, task_type: str, **values: Any) -> Any:
    return assignment(token, task_type, input_json=json.dumps(values))


def cancel(token: str, grace_ms: int = 5000, reason: str = "cancelled") -> CancelAttempt:
    return CancelAttempt(task_id=f"task-{token}", attempt_token=token, reason=reason, grace_ms=grace_ms)


# --- isolated handlers -----------------------------------------------------------------------------


async def test_an_isolated_handler_runs_elsewhere_and_reports_everything(worker: Bench, stream: FakeStream) -> None:
    stream.assign(task("a", "echo", x=[1, {"y": "ü"}]))
    result = await stream.result("a")
    output = json.loads(result.output_json)
    assert status(result) == "SUCCESS"
    assert output["input"] == {"x": [1, {"y": "ü"}]}
    assert output["pid"] != os.getpid()
    assert (output["attempt"], output["tenant"], output["id"]) == (1, "default", "worker-1")
    assert output["limit"] == 3600.0
    lines = worker.link.log_lines
    await worker.link.changed.until(lambda: len(lines.get("a", ())) == 4)
    assert set(lines["a"]) == {"working on task-a", "printed", "complained", "given out"}
    assert worker.link.given_out["a"] == "given out"
    await stream.until(lambda s: any(part.percent == 50 for part in s.progress))
    assert stream.started == ["a"]


async def test_checkpoints_of_an_isolated_handler_wait_for_their_acknowledgement(stream: FakeStream) -> None:
    acknowledged: list[int] = []
    stream.assign(task("a", "checkpoint"))
    for number in (1, 2):
        await stream.until(lambda s: bool(s.progress) and s.progress[-1].checkpoint_number == len(acknowledged) + 1)
        acknowledged.append(number)
        assert stream.results == []
        stream.push(checkpoint_acks=[CheckpointAck(task_id="task-a", attempt_token="a", checkpoint_number=number)])
    assert (await stream.result("a")).output_json == "2"


async def test_an_async_isolated_handler_finds_the_checkpoint_before_it(stream: FakeStream) -> None:
    stream.assign(assignment("a", "async_echo", input_json='{"text": "x"}', checkpoint='"earlier"'))
    await stream.until(lambda s: bool(s.progress))
    stream.push(checkpoint_acks=[CheckpointAck(task_id="task-a", attempt_token="a", checkpoint_number=1)])
    assert json.loads((await stream.result("a")).output_json) == ["earlier", {"seen": "x"}]


@pytest.mark.parametrize("task_type", ["defer", "async_defer"])
async def test_an_isolated_handler_may_let_its_result_come_from_outside(stream: FakeStream, task_type: str) -> None:
    stream.assign(task("a", task_type))
    result = await stream.result("a")
    assert (status(result), result.defer_timeout_ms, result.output_json) == ("DEFERRED", 90_000, "")


async def test_an_isolated_handler_knows_the_token_that_it_gives_out(worker: Bench, stream: FakeStream) -> None:
    stream.assign(task("a", "defer", returns=False))
    result = await stream.result("a")
    assert (status(result), result.error_kind) == ("FAILED", "NON_RETRYABLE")
    assert "returned a str: write `return ctx.defer(...)`" in result.error_message
    await worker.link.changed.until(lambda: "complete me with task-a.a" in worker.link.log_lines.get("a", ()))


@pytest.mark.parametrize(
    ("task_type", "values", "kind", "message"),
    [
        ("raise", {"kind": "invalid"}, "INVALID_INPUT", "'kind' is invalid"),
        ("raise", {"kind": "other"}, "HANDLER_ERROR", "ValueError: broken"),
        ("raise", {}, "INVALID_INPUT", "lacks 'kind'"),
        ("crash", {}, "HANDLER_ERROR", "was killed by signal 11"),
        ("exit", {}, "HANDLER_ERROR", "ended with exit code 7"),
        ("large", {}, "OUTPUT_TOO_LARGE", "no way to artifacts"),
    ],
)
async def test_how_an_isolated_handler_fails(
    stream: FakeStream, task_type: str, values: dict[str, Any], kind: str, message: str
) -> None:
    stream.assign(task("a", task_type, **values))
    result = await stream.result("a")
    assert (status(result), result.error_kind) == ("FAILED", kind)
    assert message in result.error_message


@pytest.mark.parametrize("task_type", ["strange", "async_strange"])
async def test_whatever_an_isolated_handler_raises_is_told(stream: FakeStream, task_type: str) -> None:
    stream.assign(*(task(name, task_type, name=name) for name in isolated_tasks.STRANGE))
    for name in isolated_tasks.STRANGE:
        result = await stream.result(name)
        assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")
        assert result.error_message.startswith(f"{name}: strange")


@pytest.mark.parametrize("task_type", ["polite", "async_polite"])
async def test_an_isolated_handler_may_clean_up_when_it_is_told_to_stop(
    stream: FakeStream, tmp_path: Path, task_type: str
) -> None:
    file = tmp_path / "pid"
    stream.assign(task("a", task_type, pid_file=str(file)))
    pid = await number_in(file)
    stream.push(cancels=[cancel("a")])
    assert status(await stream.result("a")) == "CANCELLED"
    assert (tmp_path / "pid.clean").exists()
    assert not alive(pid)


async def test_an_isolated_handler_that_does_not_listen_is_killed(stream: FakeStream, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    stream.assign(task("a", "stubborn", pid_file=str(file)))
    pid = await number_in(file)
    began = time.monotonic()
    stream.push(cancels=[cancel("a", grace_ms=200)])
    result = await stream.result("a")
    assert (status(result), alive(pid)) == ("CANCELLED", False)
    assert 0.2 <= time.monotonic() - began < 3
    assert not any(part.cancel_unconfirmed for part in stream.progress)


async def test_what_an_isolated_handler_started_dies_with_it(stream: FakeStream, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    stream.assign(assignment("a", "hang", input_json=json.dumps({"pid_file": str(file)}), timeout_ms=1500))
    pid, grandchild = await number_in(file), await number_in(tmp_path / "pid.child")
    assert status(await stream.result("a")) == "TIMEOUT"
    await gone(grandchild, 2)
    assert not alive(pid)


async def test_the_workers_token_is_not_passed_on(stream: FakeStream) -> None:
    stream.assign(task("a", "shell", command="env"))
    assert "TOKEN" not in json.loads((await stream.result("a")).output_json)["stdout_tail"]


# --- shell -----------------------------------------------------------------------------------------


async def test_a_command_gives_its_code_its_tails_and_its_lines(worker: Bench, stream: FakeStream) -> None:
    stream.assign(
        task("a", "shell", command="echo out; echo err >&2; printf '%s' \"$GREETING\"", env={"GREETING": "hi"})
    )
    result = await stream.result("a")
    assert json.loads(result.output_json) == {"exit_code": 0, "stdout_tail": "out\nhi", "stderr_tail": "err\n"}
    lines = worker.link.log_lines
    await worker.link.changed.until(lambda: len(lines.get("a", ())) == 3)
    streams = {line.text: line.stream for call in worker.link.log_calls for c in call.chunks for line in c.lines}
    assert streams == {"out": "stdout", "hi": "stdout", "err": "stderr"}


async def test_a_program_gets_its_arguments_as_they_are(stream: FakeStream) -> None:
    stream.assign(task("a", "shell", command=["printf", "%s|", "a b", "$HOME", "'"]))
    assert json.loads((await stream.result("a")).output_json)["stdout_tail"] == "a b|$HOME|'|"


async def test_a_script_runs_by_its_first_line_or_by_sh(stream: FakeStream) -> None:
    stream.assign(
        task("sh", "shell", script="x=1\necho $((x + 1))\n"),
        task("py", "shell", script=f"#!{sys.executable}\nimport sys; print(sys.stdin.read() == '', 3 * 3)\n"),
    )
    assert json.loads((await stream.result("sh")).output_json)["stdout_tail"] == "2\n"
    assert json.loads((await stream.result("py")).output_json)["stdout_tail"] == "True 9\n"


async def test_where_a_command_runs(stream: FakeStream, tmp_path: Path) -> None:
    stream.assign(task("there", "shell", command="pwd", cwd=str(tmp_path)), task("fresh", "shell", command="ls -A"))
    assert json.loads((await stream.result("there")).output_json)["stdout_tail"].strip() == str(tmp_path)
    assert json.loads((await stream.result("fresh")).output_json)["stdout_tail"] == ""


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("echo why >&2; exit 3", 3, "exit code 3: why"),
        ("kill -9 $$", 137, "killed by signal 9"),
        (["/no/such/program"], 127, "exit code 127"),
    ],
)
async def test_a_command_that_fails_is_tried_again(stream: FakeStream, command: Any, code: int, message: str) -> None:
    stream.assign(task("a", "shell", command=command))
    result = await stream.result("a")
    assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")
    assert message in result.error_message
    assert json.loads(result.output_json)["exit_code"] == code


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "exactly one"),
        ({"command": "a", "script": "b"}, "exactly one"),
        ({"command": 1}, "a line for the shell"),
        ({"command": []}, "a line for the shell"),
        ({"command": "a\0b"}, "without NUL"),
        ({"command": "\ud800"}, "not valid Unicode"),
        ({"command": "x" * 200_000}, "give it as 'script'"),
        ({"command": "a", "env": {"A=B": "c"}}, "no '='"),
        ({"command": "a", "env": {"A": 1}}, "env.A"),
        ({"command": "a", "env": ["A"]}, "must be an object"),
        ({"command": "a", "cwd": "/no/such/place"}, "no directory on this worker"),
    ],
)
async def test_a_wrong_shell_input_is_named(stream: FakeStream, values: dict[str, Any], said: str) -> None:
    stream.assign(task("a", "shell", **values))
    result = await stream.result("a")
    assert result.error_kind == "INVALID_INPUT"
    assert said in result.error_message


async def test_a_cancelled_command_dies_with_all_that_it_started(stream: FakeStream, tmp_path: Path) -> None:
    script = "trap '' TERM\nsleep 600 & echo $! > child\necho $$ > shell\nwait; sleep 600"
    stream.assign(task("a", "shell", script=script, cwd=str(tmp_path)))
    shell, child = await number_in(tmp_path / "shell"), await number_in(tmp_path / "child")
    stream.push(cancels=[cancel("a", grace_ms=100)])
    assert status(await stream.result("a")) == "CANCELLED"
    assert not alive(shell)
    await gone(child, 2)


async def test_what_a_command_leaves_behind_is_killed_with_its_end(stream: FakeStream, tmp_path: Path) -> None:
    stream.assign(task("a", "shell", command="sleep 600 & echo $! > child", cwd=str(tmp_path)))
    assert status(await stream.result("a")) == "SUCCESS"
    await gone(await number_in(tmp_path / "child"), 2)


async def test_a_command_that_floods_its_log_ends_at_the_cap(worker: Bench, stream: FakeStream) -> None:
    stream.assign(task("a", "shell", command="yes 'a line that is repeated for ever' | head -c 30000000; echo end"))
    result = await stream.result("a")
    assert json.loads(result.output_json)["stdout_tail"].endswith("end\n")
    lines = worker.link.log_lines
    await worker.link.changed.until(lambda: "[log cut" in lines.get("a", [""])[-1])
    assert sum(len(line) for line in lines["a"]) < 10 * 1024 * 1024


# --- the supervisor --------------------------------------------------------------------------------


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], start_new_session=True)


def supervisor_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", "-S", supervisor.__file__], stdin=subprocess.PIPE, bufsize=0)


def tell(process: subprocess.Popen[bytes], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text.encode())


async def test_the_supervisor_kills_what_it_knows_when_its_input_ends() -> None:
    known, dropped, watching = sleeper(), sleeper(), supervisor_process()
    tell(watching, f"add {known.pid}\nadd {dropped.pid}\ndrop {dropped.pid}\n")
    assert watching.stdin is not None
    watching.stdin.close()
    assert watching.wait(5) == 0
    assert known.wait(5) == -signal.SIGKILL
    assert dropped.poll() is None
    dropped.kill()
    dropped.wait()


async def test_the_supervisor_kills_a_group_whose_lease_ends_unless_it_is_renewed() -> None:
    overdue, renewed, watching = sleeper(), sleeper(), supervisor_process()
    now = supervisor.boot_ms()
    tell(watching, f"add {overdue.pid}\nadd {renewed.pid}\nlease {renewed.pid} {now + 300}\n")
    tell(watching, f"lease {overdue.pid} {now + 400}\nlease {renewed.pid} {now + 60_000}\n")
    assert await asyncio.to_thread(overdue.wait, 5) == -signal.SIGKILL
    assert supervisor.boot_ms() - now >= 400
    assert renewed.poll() is None
    assert watching.stdin is not None
    watching.stdin.close()
    watching.wait(5)
    renewed.wait(5)


async def test_the_supervisor_ignores_the_terminals_signals() -> None:
    known, watching = sleeper(), supervisor_process()
    tell(watching, f"add {known.pid}\nlease {known.pid} {supervisor.boot_ms()}\n")
    await asyncio.to_thread(known.wait, 5)  # it listens by now
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        watching.send_signal(number)
    second = sleeper()
    tell(watching, f"add {second.pid}\n")
    assert watching.stdin is not None
    watching.stdin.close()
    assert watching.wait(5) == 0
    assert second.wait(5) == -signal.SIGKILL


async def test_a_supervisor_that_dies_is_replaced_and_told_what_it_knew(tmp_path: Path) -> None:
    async with real_worker() as (bench, supervision):
        stream = await bench.link.stream()
        file = tmp_path / "pid"
        stream.assign(task("a", "stubborn", pid_file=str(file)))
        pid, first = await number_in(file), supervision.pid
        os.kill(first, signal.SIGKILL)
        await gone(first)
        stream.push(cancels=[cancel("unknown")])  # its answer comes after the loop has seen the death
        await stream.result("unknown")
        assert supervision.pid != first
        assert bench.log.said("the supervisor process died")
        assert supervision._process.stdin is not None
        supervision._process.stdin.close()  # what the worker's death does
        assert await gone(pid, 2) < 2


async def test_an_exclusive_attempt_dies_before_its_lease_ends_when_it_is_not_renewed(tmp_path: Path) -> None:
    async with real_worker() as (bench, _):
        stream = await bench.link.stream()
        file = tmp_path / "pid"
        lease = {"exclusive": True, "lease_ms": 6500}
        began = time.monotonic()
        stream.assign(assignment("a", "stubborn", input_json=json.dumps({"pid_file": str(file)}), **lease))
        pid = await number_in(file)
        await gone(pid, 6)
        assert 1.3 <= time.monotonic() - began < 3  # 5 s before the end of the lease
        assert "killed by signal 9" in (await stream.result("a")).error_message
