"""The tables of the scheduler's state as SQLAlchemy metadata, from the columns of `taskyard_core.records`.

What is true of the schema now. How a database gets there is the migrations' business; a test holds the two
together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from taskyard_core import records

METADATA: Final = sa.MetaData()

_MYSQL: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",  # names are compared bytewise
    "mysql_row_format": "DYNAMIC",
}

_ID: Final = sa.String(64)  # ids and tokens
_NAME: Final = sa.String(255)  # names, request ids and keys: at most 200 characters by contract
_TEXT: Final = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_LARGE: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
_BYTES: Final = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_HASH: Final = sa.LargeBinary(32).with_variant(mysql.VARBINARY(32), "mysql", "mariadb")
_COUNT: Final = sa.Integer()
_BIG: Final = sa.BigInteger()  # times in milliseconds, revisions, terms

_TYPES: Final[dict[str, sa.types.TypeEngine[Any]]] = {
    "tenant": _NAME, "id": _ID, "task_name": _NAME, "task_type": _NAME, "workflow": _NAME, "run_id": _ID,
    "step_id": _NAME, "priority": _COUNT, "params_json": _LARGE, "input_json": _LARGE, "policy_json": _TEXT,
    "queue": _NAME, "request_id": _NAME, "request_hash": _HASH, "idempotency_key": _NAME,
    "traceparent": _NAME,
    "created_at": _BIG, "state": _COUNT, "phase": _COUNT, "order_key": _BIG, "not_before": _BIG,
    "attempt": _COUNT,
    "retries": _COUNT, "requeues": _COUNT, "worker_id": _NAME, "token": _ID, "term": _BIG, "queued_at": _BIG,
    "assigned_at": _BIG, "started_at": _BIG, "ended_at": _BIG, "duration_ms": _BIG, "output_json": _LARGE,
    "error_kind": _NAME, "error_message": _TEXT, "metadata_json": _TEXT, "cancel_reason": _TEXT,
    "revision": _BIG,
    "status": _COUNT, "version": _BIG, "inputs_json": _LARGE, "steps_total": _COUNT, "steps_ended": _COUNT,
    "number": _BIG, "data": _LARGE, "epoch": _BIG, "registration_json": _LARGE, "registered_at": _BIG,
    "last_seen_at": _BIG, "method": _NAME, "response": _BYTES, "name": _NAME, "definition": _BYTES,
    "updated_at": _BIG, "content_hash": _HASH, "expire_at": _BIG, "tags": _TEXT, "start_at": _BIG,
    "variables_json": _LARGE, "variable": _BYTES, "scope": _COUNT, "reason": _TEXT, "paused_by": _NAME,
    "source": _NAME, "deleted_version": _BIG,
    "media_type": _NAME, "size": _BIG, "sha256": _ID, "task_id": _ID, "artifact": _ID, "holder_kind": _ID,
    "holder": _NAME,
}  # fmt: skip
"""The type of a column is that of its name, in every table."""

_NULLABLE: Final = frozenset({
    "request_id", "request_hash", "idempotency_key", "not_before", "queued_at", "assigned_at", "started_at",
    "ended_at", "expire_at", "tags", "start_at", "variables_json",
})  # fmt: skip


def _table(name: str, columns: Sequence[str], key: Sequence[str]) -> sa.Table:
    return sa.Table(
        name,
        METADATA,
        *(
            sa.Column(
                column,
                _TYPES["worker_id" if (name, column) == ("workers", "id") else column],
                nullable=column in _NULLABLE and column not in key,
                autoincrement=False,
            )
            for column in columns
        ),
        sa.PrimaryKeyConstraint(*key),
        **_MYSQL,
    )


SPARE: Final = "spare"
"""Column of bytes that a new row has to spare, where updates are cheaper for it; never read."""

INSTANCES: Final = _table("instances", records.INSTANCE_COLUMNS, ("tenant", "id"))
INSTANCES.append_column(sa.Column(SPARE, _NAME, nullable=False, server_default=sa.text("''")))
ATTEMPTS: Final = _table("attempts", records.ATTEMPT_COLUMNS, ("tenant", "id", "attempt"))
RUNS: Final = _table("runs", records.RUN_COLUMNS, ("tenant", "id"))
CHECKPOINTS: Final = _table("checkpoints", records.CHECKPOINT_COLUMNS, ("tenant", "id"))
WORKERS: Final = _table("workers", records.WORKER_COLUMNS, ("id",))
REQUESTS: Final = _table("requests", records.REQUEST_COLUMNS, ("tenant", "request_id"))
TASK_DEFINITIONS: Final = _table("task_definitions", records.TASK_DEFINITION_COLUMNS, ("tenant", "name"))
VARIABLES: Final = _table("variables", records.VARIABLE_COLUMNS, ("tenant", "name"))
PAUSES: Final = _table("pauses", records.PAUSE_COLUMNS, ("tenant", "scope", "name"))
ARTIFACTS: Final = _table("artifacts", records.ARTIFACT_COLUMNS, ("tenant", "id"))
REFERENCES: Final = _table(
    "artifact_references", records.REFERENCE_COLUMNS, ("tenant", "artifact", "holder_kind", "holder")
)
WORKFLOWS: Final = _table("workflows", records.WORKFLOW_COLUMNS, ("tenant", "name", "version"))
WORKFLOW_HEADS: Final = _table("workflow_heads", records.WORKFLOW_HEAD_COLUMNS, ("tenant", "name"))

CLUSTER: Final = sa.Table(
    "cluster",
    METADATA,
    sa.Column("id", _COUNT, primary_key=True, autoincrement=False),  # always 1
    sa.Column("term", _BIG, nullable=False),
    sa.Column("revision", _BIG, nullable=False),
    sa.Column("holder", _NAME, nullable=False),
    sa.Column("term_started_at", _BIG, nullable=False),
    sa.Column("election", _NAME, nullable=False),  # "" until a scheduler has led
    sa.Column("schema_version", _NAME, nullable=False),  # the release of Taskyard that brought the schema here
    **_MYSQL,
)
"""The one row that fences writes: its term and revision are proved and moved by every commit."""

# SQLite's partial indexes hold only the rows that somebody will look for, so that the usual path of a row
# (inserted as assigned, updated as ended) touches few of them. MySQL has no such thing and indexes every row.
PENDING_OR_IN_FLIGHT: Final = sa.text("phase IN (0, 2)")
READY: Final = sa.text("phase = 1")
OF_A_RUN: Final = sa.text("run_id <> ''")
NOT_ENDED: Final = sa.text("ended_at IS NULL")

for _owner in (INSTANCES, RUNS):
    sa.Index(
        f"{_owner.name}_request", _owner.c.tenant, _owner.c.request_id, unique=True,
        sqlite_where=sa.text("request_id IS NOT NULL"),
    )  # fmt: skip
    sa.Index(
        f"{_owner.name}_idempotency_key", _owner.c.tenant, _owner.c.idempotency_key, unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
    )  # fmt: skip
sa.Index("instances_run", INSTANCES.c.tenant, INSTANCES.c.run_id, sqlite_where=OF_A_RUN)
sa.Index("artifact_holders", REFERENCES.c.tenant, REFERENCES.c.holder_kind, REFERENCES.c.holder)
sa.Index("runs_live", RUNS.c.ended_at, RUNS.c.tenant, RUNS.c.id, sqlite_where=NOT_ENDED)
# Recovery reads every tenant at once, so these two lead with the phase. MySQL has the second one only: an index
# of all rows is dear, and what it has to sort at recovery is little.
sa.Index(
    "instances_live", INSTANCES.c.phase, INSTANCES.c.tenant, INSTANCES.c.id, sqlite_where=PENDING_OR_IN_FLIGHT
).ddl_if(dialect="sqlite")
sa.Index(
    "instances_ready", INSTANCES.c.phase, INSTANCES.c.tenant, INSTANCES.c.queue, INSTANCES.c.order_key,
    INSTANCES.c.id, sqlite_where=READY,
)  # fmt: skip
