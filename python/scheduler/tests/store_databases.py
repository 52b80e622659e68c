"""Databases for the store's tests that are emptied instead of made anew, which takes longer than a test."""

from __future__ import annotations

import sqlalchemy as sa

from taskyard_scheduler.store.tables import CLUSTER, METADATA


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
