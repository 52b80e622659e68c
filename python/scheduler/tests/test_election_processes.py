"""Elections between processes: what the kernel and the server do when a leader dies or stands still."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from servers import MariaDB

from taskyard_scheduler.election import open_election
from taskyard_scheduler.election.database import DatabaseElection
from taskyard_scheduler.store.mysql_lock import NamedLock

LEADER = """
import asyncio, sys
from pathlib import Path
from taskyard_scheduler.election import open_election

async def main():
    election = open_election(sys.argv[1], url=sys.argv[2], data=Path(sys.argv[3]))
    await election.campaign()
    print("leading", flush=True)
    await election.lost()
    print("lost", flush=True)
    await election.resign()

asyncio.run(main())
"""


@contextmanager
def other_leader(kind: str, url: str, data: Path) -> Iterator[subprocess.Popen[str]]:
    """Runs a process that leads."""
    command = [sys.executable, "-c", LEADER, kind, url, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "leading\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["local", "database"])
async def test_a_killed_leader_is_followed(
    kind: Literal["local", "database"], mariadb_url: str, tmp_path: Path
) -> None:
    mine = open_election(kind, url=mariadb_url, data=tmp_path)
    with other_leader(kind, mariadb_url, tmp_path) as leader:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(mine.campaign(), 0.5)
        leader.kill()
        await asyncio.wait_for(mine.campaign(), 5)
    await mine.resign()


async def test_a_leader_that_stands_still_is_followed_and_learns_it(mariadb_url: str, tmp_path: Path) -> None:
    mine = open_election("database", url=mariadb_url, data=tmp_path)
    with other_leader("database", mariadb_url, tmp_path) as leader:
        leader.send_signal(signal.SIGSTOP)
        await asyncio.wait_for(mine.campaign(), 8)  # the session's timeout is 3 s
        leader.send_signal(signal.SIGCONT)
        assert leader.stdout is not None
        assert await asyncio.to_thread(leader.stdout.readline) == "lost\n"
        assert await asyncio.to_thread(leader.wait, 10) == 0
    await mine.resign()


async def test_a_leader_loses_with_its_server_and_wins_with_it(tmp_path: Path, mariadb: MariaDB) -> None:
    server = MariaDB(tmp_path / "server")
    server.start()
    url = server.create_database()
    election = open_election("database", url=url, data=tmp_path)
    try:
        await election.campaign()
        server.kill()
        await asyncio.wait_for(election.lost(), 5)
        async with asyncio.TaskGroup() as group:
            group.create_task(election.campaign(), name="campaign")
            await asyncio.to_thread(server.start)
    finally:
        await election.resign()
        server.stop()


async def test_a_connection_that_is_killed_loses(mariadb: MariaDB) -> None:
    url = mariadb.create_database()
    election = DatabaseElection(lambda: NamedLock(url, "leader"))
    await election.campaign()
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT IS_USED_LOCK(%s)", (f"taskyard.leader.{url.rsplit('/', 1)[1]}",))
        [(thread,)] = cursor.fetchall()
        cursor.execute(f"KILL {int(thread)}")
    await asyncio.wait_for(election.lost(), 5)
    await election.resign()


def test_databases_of_one_server_have_leaders_of_their_own(mariadb: MariaDB) -> None:
    first, second = (NamedLock(mariadb.create_database(), "leader") for _ in range(2))
    assert first.acquire(0)
    assert second.acquire(0)
    assert first.is_held()
    first.close()
    assert not first.is_held()
    second.close()
