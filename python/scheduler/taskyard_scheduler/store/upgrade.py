"""Runs the migrations with Alembic. Loaded only when one is due; whether it is, `migrate` says."""

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

SCRIPTS: Final = Path(__file__).parent / "migrations"


def upgrade(connection: Connection) -> None:
    """Applies the migrations that are missing.

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
    command.upgrade(config, "head")


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
