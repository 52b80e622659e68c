"""Private servers for tests and benchmarks: each on its own data directory and port, ended by its owner.

Where the server's program is missing, the tests that ask for it are skipped by name; nothing is ever
downloaded, and a server that runs on the machine already is never touched.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
LOOPBACK = "127.0.0.1"
PORTS = range(16_000, 32_000)
"""Below what the kernel gives to outgoing connections: nothing takes one between `free_port` and the server's start."""
SHARES = 8
"""Into how many parts PORTS falls, one for each process that shares a run (tests/shares.py)."""


def find_program(*names: str) -> str | None:
    """Returns the path of the first of `names` that is installed; distributions keep servers in sbin."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def own_ports() -> Iterator[int]:
    """Yields this process' share of PORTS round and round, from a random one: other runs beside it begin elsewhere."""
    share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % SHARES
    numbers = PORTS[share::SHARES]
    begin = secrets.randbelow(len(numbers))
    return itertools.cycle([*numbers[begin:], *numbers[:begin]])


_ports = own_ports()


def free_port() -> int:
    """Returns a TCP port on loopback that nobody listens on now, and that no other process of this run is given."""
    return next(port for port in _ports if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


class ServerProcess:
    """A server in a process of its own that can be stopped, killed and started again on the same data.

    Its output goes to `server.log` in its directory.
    """

    def __init__(self, command: list[str], directory: Path, port: int) -> None:
        """Only remembers; `start` starts.

        Args:
            command: program and arguments; must listen on `port`.
            directory: where the log goes; must exist.
            port: TCP port on loopback.
        """
        self.command = command
        self.directory = directory
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process and returns when it accepts connections.

        Raises:
            RuntimeError: it ended, or accepted none within START_TIMEOUT_S; carries the end of its log.
        """
        # A test run that is killed takes its servers with it, where there is util-linux.
        setpriv = find_program("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
        with (self.directory / "server.log").open("ab") as log:
            command = [*prefix, *self.command]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._accepts():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.command[0]} did not start:\n{self.log_tail()}")
            time.sleep(0.05)  # another program's start has no signal that we could wait on

    def _accepts(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """Ends the process as its operator would, and waits for its end; harmless when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process with SIGKILL, as a power cut would, and waits for its end."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def log_tail(self) -> str:
        """Returns the last lines that the server wrote."""
        return "\n".join((self.directory / "server.log").read_text(errors="replace").splitlines()[-20:])


class MariaDB(ServerProcess):
    """A private MariaDB with the durability that production has; root needs no password."""

    def __init__(self, directory: Path, *options: str) -> None:
        """Creates the data directory, which takes some seconds.

        Args:
            directory: an empty or missing directory for data, log and socket.
            options: further options of mariadbd, such as `--max-connections=20`.

        Raises:
            FileNotFoundError: MariaDB is not installed.
        """
        server, installer = find_program("mariadbd"), find_program("mariadb-install-db")
        if server is None or installer is None:
            raise FileNotFoundError("mariadbd or mariadb-install-db is not installed")
        directory.mkdir(parents=True, exist_ok=True)
        data = directory / "data"
        # MariaDB refuses to run as root unless told that this is meant.
        user = ["--user=root"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [installer, "--no-defaults", *user, f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{installer} failed:\n{done.stdout}{done.stderr}")
        port = free_port()
        command = [
            server, "--no-defaults", *user, f"--datadir={data}", f"--socket={directory / 'server.sock'}",
            f"--bind-address={LOOPBACK}", f"--port={port}", f"--pid-file={directory / 'server.pid'}",
            "--innodb-flush-log-at-trx-commit=1", "--character-set-server=utf8mb4",
            "--collation-server=utf8mb4_bin", "--skip-name-resolve", *options,
        ]  # fmt: skip
        super().__init__(command, directory, port)
        self._numbers = itertools.count(1)

    def connect(self) -> pymysql.Connection:
        """Returns a connection as root, to no database, that commits by itself; the caller closes it."""
        return pymysql.connect(host=LOOPBACK, port=self.port, user="root", autocommit=True)

    def create_database(self) -> str:
        """Creates an empty database with a name of its own and returns its SQLAlchemy URL."""
        name = f"taskyard_{next(self._numbers)}"
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {name}")
        finally:
            connection.close()
        return f"mysql+pymysql://root@{LOOPBACK}:{self.port}/{name}"


class Redis(ServerProcess):
    """A private Redis that keeps nothing on disk."""

    def __init__(self, directory: Path, *options: str) -> None:
        """Prepares; `start` starts.

        Args:
            directory: working directory, made if missing.
            options: further options of redis-server, such as `--maxmemory`, `64mb`.

        Raises:
            FileNotFoundError: Redis is not installed.
        """
        server = find_program("redis-server", "valkey-server")
        if server is None:
            raise FileNotFoundError("redis-server is not installed")
        directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        keep_nothing = ["--save", "", "--appendonly", "no"]
        command = [server, "--bind", LOOPBACK, "--port", str(port), *keep_nothing, *options]
        super().__init__(command, directory, port)

    @property
    def url(self) -> str:
        """The address as redis-py takes it."""
        return f"redis://{LOOPBACK}:{self.port}/0"


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """One MariaDB for the whole run; a test that stops or kills its server makes a MariaDB of its own."""
    try:
        server = MariaDB(tmp_path_factory.mktemp("mariadb"))
    except FileNotFoundError as missing:
        pytest.skip(f"needs MariaDB: {missing}")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mariadb_url(mariadb: MariaDB) -> str:
    """The URL of one database that all tests of the run share."""
    return mariadb.create_database()


@pytest.fixture
def mariadb_database(mariadb: MariaDB) -> str:
    """The URL of an empty database that is this test's alone."""
    return mariadb.create_database()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """One Redis for the whole run."""
    try:
        server = Redis(tmp_path_factory.mktemp("redis"))
    except FileNotFoundError as missing:
        pytest.skip(f"needs Redis: {missing}")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_url(redis_server: Redis) -> str:
    """The URL of a Redis that all tests of the run share."""
    return redis_server.url
