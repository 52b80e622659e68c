"""Fixtures of the store's tests; what asks for `store` or `connect` runs on every store of store_databases.STORES."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from servers import MariaDB
from store_databases import STORES
from store_rows import NOW

from taskyard_scheduler.store.port import Store


@pytest.fixture(scope="session")
def shared_mariadb(mariadb: MariaDB) -> str:
    """One database for all tests that empty it first: to make one takes longer than a test."""
    return mariadb.create_database()


@pytest.fixture(params=list(STORES))
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Gives a function that opens one more store on the same, at first empty, database."""
    opened: list[Store] = []
    make = STORES[request.param].prepare(request)

    async def open_one() -> Store:
        store = make()
        opened.append(store)
        await store.open()
        return store

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(connect: Callable[[], Awaitable[Store]]) -> Store:
    """A store whose first term has begun."""
    opened = await connect()
    await opened.begin_term("test", NOW)
    return opened
