"""The small parts around the runtime: identity, settings, endpoints, watchdog, retries, loader."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from random import Random
from unittest.mock import Mock

import pytest
from worker_fakes import Signal, Silent

from taskyard.v1.tasks_pb2 import TASK_STATUS_FAILED, TASK_STATUS_SUCCESS
from taskyard_client.errors import InvalidInput as ClientInvalidInput
from taskyard_client.grpc_transport import GrpcTransport
from taskyard_client.tokens import BadToken, clean_token
from taskyard_worker.endpoints import Endpoints
from taskyard_worker.errors import DataDirectoryError, InvalidInput, RegistrationError
from taskyard_worker.identity import take_home
from taskyard_worker.link import LinkError
from taskyard_worker.loops import Loops
from taskyard_worker.metrics import WorkerMetrics
from taskyard_worker.output import OutputReader
from taskyard_worker.registry import TaskRegistry, make_handler
from taskyard_worker.retry import with_retries
from taskyard_worker.settings import SettingsError, load
from taskyard_worker.tasks.builtin import builtin_handlers, offered
from taskyard_worker.tasks.sleep import sleep
from taskyard_worker.tasks.text_process import text_process
from taskyard_worker.watchdog import LoopGuard, Watchdog, Watched

# --- identity --------------------------------------------------------------------------------------


def test_a_restart_is_the_same_worker_and_a_second_one_is_another(tmp_path: Path) -> None:
    first = take_home(tmp_path)
    second = take_home(tmp_path)
    assert first.worker_id != second.worker_id
    assert first.path != second.path
    assert first.worker_id.removeprefix("python-worker-").isalnum()
    assert len(first.worker_id) == len("python-worker-") + 8
    first.release()
    again = take_home(tmp_path)
    assert (again.worker_id, again.path) == (first.worker_id, first.path)
    again.release()
    second.release()


def test_a_chosen_id_has_a_directory_of_its_own_and_one_holder(tmp_path: Path) -> None:
    home = take_home(tmp_path, "../we/ird id")
    assert home.worker_id == "../we/ird id"
    assert home.path.parent == tmp_path / "workers"
    with pytest.raises(DataDirectoryError, match="runs on this host already"):
        take_home(tmp_path, "../we/ird id")
    home.release()
    take_home(tmp_path, "../we/ird id").release()


def test_a_damaged_id_file_gives_a_new_id(tmp_path: Path) -> None:
    home = take_home(tmp_path)
    (home.path / "worker-id").write_bytes(b"\xff\x00garbage")
    home.release()
    again = take_home(tmp_path)
    assert again.worker_id.startswith("python-worker-")
    again.release()


def test_a_directory_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("in the way")
    with pytest.raises(DataDirectoryError, match="TASKYARD_DATA"):
        take_home(tmp_path)


# --- settings --------------------------------------------------------------------------------------


def test_settings_come_from_arguments_then_variables_then_defaults() -> None:
    environ = {"TASKYARD_CONCURRENCY": "20", "TASKYARD_LABELS": "zone=a, gpu=yes", "TASKYARD_TASKS": "a.py,b"}
    settings = load(environ, {"concurrency": "30", "address": None})
    assert (settings.concurrency, settings.address) == (30, "127.0.0.1:9090")
    assert settings.labels == {"zone": "a", "gpu": "yes"}
    assert settings.tasks == ("a.py", "b")
    assert load({}, {}).concurrency == 10


def test_resources_are_offered_only_when_they_are_named() -> None:
    nothing = load({}, {})
    assert (nothing.cpu_millis, nothing.memory_mb, nothing.gpus) == (0, 0, 0)
    environ = {"TASKYARD_CPUS": "0.5", "TASKYARD_MEMORY_MB": "8192", "TASKYARD_GPUS": "1"}
    settings = load(environ, {"gpus": "2", "cpus": None})
    assert (settings.cpu_millis, settings.memory_mb, settings.gpus) == (500, 8_192, 2)


@pytest.mark.parametrize(("cpus", "millis"), [("0", 0), ("4", 4_000), ("0.001", 1), ("2.007", 2_007), ("1000", 10**6)])
def test_cores_are_counted_in_thousandths(cpus: str, millis: int) -> None:
    assert load({"TASKYARD_CPUS": cpus}, {}).cpu_millis == millis


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TASKYARD_ADDRESS", "foo", "`foo` is not host:port; write for example 127.0.0.1:9090"),
        ("TASKYARD_TOKEN", "a\nb", "is a secret: character 2 of 3 is U\\+000A.*`taskyard token`"),
        ("TASKYARD_TOKEN", "töken", "is a secret: character 2 of 5 is U\\+00F6"),
        ("TASKYARD_TOKEN", "a b", "character 2 of 3 is U\\+0020"),
        ("TASKYARD_TOKEN", " a\x7f\n", "character 2 of 2 is U\\+007F"),
        ("TASKYARD_CONCURRENCY", "0", "greater than or equal to 1"),
        ("TASKYARD_CONCURRENCY", "many", "valid integer"),
        ("TASKYARD_CPUS", "-1", "greater than or equal to 0.*half a core.*0: none"),
        ("TASKYARD_CPUS", "1000.1", "less than or equal to 1000"),
        ("TASKYARD_CPUS", "nan", "TASKYARD_CPUS is 'nan'"),
        ("TASKYARD_CPUS", "500m", "valid number.*0.5: half a core"),
        ("TASKYARD_CPUS", "1.2345", "counted to a thousandth; write 1.234"),
        ("TASKYARD_CPUS", "0.0001", "counted to a thousandth; write 0.001"),
        ("TASKYARD_MEMORY_MB", "-1", "greater than or equal to 0"),
        ("TASKYARD_MEMORY_MB", "8GiB", "TASKYARD_MEMORY_MB is '8GiB'.*valid integer.*8192: 8 GiB"),
        ("TASKYARD_MEMORY_MB", "100000001", "less than or equal to 100000000"),
        ("TASKYARD_GPUS", "0.5", "valid integer.*Whole GPUs"),
        ("TASKYARD_GPUS", "1001", "less than or equal to 1000"),
        ("TASKYARD_LLM_API_KEY", "sk a", "TASKYARD_LLM_API_KEY is a secret: character 3 of 4 is U\\+0020, and a key"),
        ("TASKYARD_LLM_BASE_URL", "host/v1", "must be an http or https address; write for example http://"),
        ("TASKYARD_LLM_BASE_URL", "http://me:key@host/v1", "more than scheme, host, port and path; the key has"),
        ("TASKYARD_EMBEDDING_MODEL", "small", "without TASKYARD_LLM_BASE_URL nobody computes it"),
        ("TASKYARD_HTTP_PORT", "70000", "less than or equal to 65535"),
        ("TASKYARD_LABELS", "novalue", "'novalue' is no name=value"),
        ("TASKYARD_LOG_LEVEL", "loud", "'debug', 'info'"),
        ("TASKYARD_WORKER_ID", "x" * 201, "at most 200 characters"),
    ],
)
def test_a_wrong_setting_is_named_with_its_rule(variable: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        load({variable: value}, {})
    assert variable in str(caught.value) or "label" in str(caught.value)


ADDRESSES = [
    "127.0.0.1:9090", "localhost:1", "a-b.example:65535", "[::1]:9090", " host:9090 \n",
    "foo", "http://127.0.0.1:9090", "127.0.0.1:9090/", ":9090", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
    "127.0.0.1:99999", "127.0.0.1:port", "127.0.0.1:-1", "::1:9090", "[x]:9090", "a b:9090", "a:1,b:2",
    "h:٣", "\n", ":",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_good_for_the_worker_when_it_is_for_the_other_commands(address: str) -> None:
    try:
        expected = GrpcTransport(address, None).address
    except ClientInvalidInput:
        expected = None
    if expected is None:
        with pytest.raises(SettingsError, match=r"TASKYARD_ADDRESS is .* is not host:port"):
            load({}, {"address": address})
    else:
        assert load({"TASKYARD_ADDRESS": address}, {}).address == expected


@pytest.mark.parametrize("token", ["a.b-c_d~", " a\n", "", "a b", "a\tb", "\x7f", "ab\0", "é", "a\udcff", "\u2028a"])
def test_a_token_is_good_for_the_worker_when_it_is_for_the_other_commands(token: str) -> None:
    expected = refusal = ""
    try:
        expected = clean_token(token)
    except BadToken as error:
        refusal = str(error)
    if refusal:
        with pytest.raises(SettingsError, match=re.escape(f"TASKYARD_TOKEN is a secret: {refusal}")):
            load({"TASKYARD_TOKEN": token}, {})
    else:
        assert load({"TASKYARD_TOKEN": token}, {}).token.get_secret_value() == expected


def test_white_space_around_a_token_does_not_count() -> None:
    assert load({"TASKYARD_TOKEN": " a.b.c\r\n"}, {}).token.get_secret_value() == "a.b.c"
    assert load({"TASKYARD_TOKEN": "\n"}, {}).token.get_secret_value() == ""


def test_a_token_is_shown_nowhere() -> None:
    assert "secret-token" not in repr(load({"TASKYARD_TOKEN": "secret-token"}, {}))
    with pytest.raises(SettingsError) as caught:
        load({"TASKYARD_TOKEN": "secret-token\0"}, {})
    assert "secret-token" not in str(caught.value)


# --- endpoints -------------------------------------------------------------------------------------


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if not request.endswith(b"\r\n\r\n"):
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_endpoints_answer() -> None:
    metrics, reason = WorkerMetrics(), ["no stream"]
    metrics.observe("work", TASK_STATUS_SUCCESS, 0.05)
    metrics.observe("work", TASK_STATUS_SUCCESS, 0.5)
    metrics.observe("work", TASK_STATUS_FAILED, 99)
    endpoints = Endpoints(metrics, lambda: reason[0])
    port = await endpoints.start("127.0.0.1", 0)
    try:
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        not_ready = await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert not_ready.startswith(b"HTTP/1.1 503")
        assert b"no stream" in not_ready
        reason[0] = ""
        assert (await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        figures = (await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")).decode()
        name = "workflow_task_duration_seconds"
        assert f'{name}_bucket{{le="0.1",status="SUCCESS",task_type="work"}} 1.0' in figures
        assert f'{name}_bucket{{le="0.5",status="SUCCESS",task_type="work"}} 2.0' in figures
        assert f'{name}_bucket{{le="30.0",status="FAILED",task_type="work"}} 0.0' in figures
        assert f'{name}_count{{status="FAILED",task_type="work"}} 1.0' in figures
        assert f'{name}_sum{{status="SUCCESS",task_type="work"}} 0.55' in figures
        head = await ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")
        assert (await ask(port, b"POST /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 405")
        assert (await ask(port, b"GET /other HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await ask(port, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert (await ask(port, b"x" * 100_000)).startswith(b"HTTP/1.1 400")
        assert await ask(port, b"GET /healthz") == b""
    finally:
        await endpoints.close()


# --- loops and the watchdog ------------------------------------------------------------------------


async def test_loops_end_with_the_first_and_cancel_the_others() -> None:
    loops, cancelled = Loops(), []

    async def fails() -> None:
        raise LinkError("X", "", "the first to end")

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def starts_last() -> None:
        await asyncio.sleep(0)
        await fails()

    loops.add("lasts", lasts)
    loops.add("fails", starts_last)
    with pytest.raises(LinkError, match="the first to end"):
        await loops.run()
    assert cancelled == [True]


async def test_a_loop_that_stands_still_is_started_anew() -> None:
    loops, log, again = Loops(), Silent(), Signal()
    starts: list[int] = []

    async def stuck() -> None:
        starts.append(1)
        again()
        if len(starts) < 3:
            await asyncio.Event().wait()

    watchdog = Watchdog(log, limit_s=0.02, period_s=0.01)
    watchdog.watch(Watched("stuck", lambda: True, lambda: 0, loops.restart))
    loops.add("stuck", stuck)
    loops.add("watchdog", watchdog.run)
    async with asyncio.timeout(5):
        await loops.run()
    assert len(starts) == 3
    assert log.said("a loop stands still")


def test_a_loop_without_work_or_with_progress_is_left_alone() -> None:
    progress = [0]
    watched = Watched("x", lambda: True, lambda: progress[0], print)
    assert not watched.stuck(0, 10)
    assert not watched.stuck(9, 10)
    progress[0] = 1
    assert not watched.stuck(19, 10)
    assert watched.stuck(29, 10)
    assert not watched.stuck(30, 10)
    watched.has_work = lambda: False
    assert not watched.stuck(99, 10)


async def test_a_handler_that_holds_the_loop_is_named() -> None:
    log = Silent()
    guard = LoopGuard(log, warn_s=0.05)
    guard.start()
    try:
        hold_the_loop(log)
    finally:
        guard.close()
    _, event, facts = log.events[0]
    assert "the event loop is held by hold_the_loop (" in event
    assert isinstance(facts["stack"], list)
    assert "hold_the_loop" in facts["stack"][0], "the innermost call comes first"


def hold_the_loop(log: Silent) -> None:
    end = time.monotonic() + 5  # no Python function, which would be the innermost call now and then
    while not log.events and time.monotonic() < end:
        pass


# --- retries ---------------------------------------------------------------------------------------


async def test_calls_are_repeated_only_for_what_may_pass_and_within_the_deadline() -> None:
    async def tried(*errors: LinkError, timeout: float = 5.0) -> tuple[int, str]:
        left, limits = list(errors), []

        async def call(limit: float) -> str:
            limits.append(limit)
            if left:
                raise left.pop(0)
            return "ok"

        try:
            answer = await with_retries("Heartbeat", call, timeout, Random(1))
        except LinkError as error:
            answer = f"{error.code}: {error.message}"
        assert limits == sorted(limits, reverse=True)
        return len(limits), answer

    down = LinkError("UNAVAILABLE", "", "down")
    full = LinkError("RESOURCE_EXHAUSTED", "", "full", retry_after=0.01)
    assert await tried(down, full) == (3, "ok")
    assert await tried(*[down] * 9) == (4, "UNAVAILABLE: Heartbeat: down")
    assert await tried(LinkError("RESOURCE_EXHAUSTED", "", "full")) == (1, "RESOURCE_EXHAUSTED: Heartbeat: full")
    assert await tried(LinkError("NOT_FOUND", "", "who")) == (1, "NOT_FOUND: Heartbeat: who")
    assert await tried(down, down, timeout=0.05) == (1, "UNAVAILABLE: Heartbeat: down")


# --- built-in types --------------------------------------------------------------------------------


async def test_sleep_takes_numbers_and_refuses_the_rest() -> None:
    assert await sleep(0) == {"slept_seconds": 0.0}
    assert await sleep("0.001") == {"slept_seconds": 0.001}
    for wrong in (-1, "x", None, True, float("nan"), float("inf"), 1e12):
        with pytest.raises(InvalidInput, match="'seconds' is"):
            await sleep(wrong)


def test_a_sleep_of_no_length_never_waits() -> None:
    with pytest.raises(StopIteration) as ended:
        sleep(0).send(None)
    assert ended.value.value == {"slept_seconds": 0.0}


def test_text_process_wraps_the_operations() -> None:
    assert text_process({"text": "  a   b ", "operation": "clean"}) == {"result": "a b"}
    with pytest.raises(InvalidInput, match="operation"):
        text_process({"text": "x", "operation": "translate"})
    with pytest.raises(InvalidInput, match="text"):
        text_process({})


def work() -> None: ...


def test_llm_call_is_offered_where_there_is_an_endpoint() -> None:
    def names(**settings: str) -> set[str]:
        return {handler.name for handler in builtin_handlers(Mock(), {}, load(settings, {}))}

    without = {"shell", "sleep", "replay", "text_process", "http", "embedding", "index", "search"}
    assert names() == without
    environ = {"TASKYARD_LLM_BASE_URL": "http://127.0.0.1:1/v1", "TASKYARD_EMBEDDING_MODEL": "small"}
    assert names(**environ) == without | {"llm_call"}
    with pytest.raises(RegistrationError, match=r"'llm_call' .it needs an endpoint, set TASKYARD_LLM_BASE_URL.; known"):
        offered(TaskRegistry(), [], ["llm_call"])


def test_a_key_is_never_shown() -> None:
    settings = load({"TASKYARD_LLM_BASE_URL": "http://host/v1", "TASKYARD_LLM_API_KEY": "sk-secret"}, {})
    assert "sk-secret" not in repr(settings)


def test_a_worker_offers_what_it_is_told_to() -> None:
    own = TaskRegistry()
    own.task("mine")(work)
    own.task("sleep")(work)
    builtin = [make_handler("sleep", sleep), make_handler("text_process", text_process)]
    everything = offered(own, builtin, None)
    sleeping = everything.get("sleep")
    assert {handler.name for handler in everything} == {"mine", "sleep", "text_process"}
    assert sleeping is not None
    assert sleeping.function is work
    assert [handler.name for handler in offered(own, builtin, ["text_process"])] == ["text_process"]
    with pytest.raises(RegistrationError, match="no handler for task type 'other'; known here: mine, sleep"):
        offered(own, builtin, ["other"])
    with pytest.raises(RegistrationError, match="would offer no task type"):
        offered(TaskRegistry(), [], None)


def test_output_becomes_lines_and_a_tail() -> None:
    lines: list[str] = []
    reader = OutputReader(lines.extend)
    for part in (b"one\r\ntw", b"o\n\xff", b"\n", b"y" * 150_000, b"\nlast"):
        reader.feed(part)
    reader.finish()
    assert lines[:3] == ["one", "two", "\ufffd"]
    assert [len(line) for line in lines[3:]] == [65536, 65536, 18928, 4]
    assert reader.tail.endswith("\nlast")
    assert len(reader.tail) == 8192
