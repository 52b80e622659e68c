"""What a scheduler says at its start. Any database password can be used, and none comes into a message or traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from urllib.parse import quote

import pymysql
import pytest
from sqlalchemy.engine import URL, make_url

from taskyard_scheduler.main import EXIT_CANNOT_START, EXIT_SETTINGS
from taskyard_scheduler.store import open_store
from taskyard_scheduler.store.mysql_lock import NamedLock
from taskyard_scheduler.store.open import shown
from taskyard_scheduler.store.port import StoreError, StoreUnavailable

PASSWORDS = ["hunter2", "p@ss/w:rd", "a@b@c:d", "#?%&=+ *", "%40literal", "'quo\"ted\\", "pässwörd", "пароль", "🔑🔑"]
MAIN = "import sys; from taskyard_scheduler.main import main; sys.exit(main())"


def address(url: str, user: str, password: str) -> str:
    """Returns the address with this user, as a person would write it."""
    found = make_url(url)
    return (
        f"mysql+pymysql://{quote(user, safe='')}:{quote(password, safe='')}"
        f"@{found.host}:{found.port or 3306}/{found.database}"
    )


def run_scheduler(url: str, folder: Path, **settings: str) -> tuple[int, str]:
    """Returns the exit code of a scheduler that cannot start, and all that it said."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
    environ |= {"TASKYARD_SECRET": "x" * 40, "TASKYARD_DATA": str(folder), "TASKYARD_DATABASE": url}
    environ |= {"TASKYARD_GRPC_PORT": "0", "TASKYARD_HTTP_PORT": "0", "TASKYARD_LOG_LEVEL": "debug"}
    environ |= {f"TASKYARD_{name.upper()}": value for name, value in settings.items()}
    ended = subprocess.run(
        [sys.executable, "-c", MAIN], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def assert_hidden(text: str, password: str) -> None:
    for form in (password, quote(password, safe=""), quote(password), repr(password)[1:-1], ascii(password)[1:-1]):
        assert form not in text


@pytest.mark.parametrize("password", PASSWORDS)
async def test_a_server_that_refuses_is_told_without_the_password(mariadb_database: str, password: str) -> None:
    store = open_store(address(mariadb_database, "nobody", password))
    with pytest.raises(StoreError, match="user or password is wrong") as caught:
        await store.open()
    await store.close()
    assert not isinstance(caught.value, StoreUnavailable)
    assert_hidden("".join(traceback.format_exception(caught.value)), password)


@pytest.mark.parametrize("password", PASSWORDS)
def test_the_lock_of_the_election_tells_it_neither(mariadb_database: str, password: str) -> None:
    lock = NamedLock(address(mariadb_database, "nobody", password), "leader")
    with pytest.raises(StoreUnavailable, match="Access denied") as caught:
        lock.acquire(0)
    assert_hidden("".join(traceback.format_exception(caught.value)), password)


@pytest.mark.parametrize("password", PASSWORDS)
async def test_any_password_can_be_used(mariadb_database: str, password: str) -> None:
    found = make_url(mariadb_database)
    assert found.host
    with pymysql.connect(host=found.host, port=found.port or 3306, user=found.username, autocommit=True) as session:
        with session.cursor() as cursor:
            cursor.execute("CREATE OR REPLACE USER odd@'%%' IDENTIFIED BY %s", (password,))
            cursor.execute(f"GRANT ALL ON `{found.database}`.* TO odd@'%'")
    store = open_store(address(mariadb_database, "odd", password))
    await store.open()
    await store.close()


@pytest.mark.parametrize("password", PASSWORDS[::4])
def test_a_scheduler_that_cannot_connect_does_not_show_it(tmp_path: Path, password: str) -> None:
    code, said = run_scheduler(address("mysql://127.0.0.1:1/ty", "theuser", password), tmp_path)
    assert code == EXIT_CANNOT_START
    assert "mysql+pymysql://theuser:***@127.0.0.1:1/ty" in said
    assert_hidden(said, password)


def test_a_scheduler_whom_the_server_refuses_does_not_show_it(mariadb_database: str, tmp_path: Path) -> None:
    code, said = run_scheduler(address(mariadb_database, "nobody", "p@ss/w:rd"), tmp_path)
    assert code == EXIT_CANNOT_START
    assert "Access denied" in said
    assert_hidden(said, "p@ss/w:rd")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("mysql+pymysql://u:hun/ter2@127.0.0.1:1/ty", EXIT_SETTINGS),
        ("mysql+pymysql://u:hunter2@x@127.0.0.1:1/ty", EXIT_SETTINGS),
        ("mysql+pymysql://u:hunter2/ty", EXIT_CANNOT_START),  # without a host, the password is read as a port
        ("mysql+pymysql://u:hunter2", EXIT_CANNOT_START),
        ("mysql+pymysql://u:x@127.0.0.1:hunter2/ty", EXIT_CANNOT_START),
        ("u:hunter2@127.0.0.1/ty", EXIT_CANNOT_START),
        ("postgresql://u:hunter2@127.0.0.1/ty", EXIT_CANNOT_START),
        ("mysql+pymysql://u:hunter2@127.0.0.1:1", EXIT_CANNOT_START),
        ("mysql+pymysql://u@127.0.0.1:1/ty?password=hunter2", EXIT_CANNOT_START),
        ("mysql+pymysql://u@127.0.0.1:1/ty?passwd=hunter2", EXIT_CANNOT_START),
        ("mysql+pymysql://u@127.0.0.1:1/ty?init_command=hunter2", EXIT_CANNOT_START),
    ],
)
def test_an_address_that_is_not_as_it_should_be_shows_nothing_either(url: str, code: int, tmp_path: Path) -> None:
    ended, said = run_scheduler(url, tmp_path)
    assert ended == code
    assert "ter2" not in said
    assert "Traceback" not in said
    assert "127.0.0.1" not in said or code == EXIT_CANNOT_START


def test_what_is_shown_of_an_address() -> None:
    url = URL.create("mysql+pymysql", "u", "p@ss", "h", 3306, "ty", {"a": "b"}).render_as_string(hide_password=False)
    assert shown(url) == "mysql+pymysql://u:***@h:3306/ty"
    assert shown("sqlite:////home/x/taskyard.db") == "sqlite:////home/x/taskyard.db"
    assert shown("hunter2") == shown("mysql+pymysql://u:hunter2/ty") == "(cannot be read)"


@pytest.mark.parametrize("lease", ["6", "7"])
def test_a_start_warns_of_a_lease_that_is_short_for_exclusive_tasks(lease: str, tmp_path: Path) -> None:
    code, said = run_scheduler("sqlite://", tmp_path, lease_s=lease, heartbeat_interval_s="1")
    assert code == EXIT_CANNOT_START
    assert ("the lease is short for exclusive tasks" in said) is (lease == "6")
