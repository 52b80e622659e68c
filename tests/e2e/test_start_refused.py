"""What a scheduler refuses to start with: each time a sentence that says the way out, and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from e2e.process import Process
from e2e.site import Site


def told(process: Process) -> str:
    """Returns what it said, without a traceback."""
    text = process.text()
    assert "Traceback" not in text, text
    return text


async def test_a_second_scheduler_on_the_same_sqlite_file(site: Site, tmp_path: Path) -> None:
    first = await site.start_scheduler()
    second = site.launch_scheduler("second", port=1, settings={"TASKYARD_GRPC_PORT": "0", "TASKYARD_HTTP_PORT": "0"})
    assert await second.wait() == 69
    assert str(first.pid) in told(second)  # it says who holds it
    assert first.code is None
    assert site.http("/readyz").status == 200


async def test_a_database_from_a_newer_version(any_site: Site) -> None:
    scheduler = await any_site.start_scheduler()
    assert await scheduler.terminate() == 0
    database = any_site.database()
    database.run("UPDATE alembic_version SET version_num = 'r9999'")
    database.run("UPDATE cluster SET schema_version = '99.0.0'")
    database.close()
    late = any_site.launch_scheduler("late")
    assert await late.wait() == 69
    assert "99.0.0" in told(late)
    assert "upgrade" in told(late)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"TASKYARD_GRPC_PORT": "99999"}, "TASKYARD_GRPC_PORT"),
        ({"TASKYARD_GRPC_PORT": "many"}, "TASKYARD_GRPC_PORT"),
        ({"TASKYARD_LEASE_S": "-1"}, "TASKYARD_LEASE_S"),
        ({"TASKYARD_SYNCHRONOUS": "OFF"}, "TASKYARD_SYNCHRONOUS"),
    ],
)
async def test_a_setting_that_breaks_its_rule(site: Site, settings: dict[str, str], named: str) -> None:
    process = site.launch_scheduler(settings=settings)
    assert await process.wait() == 64
    assert named in told(process)


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "postgresql://x/y",
        "sqlite://",
        "mysql+pymysql://root:hunter2@127.0.0.1:1/none",
        "sqlite:////proc/x/y",
    ],
)
async def test_a_database_that_cannot_be_opened(site: Site, url: str) -> None:
    process = site.launch_scheduler(settings={"TASKYARD_DATABASE": url})
    assert await process.wait() == 69
    assert "hunter2" not in told(process)


async def test_a_port_that_is_taken(site: Site) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = site.launch_scheduler(settings={"TASKYARD_GRPC_PORT": str(taken.getsockname()[1])})
        assert await process.wait() == 68
        assert str(taken.getsockname()[1]) in told(process)


async def test_a_data_directory_that_is_a_file(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    process = site.launch_scheduler(settings={"TASKYARD_DATA": str(file)})
    assert await process.wait() == 69
    assert str(file) in told(process)


async def test_a_file_that_is_no_database(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "no.db"
    file.write_bytes(b"this is no database, and it is long enough to look at" * 200)
    process = site.launch_scheduler(settings={"TASKYARD_DATABASE": f"sqlite:///{file}"})
    assert await process.wait() == 69
    assert "no.db" in told(process)
    assert file.read_bytes().startswith(b"this is no database")
