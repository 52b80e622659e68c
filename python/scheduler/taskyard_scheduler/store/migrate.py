"""Brings a database's schema up to date with the migrations of this release. Its caller holds the lock.

Migrations expand first and contract in a later release, so that a scheduler of the release before works on
the new schema until it is replaced.

Alembic takes longer to load than everything else of a start, so it is loaded when a migration is due: not for a
database at the newest revision, and not for an empty one, whose schema is made from the tables.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taskyard_scheduler.store.tables import CLUSTER, METADATA

HEAD: Final = "0005"
"""The newest revision. A test holds it together with the migrations."""

VERSIONS: Final = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, as it makes it: which revisions the database has."""


def migrate(connection: Connection) -> None:
    """Applies the migrations that are missing, and makes the cluster's row.

    Raises:
        SchemaTooNew: the database has a revision that this release does not know.
    """
    present = _table_names(connection)
    if not present & {VERSIONS.name, *METADATA.tables}:
        _create(connection)
    elif not _is_at_head(connection, present):
        # Here, since few starts have a migration to make, and Alembic takes long to load.
        from taskyard_scheduler.store.upgrade import upgrade

        upgrade(connection)
        record_release(connection)


def record_release(connection: Connection) -> None:
    """Writes which release brought the schema here; makes the cluster's row when there is none."""
    release = version("taskyard-scheduler")
    if not connection.execute(sa.update(CLUSTER).values(schema_version=release)).rowcount:
        first = {"id": 1, "term": 0, "revision": 0, "holder": "", "term_started_at": 0, "election": ""}
        connection.execute(sa.insert(CLUSTER).values(**first, schema_version=release))


def _table_names(connection: Connection) -> set[str]:
    return set(sa.inspect(connection).get_table_names())


def _is_at_head(connection: Connection, tables: set[str]) -> bool:
    """Tells whether nothing is to be done: the newest revision and no other, and the cluster's row."""
    if VERSIONS.name not in tables or CLUSTER.name not in tables:
        return False
    revisions = set(connection.scalars(sa.select(VERSIONS.c.version_num)))
    return revisions == {HEAD} and connection.scalar(sa.select(sa.func.count()).select_from(CLUSTER)) == 1


def _create(connection: Connection) -> None:
    """Makes the schema of an empty database from the tables.

    The revision comes last. Where each statement commits by itself, a start that was killed before it leaves tables
    without a revision, and the migrations make what is missing.
    """
    METADATA.create_all(connection, checkfirst=False)
    record_release(connection)
    VERSIONS.create(connection, checkfirst=False)
    connection.execute(sa.insert(VERSIONS).values(version_num=HEAD))
