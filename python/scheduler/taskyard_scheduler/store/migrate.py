"""Brings a database's schema up to date with the migrations of this release. Its caller holds the lock.

Migrations expand first and contract in a later release, so that a scheduler of the release before works on
the new schema until it is replaced.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from taskyard_scheduler.store.port import SchemaTooNew
from taskyard_scheduler.store.tables import CLUSTER

SCRIPTS: Final = Path(__file__).parent / "migrations"


def migrate(connection: Connection) -> None:
    """Applies the migrations that are missing, and makes the cluster's row.

    Raises:
        SchemaTooNew: the database has a revision that this release does not know.
    """
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    present = MigrationContext.configure(connection).get_current_heads()
    known = {script.revision for script in scripts.walk_revisions()}
    if unknown := sorted(set(present) - known):
        raise SchemaTooNew(_too_new(connection, unknown[0], scripts.get_current_head()))
    if set(present) != set(scripts.get_heads()):
        command.upgrade(config, "head")
        _record(connection)


def _record(connection: Connection) -> None:
    release = version("taskyard-scheduler")
    if not connection.execute(sa.update(CLUSTER).values(schema_version=release)).rowcount:
        first = {"id": 1, "term": 0, "revision": 0, "holder": "", "term_started_at": 0, "election": ""}
        connection.execute(sa.insert(CLUSTER).values(**first, schema_version=release))


def _too_new(connection: Connection, found: str, newest: str | None) -> str:
    try:
        maker = connection.scalar(sa.text("SELECT schema_version FROM cluster"))
    except DBAPIError:  # a future schema may have no such table; the revision says enough
        maker = None
    made_by = f"Taskyard {maker}" if maker else "a newer Taskyard"
    mine = version("taskyard-scheduler")
    return (
        f"the database was made by {made_by} (schema {found}), and this is {mine}, which"
        f" knows schemas up to {newest}: upgrade this scheduler, or restore a backup from before the upgrade"
    )
