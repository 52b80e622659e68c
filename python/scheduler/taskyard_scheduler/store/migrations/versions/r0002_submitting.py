"""Start and expiry, tags, and variables.

What it adds may be NULL, so that a scheduler of the release before goes on writing rows without it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mysql_row_format": "DYNAMIC",
}
_NAME = sa.String(255)
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_BIG = sa.BigInteger()


def upgrade() -> None:
    """Adds the columns and makes the table.

    Where the database commits each statement by itself, an upgrade that was killed is taken up where it was: what
    exists already is left as it is.
    """
    _add("instances", "expire_at", _BIG)
    _add("instances", "tags", _TEXT)
    _add("runs", "start_at", _BIG)
    _add("runs", "expire_at", _BIG)
    _add("runs", "tags", _TEXT)
    _add("runs", "variables_json", _LARGE)
    if not sa.inspect(op.get_bind()).has_table("variables"):
        op.create_table(
            "variables",
            sa.Column("tenant", _NAME, nullable=False, autoincrement=False),
            sa.Column("name", _NAME, nullable=False, autoincrement=False),
            sa.Column("variable", _BYTES, nullable=False),
            sa.Column("updated_at", _BIG, nullable=False),
            sa.PrimaryKeyConstraint("tenant", "name"),
            **_MYSQL,
        )


def _add(table: str, name: str, kind: sa.types.TypeEngine[Any]) -> None:
    present = sa.inspect(op.get_bind()).get_columns(table)
    if all(column["name"] != name for column in present):
        op.add_column(table, sa.Column(name, kind, nullable=True))
