"""Exit codes and sentences: what goes wrong is said once, in words, with a way out, and never as a traceback."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
import typer
from cli_served import Cli, Served
from scripted_faults import Fault
from typer.testing import CliRunner

import taskyard_client as ty
from taskyard.v1 import tasks_pb2
from taskyard_cli import connection, fleet_commands, services
from taskyard_cli.connection import find_target
from taskyard_cli.exits import CliError, Exit, exit_of
from taskyard_cli.guard import tell
from taskyard_cli.main import build

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("fault", "code", "says"),
    [
        (Fault(grpc.StatusCode.PERMISSION_DENIED, "a viewer may not", "ROLE"), Exit.NOT_ALLOWED, "a viewer may not"),
        (Fault(grpc.StatusCode.UNAUTHENTICATED, "the token has expired", "TOKEN"), Exit.NOT_ALLOWED, "taskyard token"),
        (Fault(grpc.StatusCode.NOT_FOUND, "there is no task x", "X"), Exit.NOT_FOUND, "there is no task x"),
        (Fault(grpc.StatusCode.INVALID_ARGUMENT, "b", "X", violations={"f": "is bad"}), Exit.REFUSED, "f: is bad"),
        (Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "X"), Exit.NOT_REACHABLE, "full"),
        (Fault(grpc.StatusCode.INTERNAL, "boom"), Exit.UNEXPECTED, "its log says more"),
    ],
)
def test_what_the_scheduler_says(fault: Fault, code: Exit, says: str, at: Cli, served: Served) -> None:
    served.server.script("GetTask", fault)
    shown = at("task", "show", "x")
    assert shown.exit_code == code
    assert shown.stdout == ""
    assert shown.stderr.startswith("error: ")
    assert shown.stderr.count("\n") == 1
    assert says in shown.stderr


class HttpPort:
    """Answers every connection as an HTTP/1 server does that is asked in HTTP/2, or with some other bytes."""

    def __init__(self, answer: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> HttpPort:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # which ends the accept
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(self._answer)


HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def test_the_http_port_is_told_from_that_of_grpc(cli: Cli, tmp_path: Path) -> None:
    with HttpPort(HTTP_ANSWER) as port:
        shown = cli("status", "--address", port.address)
        assert shown.exit_code == Exit.NOT_REACHABLE
        assert f"{port.address} answers in HTTP: this is the HTTP port; gRPC is on another, 9090" in shown.stderr
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "cli.json").write_text('{"address": "127.0.0.1:9123", "token": "t"}')
        known = cli("status", env={"TASKYARD_ADDRESS": port.address})
        assert "this is the HTTP port; gRPC is on 127.0.0.1:9123: give that as --address" in known.stderr
        (tmp_path / "data" / "cli.json").write_text(json.dumps({"address": port.address}))
        assert "gRPC is on another" in cli("status").stderr


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n", b"", b"HTT"])
def test_what_is_no_http_port_is_not_called_one(answer: bytes, cli: Cli) -> None:
    with HttpPort(answer) as port:
        shown = cli("status", "--address", port.address)
    assert shown.exit_code == Exit.NOT_REACHABLE
    assert f"not reachable at {port.address}: is it running?" in shown.stderr


def test_who_can_be_reached_is_not_asked_for_its_port(at: Cli, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(address: str) -> bool:
        raise AssertionError(address)

    monkeypatch.setattr(connection, "speaks_http", asked)
    assert at("status").exit_code == Exit.OK
    served.server.script("GetClusterStatus", *[Fault(grpc.StatusCode.UNAVAILABLE, "it follows", "NOT_LEADER")] * 4)
    assert at("status").exit_code == Exit.NOT_REACHABLE


def test_every_error_of_the_client_has_a_code() -> None:
    def kinds(kind: type[ty.TaskyardError]) -> list[type[ty.TaskyardError]]:
        return [kind, *(each for below in kind.__subclasses__() for each in kinds(below))]

    wanted = {
        ty.NotFound: 4, ty.Gone: 4, ty.InvalidInput: 3, ty.RequestIdReused: 3, ty.AlreadyExists: 3, ty.WrongState: 3,
        ty.AlreadyEnded: 3, ty.PermissionDenied: 6, ty.Unauthenticated: 6, ty.Unavailable: 5, ty.Overloaded: 5,
        ty.ClientClosed: 5, ty.DeadlineExceeded: 7, ty.ServerError: 70, ty.TaskyardError: 70,
    }  # fmt: skip
    for kind in kinds(ty.TaskyardError):
        if kind not in {ty.TaskFailed, ty.RunFailed}:
            assert exit_of(kind("x")) == wanted[kind], kind
    assert exit_of(ValueError()) is None


def test_a_call_without_an_answer_is_no_wait_that_timed_out() -> None:
    error = ty.DeadlineExceeded("x")
    error.method = "TaskService.GetTask"
    assert exit_of(error) == Exit.NOT_REACHABLE


def test_nobody_there(cli: Cli) -> None:
    shown = cli("tasks", "--address", "127.0.0.1:1")
    assert shown.exit_code == Exit.NOT_REACHABLE
    assert "not reachable at 127.0.0.1:1: is it running? `taskyard dev` starts one" in shown.stderr
    unknown = cli("tasks")
    assert unknown.exit_code == Exit.NOT_REACHABLE
    assert "give --address or TASKYARD_ADDRESS, or start one here with `taskyard dev`" in unknown.stderr


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("submit",), ("submit", "x", "--priority", "high"), ("submit", "x", "-p", "novalue"),
     ("submit", "x", "-p", "a=1", "-p", "a=2"), ("submit", "x", "--run-timeout", "5"), ("tasks", "-n", "0"),
     ("submit", "x", "--priority", "0"), ("submit", "x", "--priority", "99999999999999999999"),
     ("submit", "x", "--attempts", "101"), ("run", "x", "--priority", "11"), ("run", "x", "--version", "3000000000"),
     ("workflow", "show", "x", "--version", "3000000000"), ("logs", "x", "--attempt", "3000000000"),
     ("logs",), ("token",), ("run",), ("submit", "x", "--cpus", "-1"), ("submit", "x", "--cpus", "0.0005"),
     ("submit", "x", "--gpus", "1.5"), ("submit", "x", "--retry-jitter", "2"), ("submit", "x", "--retry-delay", "5")],
)  # fmt: skip
def test_a_wrong_command_line_is_2(arguments: tuple[str, ...], at: Cli) -> None:
    shown = at(*arguments)
    assert shown.exit_code == Exit.USAGE
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("submit", "x", "--timeout", "3s"), "--timeout means nothing without --wait: add that, or limit the task"),
        (("run", "x", "--timeout", "3s"), "--timeout means nothing without --wait: add that, or limit the steps"),
        (("logs", "x", "-f", "--attempt", "2"), "--attempt shows one attempt and --follow all of them"),
        (("logs", "x", "-f", "--attempt", "0"), "--attempt shows one attempt and --follow all of them"),
        (("runs", "--state", "FAILED", "show", "x"), "--state in front of `show` means nothing"),
        (("runs", "-o", "json", "show", "x"), "--output in front of `show` means nothing"),
        (("runs", "--address", "127.0.0.1:1", "show", "x"), "--address in front of `show` means nothing"),
        (("dev", "--workers", "0", "--gpus", "0"), "--gpus is for workers, and --workers 0 starts none"),
        (("dev", "--workers", "0", "--tasks", __file__), "--tasks is for workers, and --workers 0 starts none"),
    ],
)  # fmt: skip
def test_an_option_that_would_do_nothing_is_refused_by_name(
    arguments: tuple[str, ...], says: str, at: Cli, served: Served
) -> None:
    shown = at(*arguments)
    assert shown.exit_code == Exit.USAGE
    assert shown.stderr.startswith(f"error: {says}")
    assert served.wire.calls == []


def empty_values() -> list[tuple[str, ...]]:
    """Returns a command line for each value that any command takes, with that value empty."""
    found: list[tuple[str, ...]] = []
    waiting: list[tuple[Any, tuple[str, ...]]] = [(typer.main.get_command(build()), ())]
    while waiting:
        command, path = waiting.pop()
        waiting += [(each, (*path, name)) for name, each in getattr(command, "commands", {}).items()]
        if path in {("scheduler",), ("worker",)}:
            continue  # their arguments are their own
        arguments = [param for param in command.params if param.param_type_name == "argument"]
        for param in command.params:
            if param in arguments:
                found.append((*path, *("" if each is param else "x" for each in arguments)))
            elif not param.is_flag:
                found.append((*path, *("x" for _ in arguments), max(param.opts, key=len), ""))
    return sorted(found)


@pytest.mark.parametrize("arguments", empty_values(), ids=" ".join)
def test_an_empty_value_is_refused_everywhere(arguments: tuple[str, ...], at: Cli, served: Served) -> None:
    shown = at(*arguments)
    if arguments[-2] == "--reason":
        # None is given: that is what it says.
        assert {getattr(call.request, "reason", "") for call in served.wire.calls} <= {""}
        assert "is empty" not in shown.stderr
        return
    assert shown.exit_code in {Exit.USAGE, Exit.REFUSED}
    assert "is empty" in shown.stderr or "''" in shown.stderr or '""' in shown.stderr
    assert served.wire.calls == []


def test_the_walk_over_all_values_finds_them() -> None:
    some = {
        ("explain", ""),
        ("submit", "x", "--key", ""),
        ("cancel", ""),
        ("runs", "show", ""),
        ("token", "--tenant", ""),
    }
    assert some <= set(empty_values())


HALF = r'{"a": "\ud800"}'
DEEP = '{"a": ' + "[" * 5000 + "]" * 5000 + "}"


@pytest.mark.parametrize("option", [("submit", "x", "-i"), ("run", "x", "--inputs"), ("submit", "x", "-p")])
@pytest.mark.parametrize("text", ["", " "])
def test_an_input_that_is_empty_is_called_so(option: tuple[str, ...], text: str, at: Cli, tmp_path: Path) -> None:
    assert "is empty (a shell variable that is not set?)" in at(*option, text).stderr
    (file := tmp_path / "empty").touch()
    if option[-1] != "-p":
        assert f"{file} is empty; a JSON object goes there" in at(*option, f"@{file}").stderr


@pytest.mark.parametrize("text", ["{", "[1]", "5", '{"a": NaN}', '{"a":1,"a":2}', "@/no/such/file", HALF, DEEP])
def test_input_that_is_no_object_is_refused(text: str, at: Cli, served: Served) -> None:
    shown = at("submit", "x", "--input", text)
    assert shown.exit_code == Exit.REFUSED
    assert "--input" in shown.stderr
    assert served.wire.calls == []


@pytest.mark.parametrize(("value", "says"), [(r'"\ud800"', r"\ud800"), ("[" * 5000 + "]" * 5000, "nested too deeply")])
def test_an_input_of_a_run_that_cannot_be_sent_is_refused(value: str, says: str, at: Cli, served: Served) -> None:
    shown = at("run", "x", "--input", f"a={value}")
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr.startswith("error: --input ")
    assert says in shown.stderr
    assert served.wire.calls == []


def test_an_argument_that_is_not_utf8_is_named(served: Served) -> None:
    served.thread.run(served.model.touch())
    command: list[str | bytes] = [sys.executable, "-m", "taskyard_cli", "explain", b"gr\xffeet"]
    command += ["--address", served.server.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == "error: the argument b'gr\\xffeet' is not UTF-8; write it in UTF-8\n"
    assert done.returncode == Exit.USAGE


def test_a_fault_of_the_program_is_one_sentence_and_a_file(at: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(fleet_commands, "with_client", broken)
    shown = CliRunner().invoke(build(), ["status"])
    assert shown.exit_code == Exit.UNEXPECTED
    sentence, path = shown.stderr.strip().rsplit(" ", 1)
    assert sentence == "error: RuntimeError: a fault of this program; the details are in"
    details = Path(path)
    assert "RuntimeError: inside" in details.read_text()
    assert details.stat().st_mode & 0o077 == 0
    details.unlink()


WRITTEN = [
    ("tasks",), ("tasks", "-o", "json"), ("task", "show", "x"), ("logs", "x"), ("logs", "-f", "x", "-o", "json"),
    ("runs",), ("workers", "-o", "json"), ("explain", "x"), ("status",), ("cancel", "x"), ("workflow", "schema"),
    ("--help",), ("--version",), ("tasks", "--help"), ("submit", "sleep"),
]  # fmt: skip


@pytest.mark.parametrize("command", WRITTEN, ids=" ".join)
def test_what_cannot_be_printed_is_said(command: tuple[str, ...], served: Served) -> None:
    """All that prints: tables, JSON, logs, help."""
    model = served.model
    model.tasks["x"] = tasks_pb2.TaskInstance(task_id="x", status=tasks_pb2.TaskStatus.TASK_STATUS_RUNNING)
    model.logs["x"] = [tasks_pb2.StoredLogLine(attempt=1, content=tasks_pb2.LogLine(text="a line"))]
    environ = os.environ | {"TASKYARD_ADDRESS": served.server.address, "TASKYARD_TOKEN": "t"}
    with open("/dev/full", "w") as nowhere:
        done = subprocess.run(
            [sys.executable, "-m", "taskyard_cli", *command],
            env=environ, stdout=nowhere, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert last == (
        "error: the output cannot be written: No space left on device; send it elsewhere, or make room where it goes"
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == Exit.NOT_WRITTEN


def full(path: str | None) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (full("/d/cli.json"), "/d/cli.json cannot be written: No space left on device; make room there and try again"),
        (ExceptionGroup("a", [full("/d/x")]), "/d/x cannot be written: No space"),
        (ExceptionGroup("a", [ValueError(), ExceptionGroup("b", [full("/d/x")])]), "/d/x cannot be written: No space"),
        (ExceptionGroup("a", [ty.NotFound("there is no task x")]), "there is no task x"),
        (ExceptionGroup("a", [KeyError("inside")]), "KeyError: a fault of this program; the details are in"),
    ],
)
def test_what_went_wrong_together_is_told_as_one(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tell(error)
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_a_fault_whose_details_cannot_be_kept_is_said_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/directory")
    assert tell(RuntimeError("inside")) == Exit.UNEXPECTED
    assert capsys.readouterr().err == (
        "error: RuntimeError: a fault of this program; it says 'inside', and the details cannot be kept "
        "(No such file or directory)\n"
    )


def test_ctrl_c_is_130(at: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet_commands, "with_client", interrupted)
    assert CliRunner().invoke(build(), ["status"]).exit_code == Exit.INTERRUPTED


def test_a_reader_that_goes_away_is_no_error(served: Served) -> None:
    served.thread.run(served.model.touch())
    command = f"{sys.executable} -m taskyard_cli workflow schema | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_the_token_that_dev_left_goes_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "cli.json").write_text(json.dumps({"address": "a:1", "token": "dev"}))
    data = {"TASKYARD_DATA": str(tmp_path)}
    assert find_target(None, None, None, data).token == "dev"
    assert find_target("a:1", None, None, data).token == "dev"
    assert find_target("b:1", None, None, data).token is None
    assert find_target(None, None, None, data | {"TASKYARD_ADDRESS": "b:1"}).token is None
    assert find_target(None, None, None, data | {"TASKYARD_TOKEN": "mine"}).token == "mine"
    chosen = find_target("c:1", "option", "ca", data | {"TASKYARD_ADDRESS": "b:1", "TASKYARD_TOKEN": "mine"})
    assert (chosen.address, chosen.token, chosen.ca) == ("c:1", "option", "ca")


def test_a_broken_file_of_dev_is_named(tmp_path: Path, cli: Cli) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "cli.json").write_text("{")
    shown = cli("status")
    assert shown.exit_code == Exit.NOT_REACHABLE
    assert f"{data / 'cli.json'} cannot be read" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("submit", "shell", "--priority", "11"), "'11': it should be less than or equal to 10"),
        (("submit", "shell", "--priority", "x"), "'x'"),
        (("submit", "shell", "--cpus", "nan"), "'nan': it should be less than or equal to 1000"),
        (("token", "--role", "boss"), "'boss' is not one of 'admin'"),
        (("dev", "--workers", "65"), "'65': it should be less than or equal to 64"),
    ],
)
def test_an_options_refusal_names_the_value_and_the_rule(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    shown = cli(*arguments)
    assert shown.exit_code == Exit.USAGE
    words = " ".join(shown.stderr.replace("│", " ").split())
    assert said in words
    assert arguments[-2] in words
    assert "Value error" not in words


def test_the_token_is_sent(at: Cli, served: Served) -> None:
    at("tasks")
    at("tasks", "--token", "other")
    assert [call.token for call in served.wire.calls] == ["Bearer t", "Bearer other"]


UNFIT = ["a\nb", "a\tb", "a b", "a\x01b", "\x7f", "é", "a\u2028b", "\udce9"]


@pytest.mark.parametrize("bad", UNFIT, ids=ascii)
def test_a_token_that_no_call_can_carry_is_refused_by_name_and_not_shown(
    bad: str, at: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = next(at for at, each in enumerate(bad) if not "!" <= each <= "~")
    says = f"character {place + 1} of {len(bad)} is U+{ord(bad[place]):04X}, and a token has only letters"
    option = at("status", "--token", bad)
    assert option.exit_code == Exit.USAGE
    assert option.stderr.startswith(f"error: --token: {says}")
    # What is in the environment does not matter where an option says otherwise.
    with pytest.raises(CliError, match=r"^TASKYARD_TOKEN: character") as caught:
        find_target("a:1", None, None, {"TASKYARD_TOKEN": bad})
    assert caught.value.code == Exit.USAGE
    assert find_target("a:1", "mine", None, {"TASKYARD_TOKEN": bad}).token == "mine"
    assert served.wire.calls == []


@pytest.mark.parametrize("around", ["{}\n", "\n{}", " {}\t", "{}\r\n"], ids=ascii)
def test_white_space_around_a_token_or_an_address_does_not_count(
    around: str, at: Cli, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at("tasks", "--token", around.format("one")).exit_code == 0
    assert at("tasks", "--address", around.format(served.server.address)).exit_code == 0
    monkeypatch.setenv("TASKYARD_TOKEN", around.format("two"))
    monkeypatch.setenv("TASKYARD_ADDRESS", around.format(served.server.address))
    assert at("tasks").exit_code == 0
    assert [call.token for call in served.wire.calls] == ["Bearer one", "Bearer t", "Bearer two"]
    left = {"TASKYARD_TOKEN": around.format(""), "TASKYARD_ADDRESS": "a:1"}
    assert find_target(None, None, None, left).token is None


def test_token_signs_what_the_scheduler_verifies(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_SECRET", SECRET)
    shown = cli("token", "--role", "viewer", "--subject", "me", "--tenant", "t", "--for", "1h")
    claims = jwt.decode(shown.stdout.strip(), SECRET, algorithms=["HS256"])
    assert (claims["sub"], claims["tenantID"], claims["role"]) == ("me", "t", "viewer")
    assert claims["exp"] - claims["iat"] == 3600
    monkeypatch.setenv("TASKYARD_SECRET", "short")
    weak = cli("token")
    assert weak.exit_code == Exit.REFUSED
    assert "has 5 bytes and needs 32" in weak.stderr


def test_token_signs_with_the_secret_that_dev_left(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TASKYARD_SECRET", raising=False)
    monkeypatch.setenv("TASKYARD_DATA", str(tmp_path))
    missing = cli("token")
    assert missing.exit_code == Exit.USAGE
    assert f"`taskyard dev` has left no secret in {tmp_path}" in missing.stderr
    (tmp_path / "secret").mkdir()
    unreadable = cli("token")
    assert unreadable.exit_code == Exit.REFUSED
    assert f"{tmp_path / 'secret'} cannot be read" in unreadable.stderr
    (tmp_path / "secret").rmdir()
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert jwt.decode(cli("token").stdout.strip(), SECRET, algorithms=["HS256"])["role"] == "operator"
    monkeypatch.setenv("TASKYARD_SECRET", SECRET * 2)
    assert jwt.decode(cli("token").stdout.strip(), SECRET * 2, algorithms=["HS256"])["role"] == "operator"


@pytest.mark.parametrize("lifetime", ["0s", "1ms", "999ms", "PT0S"])
def test_no_token_is_made_that_has_ended_already(lifetime: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_SECRET", SECRET)
    shown = cli("token", "--for", lifetime)
    assert (shown.exit_code, shown.stdout) == (Exit.USAGE, "")
    assert shown.stderr == (
        f"error: --for {lifetime}: such a token has ended when it is made; give 1s or more, for example 12h\n"
    )
    claims = jwt.decode(cli("token", "--for", "1s").stdout.strip(), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 1


def test_a_service_that_is_missing_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "entry_points", lambda **_: [])
    shown = cli("worker")
    assert shown.exit_code == Exit.USAGE
    assert shown.stderr == "error: the worker is not installed here: `pip install taskyard-worker`\n"


def test_a_service_gets_its_arguments_and_gives_its_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[list[str]] = []

    def service(arguments: list[str]) -> int:
        got.append(arguments)
        return 71

    class Found:
        @staticmethod
        def load() -> object:
            return service

    monkeypatch.setattr(services, "entry_points", lambda **_: [Found])
    assert cli("worker", "--tasks", "x.py", "--help").exit_code == 71
    assert cli("scheduler").exit_code == 71
    assert got == [["--tasks", "x.py", "--help"], []]


def test_the_help_names_every_exit_code(cli: Cli) -> None:
    shown = " ".join(cli("--help").stdout.split())
    assert all(f" {code.value} " in shown.partition("Exit codes:")[2] for code in Exit)


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version").stdout == "taskyard 0.1.0\n"
    assert cli("-h").exit_code == 0
    for command in ("dev", "submit", "run", "runs", "tasks", "logs", "explain", "workflow", "token"):
        assert cli(command, "--help").exit_code == 0
