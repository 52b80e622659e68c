"""What is said of a workflow over its versions: the set it belongs to, and whether it is deleted.

A table of its own, which a scheduler of the release before does not look at: to it nothing is deleted.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mysql_row_format": "DYNAMIC",
}
_NAME = sa.String(255)
_BIG = sa.BigInteger()


def upgrade() -> None:
    """Makes the table; one that is there, from an upgrade that was killed, is left as it is."""
    if not sa.inspect(op.get_bind()).has_table("workflow_heads"):
        op.create_table(
            "workflow_heads",
            sa.Column("tenant", _NAME, nullable=False, autoincrement=False),
            sa.Column("name", _NAME, nullable=False, autoincrement=False),
            sa.Column("source", _NAME, nullable=False),
            sa.Column("deleted_version", _BIG, nullable=False),
            sa.Column("updated_at", _BIG, nullable=False),
            sa.PrimaryKeyConstraint("tenant", "name"),
            **_MYSQL,
        )
