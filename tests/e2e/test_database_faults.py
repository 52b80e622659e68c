"""The database goes away under load and comes back; a disk fills up; another process holds the file."""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import MariaDB

from e2e.history import check
from e2e.load import Load
from e2e.process import Process, until
from e2e.site import Site
from taskyard_client import Overloaded, Unavailable, new_task

PROMPT_S = 10.0
"""A third of what a client waits for an answer; on an idle machine it has one after two seconds."""


@pytest.fixture
def own_mariadb(tmp_path: Path) -> Iterator[MariaDB]:
    """A MariaDB that this test may stop and kill."""
    try:
        server = MariaDB(tmp_path / "mariadb")
    except FileNotFoundError as missing:
        pytest.skip(f"needs MariaDB: {missing}")
    server.start()
    yield server
    server.stop()


async def test_mariadb_restarted_under_load(own_mariadb: MariaDB, tmp_path: Path, rng: random.Random) -> None:
    """Stopped as an operator would, and killed: no scheduler or worker is restarted for it."""
    site = Site(tmp_path, own_mariadb.create_database())
    try:
        scheduler = await site.start_scheduler()
        worker = await site.start_worker()
        load = Load(site, rng)

        async def story() -> None:
            for end in rng.sample([own_mariadb.stop, own_mariadb.kill], 2):
                await load.reach(rng.randint(10, 100))
                end()
                await until(lambda: site.http("/readyz").status == 503, what="the scheduler to notice")
                own_mariadb.start()
                await load.reach(40, lambda: load.ended)

        await load.during(story())
        await check(site, load.history)
        assert (scheduler.code, worker.code) == (None, None)
    finally:
        await site.close()


async def test_another_process_holds_the_sqlite_file(site: Site, rng: random.Random) -> None:
    """A backup, say, that locks it for a while: commits wait and go on, nothing is lost, nobody restarts."""
    scheduler = await site.start_scheduler()
    await site.start_worker()
    load = Load(site, rng)

    async def story() -> None:
        await load.reach(rng.randint(10, 60))
        holder = sqlite3.connect(site.data / "taskyard.db", isolation_level=None, timeout=30)
        holder.execute("BEGIN IMMEDIATE")
        await until(lambda: site.http("/readyz").status == 503, what="the scheduler to notice")
        holder.execute("ROLLBACK")
        holder.close()
        await load.reach(40, lambda: load.ended)

    await load.during(story())
    await check(site, load.history)
    assert scheduler.code is None


class Disk:
    """A disk that can be full: a small tmpfs where we may mount one, else a limit on the size of files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self._ballast = folder / "ballast"
        self._limits = (0, 0)

    def fill(self, scheduler: Process) -> None:
        if not self.mounted:
            self._limits = resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, (1, self._limits[1]))
            return
        with self._ballast.open("wb", buffering=0) as file:
            size = 1024 * 1024
            while size >= 512:
                try:
                    file.write(b"x" * size)
                except OSError:
                    size //= 2

    def free(self, scheduler: Process) -> None:
        if self.mounted:
            self._ballast.unlink()
        else:
            resource.prlimit(scheduler.pid, resource.RLIMIT_FSIZE, self._limits)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.close()


async def test_a_full_disk_takes_nothing_by_halves(site: Site, disk: Disk, rng: random.Random) -> None:
    site.data = disk.folder / "data"
    scheduler = await site.start_scheduler()
    worker = await site.start_worker(data=site.folder / "worker-data")
    load = Load(site, rng)

    async def story() -> None:
        await load.reach(60, lambda: load.ended)
        disk.fill(scheduler)
        accepted = load.accepted
        await until(lambda: site.http("/readyz").status == 503, what="the scheduler to notice")
        assert load.accepted - accepted < 200  # what still fitted, and nothing after it
        disk.free(scheduler)
        await load.reach(60, lambda: load.ended)

    await load.during(story())
    await check(site, load.history)
    assert (scheduler.code, worker.code) == (None, None)


async def test_a_full_disk_is_said_to_the_first_who_asks(site: Site, disk: Disk) -> None:
    """Not at the end of their patience; and what they asked for is done once there is room."""
    if not disk.mounted:
        pytest.skip("needs to mount a small disk")
    site.data = disk.folder / "data"
    scheduler = await site.start_scheduler()
    client = site.client()
    asked = new_task("double", {"text": "x" * 100_000}, request_id="first")
    disk.fill(scheduler)
    began = time.monotonic()
    with pytest.raises(Overloaded, match=r"the disk is full: make room.* may still be done once") as caught:
        await client.submit_many([asked])
    assert caught.value.reason == "STORAGE_FULL"
    assert time.monotonic() - began < PROMPT_S
    began = time.monotonic()
    with pytest.raises(Unavailable, match="the disk is full: make room"):
        await client.submit("double", {"number": 2})
    assert time.monotonic() - began < PROMPT_S
    disk.free(scheduler)
    await until(lambda: site.http("/readyz").status == 200, what="the scheduler to go on")
    [outcome] = await client.submit_many([asked])
    assert outcome.error is None
    assert len([task async for task in client.list_tasks()]) == 1
