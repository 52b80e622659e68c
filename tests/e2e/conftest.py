"""Fixtures of the tests on real processes, and the logs of every process of a test that failed."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from e2e.site import Site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site on SQLite; nothing runs yet."""
    built = Site(tmp_path)
    yield built
    await built.close()


@pytest.fixture
async def maria_site(tmp_path: Path, mariadb_database: str) -> AsyncIterator[Site]:
    """A site on a MariaDB database of its own; nothing runs yet."""
    built = Site(tmp_path, mariadb_database)
    yield built
    await built.close()


@pytest.fixture(scope="module")
def shared_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A scheduler and a worker for a whole module whose tests break nothing."""
    built = Site(tmp_path_factory.mktemp("shared"))

    async def start() -> None:
        try:
            await built.start_scheduler()
            await built.start_worker("shared-worker")
        finally:
            await built.leave()

    try:
        asyncio.run(start())
        yield built
    finally:
        asyncio.run(built.close())


@pytest.fixture
async def shared_site(shared_processes: Site) -> AsyncIterator[Site]:
    """The module's site, with clients of this test's own."""
    yield shared_processes
    await shared_processes.leave()


@pytest.fixture(params=["sqlite", "mariadb"])
def any_site(request: pytest.FixtureRequest) -> Site:
    """A site on each kind of database."""
    found: Site = request.getfixturevalue("site" if request.param == "sqlite" else "maria_site")
    return found


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random moments, whose seed is printed; `E2E_SEED=n` repeats it."""
    seed = int(os.environ.get("E2E_SEED", "0")) or secrets.randbits(32)
    print(f"E2E_SEED={seed}")
    return random.Random(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        for each in item.funcargs.values():
            if isinstance(each, Site):
                report.sections.append(("processes", each.logs()))
    return report
