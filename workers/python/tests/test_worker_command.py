"""The `taskyard worker` command as a process of its own, against a scheduler over real gRPC."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from process_watch import alive, gone, number_in
from worker_fakes import Silent, assignment, status
from worker_grpc_scheduler import GrpcScheduler, serving

from taskyard_worker import Offer, TaskRegistry, Worker, WorkerSettings
from taskyard_worker.main import local_server, overrides, parser
from taskyard_worker.settings import SettingsError, load

TASKS = """
import asyncio, os, threading, time
from pathlib import Path
from taskyard_worker import task, Context

@task("hello")
async def hello(name: str = "you"):
    return {"hello": name}

@task("wait")
async def wait(ctx: Context):
    await asyncio.Event().wait()

@task("leaves")
async def leaves(name: str):
    async def child():
        raise {"SystemExit": SystemExit, "KeyboardInterrupt": KeyboardInterrupt}[name]
    await asyncio.create_task(child())

@task("leaves_late")
async def leaves_late():
    async def child():
        try:
            await asyncio.Event().wait()
        finally:
            raise SystemExit(3)
    kept.append(asyncio.create_task(child()))
    await asyncio.sleep(0)

kept = []

@task("deaf")
async def deaf():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@task("stuck_thread")
def stuck_thread():
    threading.Event().wait()

@task("hold", isolated=True)
def hold(pid_file: str):
    Path(pid_file).write_text(f"{os.getpid()}\\n")
    time.sleep(600)
"""


class WorkerProcess:
    """A worker's process; its stderr is kept line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read(), name="stderr of the worker")

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    async def exit_code(self) -> int:
        async with asyncio.timeout(30):
            await self._reading
            return await self.process.wait()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]


class Workers:
    """Starts workers in one data directory and ends them with the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[WorkerProcess] = []
        self.tasks = directory / "my_tasks.py"
        self.tasks.write_text(TASKS)

    async def start(self, port: int, *arguments: str, tasks: str = "", **variables: str) -> WorkerProcess:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
        environ |= {
            "TASKYARD_ADDRESS": f"127.0.0.1:{port}",
            "TASKYARD_TOKEN": "the-token",
            "TASKYARD_DATA": str(self.directory / "data"),
            "TASKYARD_HTTP_PORT": "0",
            "TASKYARD_BIND": "127.0.0.1",
            "TASKYARD_TASKS": tasks or str(self.tasks),
            **variables,
        }
        command = (sys.executable, "-m", "taskyard_worker.main", *arguments)
        process = await asyncio.create_subprocess_exec(*command, env=environ, stderr=asyncio.subprocess.PIPE)
        worker = WorkerProcess(process)
        self.started.append(worker)
        return worker

    async def close(self) -> None:
        for worker in self.started:
            with suppress(ProcessLookupError):
                worker.process.kill()
            await worker.exit_code()


@pytest.fixture
def scheduler() -> GrpcScheduler:
    return GrpcScheduler()


@pytest.fixture
async def port(scheduler: GrpcScheduler) -> AsyncIterator[int]:
    async with serving(scheduler) as port:
        yield port


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    workers = Workers(tmp_path)
    yield workers
    await workers.close()


def task(token: str, task_type: str, **values: Any) -> Any:
    return assignment(token, task_type, input_json=json.dumps(values))


async def test_a_worker_runs_the_handlers_of_a_file_and_drains_on_sigterm(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port, "--label", "zone=a", "--concurrency", "3")
    await scheduler.connected()
    registration = scheduler.registrations[0]
    assert {"hello", "wait", "hold", "shell", "sleep", "text_process"} <= set(registration.capabilities)
    assert dict(registration.labels) == {"lang": "python", "zone": "a"}
    assert (registration.max_concurrency, registration.protocol) == (3, "grpc")
    assert registration.worker_id.startswith("python-worker-")
    assert registration.port > 0
    assert registration.build_id
    assert set(scheduler.tokens) == {"Bearer the-token"}
    scheduler.assign(task("a", "hello", name="Ada"), task("b", "text_process", text=" x  y ", operation="clean"))
    assert json.loads((await scheduler.result("a")).output_json) == {"hello": "Ada"}
    assert json.loads((await scheduler.result("b")).output_json) == {"result": "x y"}
    worker.process.terminate()
    assert await worker.exit_code() == 0
    assert len(scheduler.deregistrations) == 1
    assert worker.events[-1]["event"] == "drained"
    assert all(line.startswith("{") for line in worker.lines)


async def test_sigterm_interrupts_what_outlasts_the_grace(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port, TASKYARD_DRAIN_GRACE_S="0.1")
    await scheduler.connected()
    scheduler.assign(task("a", "wait"))
    await scheduler.changed.until(lambda: scheduler.started == ["a"])
    worker.process.terminate()
    assert status(await scheduler.result("a")) == "INTERRUPTED"
    assert await worker.exit_code() == 0


async def test_a_second_sigterm_stops_at_once_and_kills_what_runs(
    scheduler: GrpcScheduler, port: int, workers: Workers, tmp_path: Path
) -> None:
    worker = await workers.start(port)
    await scheduler.connected()
    scheduler.assign(task("a", "hold", pid_file=str(tmp_path / "pid")), task("b", "stuck_thread"))
    pid = await number_in(tmp_path / "pid")
    worker.process.terminate()
    await scheduler.changed.until(lambda: any(frame.draining for frame in scheduler.frames))
    worker.process.terminate()
    began = time.monotonic()
    assert await worker.exit_code() == 75
    assert time.monotonic() - began < 5
    await gone(pid, 2)


async def test_kill_9_takes_the_children_within_a_second_and_loses_no_result(
    scheduler: GrpcScheduler, port: int, workers: Workers, tmp_path: Path
) -> None:
    scheduler.acknowledge = False
    worker = await workers.start(port)
    await scheduler.connected()
    script = f"sleep 600 & echo $! > {tmp_path}/grandchild; echo $$ > {tmp_path}/shell; wait"
    scheduler.assign(
        task("quick", "hello"),
        task("held", "hold", pid_file=str(tmp_path / "held")),
        task("sh", "shell", script=script),
    )
    pids = [await number_in(tmp_path / name) for name in ("held", "shell", "grandchild")]
    await scheduler.result("quick")
    worker.process.kill()
    took = [await gone(pid, 3) for pid in pids]
    assert max(took) < 1
    assert not any(map(alive, pids))
    await worker.exit_code()
    scheduler.results.clear()
    scheduler.frames.clear()
    scheduler.end_stream()  # of the dead
    scheduler.acknowledge = True
    await workers.start(port)
    await scheduler.connected(2)
    assert scheduler.registrations[1].worker_id == scheduler.registrations[0].worker_id
    hello = next(frame.hello for frame in scheduler.frames if frame.HasField("hello"))
    assert [held.attempt_token for held in hello.attempts] == ["quick"]
    assert status(await scheduler.result("quick")) == "SUCCESS"


async def test_processes_start_beside_grpc_and_uvloop_without_fail(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    await workers.start(port, "--concurrency", "40")
    await scheduler.connected()
    scheduler.assign(*(task(f"shell-{number}", "shell", command="true") for number in range(40)))
    for number in range(40):
        result = await scheduler.result(f"shell-{number}")
        assert status(result) == "SUCCESS", result.error_message


async def test_a_scheduler_that_restarts_finds_the_worker_again(scheduler: GrpcScheduler, workers: Workers) -> None:
    async with serving(scheduler) as port:
        await workers.start(port)
        await scheduler.connected()
        scheduler.assign(task("a", "sleep", seconds=0.5))
        await scheduler.changed.until(lambda: scheduler.started == ["a"])
    again = GrpcScheduler()
    again.forgetful = True
    async with serving(again, port):
        assert status(await again.result("a")) == "SUCCESS"
        assert len(again.registrations) == 1


async def test_a_second_worker_on_the_host_is_another_one(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    await workers.start(port)
    await workers.start(port)
    await scheduler.changed.until(lambda: len(scheduler.registrations) == 2)
    assert len({registration.worker_id for registration in scheduler.registrations}) == 2


async def test_health_and_metrics_are_served(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    await workers.start(port)
    await scheduler.connected()
    scheduler.assign(task("a", "hello"))
    await scheduler.result("a")
    text = await get(scheduler.registrations[0].port, "/metrics")
    assert 'workflow_task_duration_seconds_count{status="SUCCESS",task_type="hello"} 1.0' in text
    assert "taskyard_worker_connected 1.0" in text
    assert (await get(scheduler.registrations[0].port, "/readyz")).startswith("HTTP/1.1 200")


async def get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


async def test_a_superseded_worker_exits_71(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    worker = await workers.start(port)
    await scheduler.connected()
    scheduler.errors = [(grpc.StatusCode.ABORTED, "SESSION_SUPERSEDED", None)]
    assert await worker.exit_code() == 71
    assert "another worker registered as" in worker.lines[-1]


async def test_a_worker_that_is_not_accepted_exits_72(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    scheduler.accepted = False
    worker = await workers.start(port)
    assert await worker.exit_code() == 72
    assert worker.lines[-1] == "taskyard worker: no room for you\n"


async def test_a_refused_token_exits_73(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    scheduler.errors = [(grpc.StatusCode.UNAUTHENTICATED, "BAD_TOKEN", None)]
    worker = await workers.start(port)
    assert await worker.exit_code() == 73
    assert "TASKYARD_TOKEN" in worker.lines[-1]


async def test_an_unusable_data_directory_exits_74(port: int, workers: Workers, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    worker = await workers.start(port)
    assert await worker.exit_code() == 74
    assert "TASKYARD_DATA" in worker.lines[-1]


@pytest.mark.parametrize(
    ("arguments", "tasks", "said"),
    [
        (("--address", "foo"), "", "`foo` is not host:port; write for example 127.0.0.1:9090"),
        (("--address", "127.0.0.1:99999"), "", "`127.0.0.1:99999` is not host:port"),
        (("--concurrency", "0"), "", "TASKYARD_CONCURRENCY is '0'"),
        (("--gpus", "-1"), "", "TASKYARD_GPUS is '-1'"),
        (("--cpus", "0.0005"), "", "TASKYARD_CPUS is '0.0005'"),
        (("--memory-mb", "8G"), "", "TASKYARD_MEMORY_MB is '8G'"),
        (("--label", "zone"), "", "'zone' is no name=value"),
        (("--label", "zone=a", "--label", "zone=b"), "", "label 'zone' is given twice; keep one of them"),
        (("--only", "nothing"), "", "no handler for task type 'nothing'"),
        ((), "missing.py", "there is no file 'missing.py'"),
        (("--nonsense",), "", "unrecognized arguments: --nonsense"),
        (("--worker-id", ""), "", "--worker-id is empty: give it a value, or leave it out"),
        (("--memory-mb", ""), "", "--memory-mb is empty"),
        (("--label", "a=b", "--label", ""), "", "--label is empty"),
        (("--only", ""), "", "--only is empty"),
    ],
)
async def test_wrong_arguments_exit_2_with_a_sentence(
    port: int, workers: Workers, arguments: tuple[str, ...], tasks: str, said: str
) -> None:
    worker = await workers.start(port, *arguments, tasks=tasks)
    assert await worker.exit_code() == 2
    assert said in worker.lines[-1]
    assert "Traceback" not in "".join(worker.lines)


async def test_a_token_from_a_file_is_taken_without_its_end_of_line_and_a_damaged_one_is_refused(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port, TASKYARD_TOKEN="tök\udcffen\n")
    assert await worker.exit_code() == 2
    assert "TASKYARD_TOKEN is a secret: character 2 of 6 is U+00F6" in worker.lines[-1]
    assert len(worker.lines) == 1
    await workers.start(port, TASKYARD_TOKEN="the-token\n")
    await scheduler.connected()
    assert set(scheduler.tokens) == {"Bearer the-token"}


async def test_a_task_of_a_handler_may_raise_what_ends_programs(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port)
    await scheduler.connected()
    scheduler.assign(*(task(name, "leaves", name=name) for name in ("SystemExit", "KeyboardInterrupt")))
    for name in ("SystemExit", "KeyboardInterrupt"):
        result = await scheduler.result(name)
        assert (status(result), result.error_kind) == ("FAILED", "HANDLER_ERROR")
        assert name in result.error_message
    scheduler.assign(task("after", "hello"))
    assert status(await scheduler.result("after")) == "SUCCESS"
    worker.process.terminate()
    assert await worker.exit_code() == 0
    assert worker.events[-1]["event"] == "drained"


async def test_what_a_handler_left_behind_may_end_as_it_likes(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port)
    await scheduler.connected()
    scheduler.assign(task("a", "leaves_late"))
    assert status(await scheduler.result("a")) == "SUCCESS"
    worker.process.terminate()
    assert await worker.exit_code() == 0
    assert worker.events[-1]["event"] == "a handler's task ended as if it were the program"


async def test_a_handler_that_ignores_every_cancellation_does_not_keep_the_process(
    scheduler: GrpcScheduler, port: int, workers: Workers
) -> None:
    worker = await workers.start(port)
    await scheduler.connected()
    scheduler.assign(task("a", "deaf"))
    await scheduler.changed.until(lambda: scheduler.started == ["a"])
    worker.process.terminate()
    await scheduler.changed.until(lambda: any(frame.draining for frame in scheduler.frames))
    worker.process.terminate()
    assert await worker.exit_code() == 75
    assert worker.events[-1]["event"] == "handlers ignore that they are cancelled; leaving without them"


async def test_only_what_is_asked_for_is_offered(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    await workers.start(port, "--only", "hello", "--no-builtin")
    await scheduler.connected()
    assert list(scheduler.registrations[0].capabilities) == ["hello"]


async def test_resources_are_offered_on_the_command_line(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    await workers.start(port, "--cpus", "1.5", "--memory-mb", "8192", TASKYARD_CPUS="8", TASKYARD_GPUS="2")
    await scheduler.connected()
    offered = scheduler.registrations[0].resources
    assert (offered.cpu_millis, offered.memory_mb, offered.gpus) == (1_500, 8_192, 2)


async def test_who_names_no_resources_offers_none(scheduler: GrpcScheduler, port: int, workers: Workers) -> None:
    await workers.start(port, TASKYARD_CPUS="", TASKYARD_GPUS="0")
    await scheduler.connected()
    assert not scheduler.registrations[0].HasField("resources")


async def test_a_program_may_run_a_worker_itself(scheduler: GrpcScheduler, port: int, tmp_path: Path) -> None:
    registry = TaskRegistry()

    @registry.task("double")
    async def double(number: int) -> int:
        return 2 * number

    settings = WorkerSettings(address=f"127.0.0.1:{port}", data=tmp_path, http_port=0, bind="127.0.0.1", cpus=2, gpus=1)
    worker = Worker(settings, Offer(registry, builtin=False), {}, Silent())
    running = asyncio.create_task(worker.run())
    await scheduler.connected()
    offered = scheduler.registrations[0].resources
    assert (offered.cpu_millis, offered.memory_mb, offered.gpus) == (2_000, 0, 1)
    assert list(scheduler.registrations[0].capabilities) == ["double"]
    scheduler.assign(task("a", "double", number=21))
    assert (await scheduler.result("a")).output_json == "42"
    worker.drain()
    async with asyncio.timeout(10):
        await running
    assert len(scheduler.deregistrations) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), (b"", "is empty"), (b"no certificate\n", "has no certificate in PEM")],
)
async def test_a_certificate_file_that_cannot_be_used_is_named(
    content: bytes | None, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    given = {"TASKYARD_DATA": str(tmp_path), "TASKYARD_HTTP_PORT": "0", "TASKYARD_BIND": "127.0.0.1"}
    settings = load(given | {"TASKYARD_CA": str(file)}, {})
    assert settings == load(given, overrides(parser().parse_args(["--ca", str(file)])))
    with pytest.raises(SettingsError, match=f"TASKYARD_CA is {file}, a file that {said}"):
        await Worker(settings, environ={}, log=Silent()).run()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n1/0\n", "tasks.py cannot be loaded: ZeroDivisionError: division by zero, at {file}:2\n"),
        ("def work(): ...\n", 'tasks.py registers no handler: put `@task("NAME")` above the function'),
    ],
)
async def test_task_files_that_cannot_be_used_exit_2_with_a_sentence(
    text: str, said: str, port: int, workers: Workers, tmp_path: Path
) -> None:
    file = tmp_path / "own" / "tasks.py"
    file.parent.mkdir()
    file.write_text(text)
    worker = await workers.start(port, tasks=str(file))
    assert await worker.exit_code() == 2
    (line,) = worker.lines
    assert said.format(file=file) in line


async def test_the_token_that_dev_left_goes_nowhere_else(
    scheduler: GrpcScheduler, port: int, workers: Workers, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cli.json").write_text('{"address": "127.0.0.1:1", "token": "of-dev"}')
    await workers.start(0, "--address", f"127.0.0.1:{port}", TASKYARD_ADDRESS="", TASKYARD_TOKEN="")
    await scheduler.connected()
    assert scheduler.tokens == []


def test_address_and_token_of_a_local_server_are_found(tmp_path: Path) -> None:
    environ = {"TASKYARD_DATA": str(tmp_path)}
    assert local_server(environ) == environ
    (tmp_path / "cli.json").write_text('{"address": "127.0.0.1:1234", "token": "t"}')
    found = local_server(environ)
    assert (found["TASKYARD_ADDRESS"], found["TASKYARD_TOKEN"]) == ("127.0.0.1:1234", "t")
    elsewhere = {**environ, "TASKYARD_ADDRESS": "other:1"}
    assert local_server(elsewhere) == elsewhere
    assert local_server(environ, "other:1") == environ
    assert local_server(environ, "127.0.0.1:1234") == found
    (tmp_path / "cli.json").write_text("damaged")
    assert local_server(environ) == environ
