"""Artifacts, and what refers to them.

It adds tables only. A scheduler of the release before knows none of them, and there are no artifacts while it writes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mysql_row_format": "DYNAMIC",
}
_ID = sa.String(64)
_NAME = sa.String(255)
_BIG = sa.BigInteger()
_HOLDERS = "artifact_holders"


def upgrade() -> None:
    """Makes the tables; what an upgrade that was killed has made already is left as it is."""
    present = sa.inspect(op.get_bind())
    if not present.has_table("artifacts"):
        op.create_table(
            "artifacts",
            sa.Column("tenant", _NAME, nullable=False, autoincrement=False),
            sa.Column("id", _ID, nullable=False, autoincrement=False),
            sa.Column("name", _NAME, nullable=False),
            sa.Column("media_type", _NAME, nullable=False),
            sa.Column("size", _BIG, nullable=False, autoincrement=False),
            sa.Column("sha256", _ID, nullable=False),
            sa.Column("task_id", _ID, nullable=False),
            sa.Column("created_at", _BIG, nullable=False, autoincrement=False),
            sa.PrimaryKeyConstraint("tenant", "id"),
            **_MYSQL,
        )
    if not present.has_table("artifact_references"):
        op.create_table(
            "artifact_references",
            sa.Column("tenant", _NAME, nullable=False, autoincrement=False),
            sa.Column("artifact", _ID, nullable=False, autoincrement=False),
            sa.Column("holder_kind", _ID, nullable=False, autoincrement=False),
            sa.Column("holder", _NAME, nullable=False, autoincrement=False),
            sa.Column("revision", _BIG, nullable=False, autoincrement=False),
            sa.PrimaryKeyConstraint("tenant", "artifact", "holder_kind", "holder"),
            **_MYSQL,
        )
    known = sa.inspect(op.get_bind()).get_indexes("artifact_references")
    if all(index["name"] != _HOLDERS for index in known):
        op.create_index(_HOLDERS, "artifact_references", ["tenant", "holder_kind", "holder"])
