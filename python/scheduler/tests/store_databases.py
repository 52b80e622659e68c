"""The stores that the conformance suite runs on, one line each, and the databases under them.

A database server's is emptied instead of made anew, which takes longer than a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.open import open_store
from taskyard_scheduler.store.port import Store
from taskyard_scheduler.store.tables import CLUSTER, METADATA

Make = Callable[[], Store]
"""Makes one more store, not yet open, on the same database."""


def sqlite(request: pytest.FixtureRequest) -> Make:
    directory: Path = request.getfixturevalue("tmp_path")
    return lambda: open_store(f"sqlite:///{directory / 'taskyard.db'}")


def memory(request: pytest.FixtureRequest) -> Make:
    database = MemoryDatabase()
    return lambda: MemoryStore(database)


def mysql(request: pytest.FixtureRequest) -> Make:
    url: str = request.getfixturevalue("shared_mariadb")
    empty_database(url)
    return lambda: open_store(url)


@dataclass(frozen=True)
class StoreKind:
    """One implementation of the port: how a test gets an empty database, and whether several may open it at once."""

    prepare: Callable[[pytest.FixtureRequest], Make]
    shared: bool = True


STORES: Final = {
    "sqlite": StoreKind(sqlite, shared=False),  # one process holds a SQLite file
    "memory": StoreKind(memory),
    "mysql": StoreKind(mysql),
}
"""By the name in a test's id; a line more, and every promise of the port is asked of one store more."""

SHARED_STORES: Final = [name for name, kind in STORES.items() if kind.shared]


def empty_database(url: str) -> None:
    """Takes out every row; the schema stays, if it is there already."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        if not sa.inspect(connection).has_table(CLUSTER.name):
            return
        for table in METADATA.sorted_tables:
            if table is not CLUSTER:
                connection.execute(sa.delete(table))
        connection.execute(sa.update(CLUSTER).values(term=0, revision=0, holder="", election=""))
