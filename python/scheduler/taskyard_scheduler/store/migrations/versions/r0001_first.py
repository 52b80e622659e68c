"""The schema of the first release.

A migration is frozen: it names its columns itself, because `tables` moves on and this step of the way does
not.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
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
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_LARGE = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_HASH = sa.LargeBinary(32).with_variant(mysql.VARBINARY(32), "mysql", "mariadb")
_COUNT = sa.Integer()
_BIG = sa.BigInteger()


def upgrade() -> None:
    """Makes every table.

    Where the database commits each statement by itself, an upgrade that was killed is taken up where it was: what
    exists already is left as it is.
    """
    _create_instances()
    _create_attempts()
    _create_runs()
    _create_checkpoints()
    _create_workers()
    _create_requests()
    _create_task_definitions()
    _create_workflows()
    _create_cluster()


def _required(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, autoincrement=False)


def _optional(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _table(name: str, *columns: sa.schema.SchemaItem) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **_MYSQL)


def _index(name: str, table: str, columns: list[str], *, unique: bool = False, where: str) -> None:
    present = sa.inspect(op.get_bind()).get_indexes(table)
    if all(index["name"] != name for index in present):
        op.create_index(name, table, columns, unique=unique, sqlite_where=sa.text(where))


def _create_instances() -> None:
    _table(
        "instances",
        _required("tenant", _NAME),
        _required("id", _ID),
        _required("task_name", _NAME),
        _required("task_type", _NAME),
        _required("workflow", _NAME),
        _required("run_id", _ID),
        _required("step_id", _NAME),
        _required("priority", _COUNT),
        _required("params_json", _LARGE),
        _required("input_json", _LARGE),
        _required("policy_json", _TEXT),
        _required("queue", _NAME),
        _optional("request_id", _NAME),
        _optional("request_hash", _HASH),
        _optional("idempotency_key", _NAME),
        _required("traceparent", _NAME),
        _required("created_at", _BIG),
        _required("state", _COUNT),
        _required("phase", _COUNT),
        _required("order_key", _BIG),
        _optional("not_before", _BIG),
        _required("attempt", _COUNT),
        _required("retries", _COUNT),
        _required("requeues", _COUNT),
        _required("worker_id", _NAME),
        _required("token", _ID),
        _required("term", _BIG),
        _optional("queued_at", _BIG),
        _optional("assigned_at", _BIG),
        _optional("started_at", _BIG),
        _optional("ended_at", _BIG),
        _required("duration_ms", _BIG),
        _required("output_json", _LARGE),
        _required("error_kind", _NAME),
        _required("error_message", _TEXT),
        _required("metadata_json", _TEXT),
        _required("cancel_reason", _TEXT),
        _required("revision", _BIG),
        sa.Column("spare", _NAME, nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    _index(
        "instances_idempotency_key",
        "instances",
        ["tenant", "idempotency_key"],
        unique=True,
        where="idempotency_key IS NOT NULL",
    )
    if op.get_bind().dialect.name == "sqlite":
        _index("instances_live", "instances", ["phase", "tenant", "id"], where="phase IN (0, 2)")
    _index(
        "instances_ready",
        "instances",
        ["phase", "tenant", "queue", "order_key", "id"],
        where="phase = 1",
    )
    _index(
        "instances_request",
        "instances",
        ["tenant", "request_id"],
        unique=True,
        where="request_id IS NOT NULL",
    )
    _index("instances_run", "instances", ["tenant", "run_id"], where="run_id <> ''")


def _create_attempts() -> None:
    _table(
        "attempts",
        _required("tenant", _NAME),
        _required("id", _ID),
        _required("attempt", _COUNT),
        _required("token", _ID),
        _required("worker_id", _NAME),
        _required("term", _BIG),
        _required("status", _COUNT),
        _optional("assigned_at", _BIG),
        _optional("started_at", _BIG),
        _optional("ended_at", _BIG),
        _required("error_kind", _NAME),
        _required("error_message", _TEXT),
        sa.PrimaryKeyConstraint("tenant", "id", "attempt"),
    )


def _create_runs() -> None:
    _table(
        "runs",
        _required("tenant", _NAME),
        _required("id", _ID),
        _required("workflow", _NAME),
        _required("version", _BIG),
        _required("inputs_json", _LARGE),
        _required("priority", _COUNT),
        _optional("request_id", _NAME),
        _optional("request_hash", _HASH),
        _optional("idempotency_key", _NAME),
        _required("created_at", _BIG),
        _required("state", _COUNT),
        _required("output_json", _LARGE),
        _required("error_message", _TEXT),
        _optional("ended_at", _BIG),
        _required("steps_total", _COUNT),
        _required("steps_ended", _COUNT),
        _required("cancel_reason", _TEXT),
        _required("revision", _BIG),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )
    _index(
        "runs_idempotency_key",
        "runs",
        ["tenant", "idempotency_key"],
        unique=True,
        where="idempotency_key IS NOT NULL",
    )
    _index(
        "runs_live",
        "runs",
        ["ended_at", "tenant", "id"],
        where="ended_at IS NULL",
    )
    _index(
        "runs_request",
        "runs",
        ["tenant", "request_id"],
        unique=True,
        where="request_id IS NOT NULL",
    )


def _create_checkpoints() -> None:
    _table(
        "checkpoints",
        _required("tenant", _NAME),
        _required("id", _ID),
        _required("number", _BIG),
        _required("data", _LARGE),
        sa.PrimaryKeyConstraint("tenant", "id"),
    )


def _create_workers() -> None:
    _table(
        "workers",
        _required("id", _NAME),
        _required("tenant", _NAME),
        _required("epoch", _BIG),
        _required("registration_json", _LARGE),
        _required("registered_at", _BIG),
        _required("last_seen_at", _BIG),
        sa.PrimaryKeyConstraint("id"),
    )


def _create_requests() -> None:
    _table(
        "requests",
        _required("tenant", _NAME),
        _required("request_id", _NAME),
        _required("method", _NAME),
        _optional("request_hash", _HASH),
        _required("response", _BYTES),
        _required("created_at", _BIG),
        sa.PrimaryKeyConstraint("tenant", "request_id"),
    )


def _create_task_definitions() -> None:
    _table(
        "task_definitions",
        _required("tenant", _NAME),
        _required("name", _NAME),
        _required("number", _BIG),
        _required("definition", _BYTES),
        _required("created_at", _BIG),
        _required("updated_at", _BIG),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )


def _create_workflows() -> None:
    _table(
        "workflows",
        _required("tenant", _NAME),
        _required("name", _NAME),
        _required("version", _BIG),
        _required("definition", _BYTES),
        _required("content_hash", _HASH),
        _required("created_at", _BIG),
        sa.PrimaryKeyConstraint("tenant", "name", "version"),
    )


def _create_cluster() -> None:
    _table(
        "cluster",
        _required("id", _COUNT),
        _required("term", _BIG),
        _required("revision", _BIG),
        _required("holder", _NAME),
        _required("term_started_at", _BIG),
        _required("election", _NAME),
        _required("schema_version", _NAME),
        sa.PrimaryKeyConstraint("id"),
    )
