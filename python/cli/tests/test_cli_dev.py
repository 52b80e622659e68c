"""`taskyard dev`: makes its files, waits until all is ready, restarts what died, stops everything, and says so."""

from __future__ import annotations

import fcntl
import json
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import jwt
import psutil
import pytest
from cli_served import Cli

from taskyard_cli.dev import supervisor
from taskyard_cli.dev.earlier import earlier_worker
from taskyard_cli.dev.environment import Plan
from taskyard_cli.dev.lines import readable
from taskyard_cli.dev.place import Place
from taskyard_cli.exits import CliError, Exit
from taskyard_cli.token_command import Role

HERE = Path(__file__).parent
PATIENCE_S = 60.0
SOON_S = 8.0
"""Less than a worker waits for a scheduler that may come back; on an idle machine it takes one or two seconds."""


class Dev:
    """A running `taskyard dev` whose output can be waited for."""

    def __init__(self, data: Path, *options: str, fake: bool = True, **environ: str) -> None:
        paths = [str(HERE / "fakes"), str(HERE.parents[1] / "client" / "tests")] if fake else []
        environment = os.environ | environ | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taskyard_cli", "dev", "--data", str(data), "--port", "0", "--http-port", "0",
             *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._coming: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._coming.put(line.rstrip())
        self._coming.put(None)

    def until(self, text: str) -> str:
        """Returns the next line with this text."""
        while True:
            line = self._coming.get(timeout=PATIENCE_S)
            assert line is not None, f"ended without saying {text!r}: {self.lines}"
            self.lines.append(line)
            if text in line:
                return line

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Sends a signal and returns the exit code, once the last line is read."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        while (line := self._coming.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
        return self.process.wait(PATIENCE_S)


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, PATIENCE_S)
    return not alive


Start = Callable[..., Dev]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Dev] = []

    def begin(*options: str, data: Path = tmp_path / "d", **environ: str) -> Dev:
        running.append(Dev(data, *options, **environ))  # type: ignore[arg-type]
        return running[-1]

    yield begin
    for each in running:
        with suppress(psutil.NoSuchProcess):
            for child in [*each.children(), psutil.Process(each.process.pid)]:
                child.kill()
        each.process.wait()
        assert each.process.stdout is not None
        each._reader.join(PATIENCE_S)
        each.process.stdout.close()


def test_it_starts_says_what_it_started_and_stops_in_order(start: Start) -> None:
    dev = start("--workers", "2", "--concurrency", "3")
    dev.until("Taskyard is ready.")
    dev.until("Ctrl-C stops everything.")
    said = "\n".join(dev.lines)
    left = json.loads((dev.data / "cli.json").read_text())
    assert f"gRPC     {left['address']}" in said
    assert "workers  id-of-worker-1, id-of-worker-2" in said
    assert f"export TASKYARD_DATA={dev.data}" in said
    assert "worker-1  | 19:43:07 INFO    worker started pid=" in said
    children = dev.children()
    assert len(children) == 3
    assert dev.end() == 0
    assert gone(children)
    ends = [line for line in dev.lines if "stopped" in line]
    assert [line.split()[0] for line in ends][-1] == "scheduler"
    assert len(ends) == 3


def test_secrets_are_for_their_owner_only_and_workers_get_none(start: Start) -> None:
    dev = start("--workers", "1", TASKYARD_SECRET="of-the-shell")
    dev.until("is ready")
    for name in ("secret", "cli.json"):
        assert (dev.data / name).stat().st_mode & 0o077 == 0
    secret = (dev.data / "secret").read_text()
    left = json.loads((dev.data / "cli.json").read_text())
    assert jwt.decode(left["token"], secret, algorithms=["HS256"])["role"] == "admin"
    told = json.loads((dev.data / "worker-1" / "told.json").read_text())
    assert "TASKYARD_SECRET" not in told
    assert told["TASKYARD_ADDRESS"] == left["address"]
    assert jwt.decode(told["TASKYARD_TOKEN"], secret, algorithms=["HS256"])["role"] == "worker"
    dev.end()


def test_workers_offer_what_is_said_and_else_what_the_environment_says(start: Start) -> None:
    dev = start("--workers", "1", "--cpus", "0.5", "--memory-mb", "512", TASKYARD_CPUS="8", TASKYARD_GPUS="2")
    dev.until("is ready")
    told = json.loads((dev.data / "worker-1" / "told.json").read_text())
    assert (told["TASKYARD_CPUS"], told["TASKYARD_MEMORY_MB"], told["TASKYARD_GPUS"]) == ("0.5", "512", "2")
    assert "TASKYARD_CONCURRENCY" not in told
    dev.end()


@pytest.mark.parametrize("wrong", [("--cpus", "-1"), ("--memory-mb", "8G"), ("--gpus", "0.5")])
def test_an_offer_that_cannot_be_is_refused_before_anything_starts(
    wrong: tuple[str, str], cli: Cli, tmp_path: Path
) -> None:
    shown = cli("dev", "--data", str(tmp_path / "d"), *wrong)
    assert shown.exit_code == Exit.USAGE
    assert wrong[0] in shown.stderr
    assert not (tmp_path / "d").exists()


def test_one_directory_has_one_owner_at_a_time(start: Start) -> None:
    first = start("--workers", "0")
    first.until("is ready")
    secret = (first.data / "secret").read_text()
    second = start("--workers", "0")
    assert second.wait() == Exit.REFUSED
    (said,) = second.lines
    assert said.startswith(f"error: the data directory {first.data} is in use by another `taskyard dev` (process ")
    assert f"(process {first.process.pid}); stop that one, or give another directory with --data" in said
    first.end()
    third = start("--workers", "0")
    third.until("is ready")
    assert (third.data / "secret").read_text() == secret
    third.end()


def test_a_scheduler_that_cannot_start_is_told_with_a_way_out(start: Start) -> None:
    dev = start(FAKE_SCHEDULER_EXIT="68")
    assert dev.wait() == Exit.FAILED
    assert "scheduler | the port is taken" in dev.lines
    assert dev.lines[-1] == (
        "error: the scheduler ended (exit code 68); its last lines are above; "
        "--port 0 and --http-port 0 take free ports"
    )


@pytest.mark.usefixtures("clean_environment")
def test_a_database_that_is_damaged_is_no_matter_of_ports(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "real"
    data.mkdir(mode=0o700)
    (data / "taskyard.db").write_bytes(b"this is no database, and it is long enough to look at" * 200)
    dev = start("--workers", "1", data=data, fake=False)
    assert dev.wait() == Exit.FAILED
    assert dev.lines[-1] == "error: the scheduler ended (exit code 69); its last lines are above"


@pytest.mark.usefixtures("clean_environment")
def test_a_port_that_is_taken_has_a_way_out(start: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        dev = start("--workers", "1", "--http-port", port, data=tmp_path / "real", fake=False)
        assert dev.wait() == Exit.FAILED
    assert dev.lines[-1].endswith(
        "(exit code 68); its last lines are above; --port 0 and --http-port 0 take free ports"
    )


def test_all_files_of_handlers_are_loaded(start: Start, tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.touch()
    dev = start("--workers", "1", "--tasks", str(files[0]), "--tasks", str(files[1]))
    dev.until("is ready")
    told = json.loads((dev.data / "worker-1" / "told.json").read_text())
    assert told["TASKYARD_TASKS"] == f"{files[0]},{files[1]}"
    dev.end()


def test_a_file_of_handlers_whose_name_would_be_two_is_refused(cli: Cli, tmp_path: Path) -> None:
    (file := tmp_path / "a,b.py").touch()
    shown = cli("dev", "--data", str(tmp_path / "d"), "--tasks", str(file))
    assert shown.exit_code == Exit.USAGE
    assert "comma" in shown.stderr


def test_a_disk_that_takes_no_more_is_said_with_what_it_did_not_take(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "d"
    with Place(data):
        pass  # makes what is small; the file for the command is longer
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    soft = 150
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    try:
        dev = start("--workers", "1", data=data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert dev.wait() == Exit.NOT_WRITTEN
    said = f"error: {data / 'cli.json.part'} cannot be written: File too large; make room there and try again"
    assert dev.lines[-1] == said


@pytest.mark.parametrize("who", ["worker-1", "scheduler"])
def test_who_is_frozen_stops_too(start: Start, who: str) -> None:
    dev = start("--workers", "1")
    dev.until("is ready")
    psutil.Process(int((dev.data / f"{who}.pid").read_text())).suspend()
    assert dev.end() == 0
    assert not any("waiting for" in line for line in dev.lines)


def test_a_scheduler_that_dies_ends_it_all(start: Start) -> None:
    dev = start("--workers", "1")
    dev.until("is ready")
    children = dev.children()
    psutil.Process(json.loads((dev.data / "scheduler.json").read_text())["pid"]).kill()
    assert dev.wait() == Exit.FAILED
    assert dev.lines[-1].startswith("error: the scheduler ended (killed by SIGKILL)")
    assert gone(children)


def test_a_worker_that_cannot_work_is_not_started_again_and_again(start: Start) -> None:
    dev = start("--workers", "1", FAKE_WORKER_EXIT="73")
    assert dev.wait() == Exit.FAILED
    assert dev.lines[-1] == "error: worker-1 ended: its token is refused; its last lines are above"


def test_a_worker_that_died_is_started_again(start: Start) -> None:
    dev = start("--workers", "1")
    dev.until("is ready")
    psutil.Process(int((dev.data / "worker-1" / "pid").read_text())).kill()
    dev.until("worker-1 ended (killed by SIGKILL); it is started again in 1 s")
    dev.until("worker started")
    assert dev.end(signal.SIGTERM) == 0


def test_a_process_that_a_task_left_running_is_not_waited_for(start: Start) -> None:
    """It has the worker's output open, and its input, and may have them for ever."""
    dev = start("--workers", "1", FAKE_WORKER_LEAVES="1")
    dev.until("is ready")
    left = psutil.Process(int((dev.data / "worker-1" / "left").read_text()))
    try:
        assert dev.end() == 0
        assert any("worker stopped" in line for line in dev.lines)
        assert left.is_running()
        assert not any("waiting for" in line for line in dev.lines)
    finally:
        left.kill()


def test_a_log_that_cannot_be_kept_ends_nothing(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "d"
    data.mkdir(mode=0o700)
    (data / "worker-1.log").symlink_to("/dev/full")
    dev = start("--workers", "1", data=data)
    dev.until(f"lines are shown here and not kept in {data / 'worker-1.log'}: No space left on device")
    dev.until("worker started")
    dev.until("is ready")
    assert dev.end() == 0
    assert sum("not kept in" in line for line in dev.lines) == 1


def test_children_go_when_it_is_killed(start: Start) -> None:
    dev = start("--workers", "1")
    dev.until("is ready")
    children = dev.children()
    dev.process.kill()
    assert gone(children)


@pytest.mark.usefixtures("clean_environment")
def test_with_the_real_services(start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dev = start("--workers", "1", data=tmp_path / "real", fake=False)
    dev.until("is ready")
    monkeypatch.setenv("TASKYARD_DATA", str(dev.data))
    shown = cli("submit", "shell", "--param", "command=echo hi", "--wait", "--timeout", "30s")
    assert json.loads(shown.stdout)["stdout_tail"] == "hi\n"
    assert "SUCCESS" in cli("tasks").stdout
    assert cli("explain", "no-such").exit_code in {Exit.NOT_FOUND, Exit.REFUSED}
    assert dev.end() == 0


def kill_the_scheduler(dev: Dev) -> None:
    psutil.Process(json.loads((dev.data / "scheduler.json").read_text())["pid"]).kill()


@pytest.mark.usefixtures("clean_environment")
def test_a_scheduler_that_is_gone_is_not_waited_for(
    start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a worker that has a result which nobody has acknowledged: it hands that in the next time."""
    dev = start("--workers", "1", data=tmp_path / "real", fake=False)
    dev.until("is ready")
    monkeypatch.setenv("TASKYARD_DATA", str(dev.data))
    os.mkfifo(began := tmp_path / "began")
    os.mkfifo(go := tmp_path / "go")
    task = cli("submit", "shell", "--param", f"command=echo >{began}; cat {go}").stdout.strip()
    began.read_text()  # returns when the task has written
    psutil.Process(json.loads((dev.data / "scheduler.json").read_text())["pid"]).suspend()
    go.write_text("done")
    spool = dev.data / "worker-1" / "workers" / "1" / "spool"
    deadline = time.monotonic() + PATIENCE_S
    while not any(path.stat().st_size for path in spool.glob("*.spool")):  # another process writes it
        assert time.monotonic() < deadline
    killed = time.monotonic()
    kill_the_scheduler(dev)
    assert dev.wait() == Exit.FAILED
    assert time.monotonic() - killed < SOON_S
    assert any("results stay in the spool" in line for line in dev.lines)
    again = start("--workers", "1", data=dev.data, fake=False)
    again.until("is ready")
    cli("logs", "-f", task)  # returns when the task has ended
    found = json.loads(cli("task", "show", task, "-o", "json").stdout)["task"]
    assert (found["status"], found["attempt"]) == ("TASK_STATUS_SUCCESS", 1)
    assert again.end() == 0


@pytest.mark.usefixtures("clean_environment")
def test_who_still_works_as_it_stops_is_named(
    start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = start("--workers", "1", data=tmp_path / "real", fake=False)
    dev.until("is ready")
    monkeypatch.setenv("TASKYARD_DATA", str(dev.data))
    os.mkfifo(began := tmp_path / "began")
    task = cli("submit", "shell", "--param", f"command=echo >{began}; sleep 1000").stdout.strip()
    began.read_text()  # returns when the task has written
    kill_the_scheduler(dev)
    assert task in dev.until("draining active=1")
    dev.until("waiting for worker-1 to finish what runs there")
    assert dev.end() == Exit.FAILED
    assert any("killing what still runs" in line for line in dev.lines)


@pytest.mark.parametrize("made", [True, False], ids=["in a folder that was there", "in a folder of its own"])
def test_nobody_else_can_read_what_tasks_carry(
    start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    data = tmp_path / "real"
    if made:
        data.mkdir(mode=0o755)
    umask = os.umask(0o022)
    try:
        dev = start("--workers", "1", data=data, fake=False)
    finally:
        os.umask(umask)
    dev.until("is ready")
    monkeypatch.setenv("TASKYARD_DATA", str(data))
    cli("submit", "shell", "--param", "command=echo hi; umask", "--wait", "--timeout", "30s")
    left = {str(path.relative_to(data)): path for path in data.rglob("*") if path.is_file()}
    assert {"taskyard.db", "taskyard.db-wal", "scheduler.log", "worker-1.log"} <= left.keys()
    assert [name for name, path in left.items() if path.stat().st_mode & 0o077] == []
    assert made or data.stat().st_mode & 0o777 == 0o700
    shown = cli("submit", "shell", "--param", "command=umask", "--wait", "--timeout", "30s")
    assert json.loads(shown.stdout)["stdout_tail"] == "0022\n", "what tasks write is as readable as their worker says"
    assert dev.end() == 0


def test_a_missing_file_of_handlers_is_said_before_anything_starts(cli: Cli, tmp_path: Path) -> None:
    shown = cli("dev", "--data", str(tmp_path / "d"), "--tasks", "/no/such.py")
    assert shown.exit_code == Exit.NOT_FOUND
    assert "there is no file /no/such.py" in shown.stderr
    assert not (tmp_path / "d").exists()


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        assert len(place.secret) == 64
        assert jwt.decode(place.token(Role.VIEWER), place.secret, algorithms=["HS256"])["role"] == "viewer"
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(CliError, match="others can read"), Place(tmp_path):
        pass
    (tmp_path / "secret").chmod(0o600)
    with Place(tmp_path):
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CliError, match="cannot be used: Not a directory"), Place(tmp_path / "file" / "below"):
        pass


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred", "␛[31mred"),
        ('{"no": "event"}', '{"no": "event"}'),
        ("[1]", "[1]"),
        (
            '{"event": "listening", "level": "info", "time": "2026-11-29T19:43:07Z", "port": 9090, "component": "x"}',
            "19:43:07 INFO    listening port=9090",
        ),
        (
            '{"event": "failed", "level": "error", "exception": [{"exc_type": "ValueError", "exc_value": "bad"}]}',
            "ERROR   failed (ValueError: bad)",
        ),
        ('{"event": "failed", "exception": "Traceback\\n  x\\nKeyError: 1"}', "INFO    failed (KeyError: 1)"),
    ],
)
def test_log_lines_for_people(line: str, shown: str) -> None:
    assert readable(line) == shown


@pytest.mark.usefixtures("clean_environment")
def test_a_task_that_ran_when_it_was_killed_runs_once(
    start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed one's worker finishes it and keeps the result; the next one's takes it over, in the same place."""
    data, seen = tmp_path / "real", tmp_path / "seen"
    first = start("--workers", "1", data=data, fake=False)
    first.until("is ready")
    monkeypatch.setenv("TASKYARD_DATA", str(data))
    os.mkfifo(began := tmp_path / "began")
    command = f"echo start >>{seen}; echo >{began}; sleep 5; echo end >>{seen}"
    task = cli("submit", "shell", "--param", f"command={command}").stdout.strip()
    began.read_text()  # returns when the task has written
    worker = int((data / "worker-1.pid").read_text())
    first.process.kill()
    first.process.wait()
    second = start("--workers", "1", data=data, fake=False)
    assert f"`taskyard dev` that was killed (process {worker}), which finishes its tasks" in second.until(
        "worker-1 waits"
    )
    second.until("is ready")
    cli("logs", "-f", task)  # returns when the task has ended
    found = json.loads(cli("task", "show", task, "-o", "json").stdout)
    told = (found["task"]["status"], found["task"]["attempt"], len(found["attempts"]))
    assert told == ("TASK_STATUS_SUCCESS", 1, 1)
    assert seen.read_text() == "start\nend\n"
    assert second.end() == 0


def hold(path: Path, pid: str = "") -> int:
    """Locks a file as a service does that was left running; returns the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, pid.encode())
    return lock


def test_each_waits_for_its_own_predecessor_and_the_others_start(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "d"
    scheduler, worker = hold(data / "taskyard.db.lock", "77\n"), hold(data / "worker-2" / "workers" / "1" / "lock")
    (data / "scheduler.pid").write_text("77\n")
    dev = start("--workers", "2", data=data)
    said = dev.until("scheduler waits for")
    assert "(process 77), which still holds the database: at most 25 s, Ctrl-C ends it" in said
    assert len(dev.children()) == 0
    os.close(scheduler)
    while not all(any(word in line for line in dev.lines) for word in ("worker-2 waits", "worker started")):
        dev.until("worker")  # in whichever order
    assert not (data / "worker-2" / "alive").exists()
    os.close(worker)
    dev.until("is ready")
    assert "(process unknown), which finishes its tasks" in "\n".join(dev.lines)
    assert (data / "worker-2.pid").read_text().strip() == (data / "worker-2" / "pid").read_text()
    assert dev.end() == 0


@pytest.mark.parametrize("sign", ["workers/1/lock", "workers/1/spool/000000000001.spool", ""])
def test_results_that_nobody_would_hand_in_are_said(start: Start, tmp_path: Path, sign: str) -> None:
    """One worker was asked for after two: the second one's place is nobody's."""
    data = tmp_path / "d"
    (data / "worker-2" / "workers" / "1" / "spool").mkdir(parents=True)
    lock = hold(data / "worker-2" / sign) if sign else os.open(os.devnull, os.O_RDONLY)
    dev = start("--workers", "1", data=data)
    dev.until("is ready")
    said = "what they are of runs again, unless you start with --workers 2 once" in "\n".join(dev.lines)
    assert said is bool(sign)
    assert dev.end() == 0
    os.close(lock)


@pytest.mark.parametrize("held", ["taskyard.db.lock", "worker-1/workers/1/lock"])
def test_ctrl_c_ends_the_wait(start: Start, tmp_path: Path, held: str) -> None:
    lock = hold(tmp_path / "d" / held)
    dev = start("--workers", "1", data=tmp_path / "d")
    dev.until(" waits for the one of a `taskyard dev` that was killed")
    children = dev.children()
    assert dev.end() == 0
    assert gone(children)
    assert not (tmp_path / "d" / "worker-1" / "alive").exists()
    os.close(lock)


def test_somebody_else_who_holds_the_database_is_not_waited_for(start: Start, tmp_path: Path) -> None:
    """A scheduler that was started by hand does not end by itself: ours tells who it is."""
    lock = hold(tmp_path / "d" / "taskyard.db.lock", "78\n")
    (tmp_path / "d" / "scheduler.pid").write_text("77\n")
    dev = start("--workers", "0", data=tmp_path / "d")
    dev.until("is ready")
    assert "waits" not in "\n".join(dev.lines)
    assert dev.end() == 0
    os.close(lock)


async def test_a_wait_in_vain_ends_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LIMIT_S", 0.2)
    lock = hold(tmp_path / "worker-1" / "workers" / "1" / "lock")
    said: list[str] = []
    with Place(tmp_path) as place:
        running = supervisor.Supervisor(place, Plan(1, (), None, 0, 0), {}, lambda name, line: None, said.append)
        await running._gone(earlier_worker(tmp_path, 1))
    assert said[1] == (
        "worker-1 starts although the earlier one (process unknown) still runs after 25 s; "
        "what it has finished may run again"
    )
    os.close(lock)


def test_who_comes_while_it_stops_is_told_so(start: Start, tmp_path: Path) -> None:
    with Place(tmp_path / "d") as place:
        place.tell_stopping(40)
        second = start("--workers", "0")
        assert second.wait() == Exit.REFUSED
    (said,) = second.lines
    assert f"is in use by a `taskyard dev` that is stopping (process {os.getpid()}), which takes at most 40 s" in said
    with Place(tmp_path / "d"):
        third = start("--workers", "0")
        assert third.wait() == Exit.REFUSED
    assert "another `taskyard dev`" in third.lines[0]


def test_it_says_itself_that_it_stops(start: Start) -> None:
    dev = start("--workers", "1")
    dev.until("is ready")
    dev.process.send_signal(signal.SIGINT)
    dev.until("stopping")
    assert (dev.data / "dev.lock").read_text().split()[1:] == ["40"]
    assert dev.wait() == 0
