"""What is held back by hand.

A scheduler of the release before does not read it, so it sends what is held back; it leaves the table as it is.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
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


def upgrade() -> None:
    """Makes the table, unless an upgrade that was killed has."""
    if sa.inspect(op.get_bind()).has_table("pauses"):
        return
    op.create_table(
        "pauses",
        sa.Column("tenant", _NAME, nullable=False, autoincrement=False),
        sa.Column("scope", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("name", _NAME, nullable=False, autoincrement=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("paused_by", _NAME, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "scope", "name"),
        **_MYSQL,
    )
