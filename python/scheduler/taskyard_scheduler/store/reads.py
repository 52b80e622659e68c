"""The questions of the store port as SQL, for every database. Each takes a connection and returns rows.

Nothing here writes. That ids are UUIDs of version 7 shortens some searches and never decides their result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from taskyard_core.pauses import HeldRuns
from taskyard_core.records import DEFERRED, INSTANCE_COLUMNS, PHASES, Phase, Row
from taskyard_scheduler.store.port import Condition, Found, Groups, StoreError
from taskyard_scheduler.store.tables import (
    ARTIFACTS,
    ATTEMPTS,
    CHECKPOINTS,
    INSTANCES,
    NOT_ENDED,
    OF_A_RUN,
    PAUSES,
    PENDING_OR_IN_FLIGHT,
    READY,
    REFERENCES,
    REQUESTS,
    RUNS,
    TASK_DEFINITIONS,
    VARIABLES,
    WORKERS,
    WORKFLOW_HEADS,
    WORKFLOWS,
)  # fmt: skip

Kind = Literal["instance", "run", "artifact"]
Clause = sa.ColumnElement[bool]

IN_LIST: Final = 500
"""How many values one IN takes."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.in_(values),
    "has": lambda column, part: sa.func.instr(column, part) > 0,
}  # fmt: skip
_OWNERS: Final = {"instance": INSTANCES, "run": RUNS, "artifact": ARTIFACTS}

_INSTANCE: Final = tuple(INSTANCES.c[column] for column in INSTANCE_COLUMNS)
_WITH_CHECKPOINT: Final = sa.select(
    *_INSTANCE, CHECKPOINTS.c.data, sa.func.coalesce(CHECKPOINTS.c.number, 0)
).select_from(
    INSTANCES.outerjoin(
        CHECKPOINTS, (INSTANCES.c.tenant == CHECKPOINTS.c.tenant) & (INSTANCES.c.id == CHECKPOINTS.c.id)
    )
)


def rows(connection: Connection, query: sa.Executable) -> list[Row]:
    """Runs a query to its end."""
    return [tuple(row) for row in connection.execute(query)]


def load_runs(connection: Connection, after: tuple[str, str], limit: int) -> list[Row]:
    """Runs that have not ended."""
    c = RUNS.c
    return _page(connection, sa.select(RUNS).where(NOT_ENDED), c.tenant, c.id, after, limit)


def load_instances(connection: Connection, phase: int, after: tuple[str, str], limit: int) -> list[Row]:
    """Instances of a phase."""
    c = INSTANCES.c
    # The index's own condition is repeated, since SQLite takes a partial index only when it sees it.
    keys = _by_phase(c.tenant, c.id).where(PENDING_OR_IN_FLIGHT, c.phase == phase)
    return _page(connection, keys, c.tenant, c.id, after, limit, _of_keys)


def load_ready(
    connection: Connection, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns
) -> list[Row]:
    """The head of one ready queue, without the steps of some workflows and runs."""
    c = INSTANCES.c
    keys = _by_phase(c.tenant, c.id, c.order_key).where(READY, c.tenant == tenant, c.queue == queue)
    if but.workflows:
        keys = keys.where(c.workflow.not_in(but.workflows))
    if but.runs:
        keys = keys.where(c.run_id.not_in(but.runs))
    return _page(connection, keys, c.order_key, c.id, after, limit, _of_keys)


def _page(
    connection: Connection,
    query: sa.Select[Any],
    major: sa.Column[Any],
    minor: sa.Column[Any],
    after: tuple[Any, str],
    limit: int,
    complete: Callable[[sa.Select[Any], Sequence[str]], sa.Select[Any]] = lambda query, order: query,
) -> list[Row]:
    """Reads on after a key of two columns.

    As two queries, because a comparison of pairs walks the index on one database and the whole table on another.
    """
    same = query.where(major == after[0], minor > after[1]).order_by(minor).limit(limit)
    found = rows(connection, complete(same, (minor.name,)))
    if len(found) < limit:
        rest = query.where(major > after[0]).order_by(major, minor).limit(limit - len(found))
        found += rows(connection, complete(rest, (major.name, minor.name)))
    return found


def _by_phase(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Selects what an index that leads with the phase has; MySQL's optimizer is not trusted to see that."""
    return sa.select(*columns).with_hint(INSTANCES, "FORCE INDEX (instances_ready)", "mysql")


def _of_keys(keys: sa.Select[Any], order: Sequence[str]) -> sa.Select[Any]:
    """Selects whole instances by what was found in an index alone, in the same order and the same statement."""
    found = keys.subquery()
    joined = (INSTANCES.c.tenant == found.c.tenant) & (INSTANCES.c.id == found.c.id)
    return _WITH_CHECKPOINT.join(found, joined).order_by(*[found.c[name] for name in order])


def count_ready(connection: Connection) -> list[tuple[str, str, int, int]]:
    """Sizes of the ready queues."""
    c = INSTANCES.c
    query = _by_phase(c.tenant, c.queue, sa.func.count(), sa.func.min(c.order_key)).where(READY)
    found = rows(connection, query.group_by(c.tenant, c.queue).order_by(c.tenant, c.queue))
    return [(tenant, queue, count, first) for tenant, queue, count, first in found]


def load_workers(connection: Connection) -> list[Row]:
    """All workers."""
    return rows(connection, sa.select(WORKERS).order_by(WORKERS.c.id))


def load_pauses(connection: Connection) -> list[Row]:
    """All that is held back."""
    return rows(connection, sa.select(PAUSES).order_by(PAUSES.c.tenant, PAUSES.c.scope, PAUSES.c.name))


def load_variables(connection: Connection) -> list[Row]:
    """All variables."""
    return rows(connection, sa.select(VARIABLES).order_by(VARIABLES.c.tenant, VARIABLES.c.name))


def load_task_definitions(connection: Connection) -> list[Row]:
    """All task definitions."""
    return rows(connection, sa.select(TASK_DEFINITIONS).order_by(*TASK_DEFINITIONS.primary_key.columns))


def load_workflows(connection: Connection) -> list[Row]:
    """The newest version of each workflow."""
    return rows(connection, _newest_workflows().order_by(WORKFLOWS.c.tenant, WORKFLOWS.c.name))


def load_workflow_heads(connection: Connection) -> list[Row]:
    """What is said of workflows over their versions."""
    return rows(connection, sa.select(WORKFLOW_HEADS).order_by(*WORKFLOW_HEADS.primary_key.columns))


def _newest_workflows() -> sa.Select[Any]:
    newer = WORKFLOWS.alias("newer")
    newest = (
        sa.select(sa.func.max(newer.c.version))
        .where(newer.c.tenant == WORKFLOWS.c.tenant, newer.c.name == WORKFLOWS.c.name)
        .scalar_subquery()
    )
    return sa.select(WORKFLOWS).where(WORKFLOWS.c.version == newest)


def load_request_ids(connection: Connection, since_ms: int, limit: int) -> list[tuple[str, str, str, bytes]] | None:
    """Requests since a time; None when there are more than `limit`."""
    found: list[tuple[str, str, str, bytes]] = []
    for table in (INSTANCES, RUNS):
        c = table.c
        for tenant in _tenants(connection, table):
            query = (
                sa.select(c.tenant, c.request_id, c.id, c.request_hash)
                .where(c.tenant == tenant, c.id >= first_id_of(since_ms))
                .where(c.created_at >= since_ms, c.request_id.is_not(None))
                .order_by(c.id)
                .limit(limit + 1 - len(found))
            )
            found += [(t, request, id, bytes(hash)) for t, request, id, hash in rows(connection, query)]
            if len(found) > limit:
                return None
    return found


def _tenants(connection: Connection, table: sa.Table) -> Iterator[str]:
    """Gives each tenant of a table by stepping over its key, one look-up each."""
    tenant = ""
    while True:
        query = sa.select(sa.func.min(table.c.tenant)).where(table.c.tenant > tenant)
        found: str | None = connection.scalar(query)
        if found is None:
            return
        yield found
        tenant = found


def first_id_of(time_ms: int) -> str:
    """Returns a text that no id made at or after a time is smaller than.

    The time in an id is never before its record's `created_at`, because its source's time never steps back.
    """
    digits = f"{min(max(time_ms, 0), (1 << 48) - 1):012x}"
    return f"{digits[:8]}-{digits[8:]}-7"


def find_requests(connection: Connection, kind: Kind, tenant: str, request_ids: Sequence[str]) -> dict[str, Found]:
    """What these request ids made."""
    table = _OWNERS[kind]
    columns = (table.c.request_id, table.c.id, table.c.request_hash)
    return {
        request_id: Found(id, hash)
        for request_id, id, hash in _in_chunks(connection, columns, tenant, table.c.request_id, request_ids)
    }


def find_keys(connection: Connection, kind: Kind, tenant: str, keys: Sequence[str]) -> dict[str, Found]:
    """What these idempotency keys made."""
    table = _OWNERS[kind]
    columns = (table.c.idempotency_key, table.c.id)
    found = _in_chunks(connection, columns, tenant, table.c.idempotency_key, keys)
    return {key: Found(id, None) for key, id in found}


def _in_chunks(
    connection: Connection,
    columns: Sequence[sa.Column[Any]],
    tenant: str,
    column: sa.Column[Any],
    values: Sequence[str],
) -> Iterator[Row]:
    for start in range(0, len(values), IN_LIST):
        chunk = values[start : start + IN_LIST]
        yield from rows(connection, sa.select(*columns).where(column.table.c.tenant == tenant, column.in_(chunk)))


def get_request(connection: Connection, tenant: str, request_id: str) -> Row | None:
    """The answer to an earlier call."""
    query = sa.select(REQUESTS).where(REQUESTS.c.tenant == tenant, REQUESTS.c.request_id == request_id)
    return _first(rows(connection, query))


def get_instances(connection: Connection, tenant: str, ids: Sequence[str]) -> list[Row]:
    """Instances by id."""
    found: list[Row] = []
    for start in range(0, len(ids), IN_LIST):
        chunk = ids[start : start + IN_LIST]
        query = _WITH_CHECKPOINT.where(INSTANCES.c.tenant == tenant, INSTANCES.c.id.in_(chunk))
        found += rows(connection, query)
    return found


def get_attempts(connection: Connection, tenant: str, id: str) -> list[Row]:
    """The earlier attempts of an instance."""
    c = ATTEMPTS.c
    return rows(connection, sa.select(ATTEMPTS).where(c.tenant == tenant, c.id == id).order_by(c.attempt))


def get_run(connection: Connection, tenant: str, id: str) -> Row | None:
    """One run."""
    return _first(rows(connection, sa.select(RUNS).where(RUNS.c.tenant == tenant, RUNS.c.id == id)))


def run_instances(connection: Connection, tenant: str, run_id: str) -> list[Row]:
    """The steps of a run."""
    if not run_id:
        raise StoreError("a run's id is empty: name the run whose instances are asked for")
    query = _WITH_CHECKPOINT.where(OF_A_RUN, INSTANCES.c.tenant == tenant, INSTANCES.c.run_id == run_id)
    return rows(connection, query)


def list_records(
    connection: Connection,
    kind: Kind,
    tenant: str,
    where: Sequence[Condition],
    after: str | None,
    limit: int,
    newest_first: bool,
) -> list[Row]:
    """Instances, runs or artifacts by id, which is the order of creation."""
    table = _OWNERS[kind]
    id = table.c.id
    columns = _INSTANCE if kind == "instance" else tuple(table.c)
    query = sa.select(*columns).where(table.c.tenant == tenant, *_clauses(table, where))
    phase = _live_phase(where) if kind == "instance" else None
    if phase is not None:  # few, and an index has them; the key would be walked to its end
        query = query.where(PENDING_OR_IN_FLIGHT, INSTANCES.c.phase == int(phase))
        query = query.with_hint(INSTANCES, "FORCE INDEX (instances_ready)", "mysql")
    if after is not None:
        query = query.where(id < after if newest_first else id > after)
    return rows(connection, query.order_by(id.desc() if newest_first else id).limit(limit))


def _live_phase(where: Sequence[Condition]) -> Phase | None:
    """Returns the phase when conditions ask for nothing but what workers hold, or what waits for a result from outside.

    PENDING itself is left to the key: where many are, a page of them is found soon, and to sort them all takes longer.
    """
    for condition in where:
        if condition.field == "state" and condition.op in ("==", "in"):
            states = condition.value if isinstance(condition.value, tuple) else (condition.value,)
            if all(PHASES[int(state)] == Phase.IN_FLIGHT for state in states):
                return Phase.IN_FLIGHT
            if all(state == DEFERRED for state in states):
                return Phase.PENDING
    return None


def get_workflow(connection: Connection, tenant: str, name: str, version: int) -> Row | None:
    """One version of a workflow, the newest for 0."""
    c = WORKFLOWS.c
    query = sa.select(WORKFLOWS).where(c.tenant == tenant, c.name == name)
    if version:
        query = query.where(c.version == version)
    return _first(rows(connection, query.order_by(c.version.desc()).limit(1)))


def count_records(connection: Connection, kind: Kind, tenant: str, where: Sequence[Condition]) -> int:
    """How many instances or runs meet the conditions."""
    table = _OWNERS[kind]
    query = sa.select(sa.func.count()).select_from(table).where(table.c.tenant == tenant, *_clauses(table, where))
    return int(connection.execute(query).scalar_one())


def count_groups(
    connection: Connection, kind: Kind, tenant: str, where: Sequence[Condition], column: str, limit: int
) -> Groups:
    """How many instances or runs have each value of a column, and how many there are, in one statement."""
    table = _OWNERS[kind]
    by = table.c.get(column)
    if by is None:
        raise StoreError.no_column(table.name, column)
    size = sa.func.count()
    query = (
        sa.select(by, size, sa.func.sum(size).over())
        .where(table.c.tenant == tenant, *_clauses(table, where))
        .group_by(by)
        .order_by(size.desc(), by)
        .limit(limit)
    )
    found = rows(connection, query)
    return Groups(int(found[0][2]) if found else 0, [(value, count) for value, count, _ in found])


def list_workflows(
    connection: Connection, tenant: str, where: Sequence[Condition], after: str, limit: int
) -> list[Row]:
    """Newest versions, by name, of what is not deleted."""
    c, head = WORKFLOWS.c, WORKFLOW_HEADS.c
    source: Any = sa.func.coalesce(head.source, "")
    about_source = [each for each in where if each.field == "source"]
    about_versions = [each for each in where if each.field != "source"]
    query = _newest_workflows().where(c.tenant == tenant, c.name > after, *_clauses(WORKFLOWS, about_versions))
    query = query.where(
        c.version > sa.func.coalesce(head.deleted_version, 0),
        *(_OPERATORS[each.op](source, each.value) for each in about_source),
    )
    of_head = WORKFLOWS.outerjoin(WORKFLOW_HEADS, (head.tenant == c.tenant) & (head.name == c.name))
    return rows(connection, query.select_from(of_head).order_by(c.name).limit(limit))


def list_task_definitions(
    connection: Connection, tenant: str, where: Sequence[Condition], after: str, limit: int
) -> list[Row]:
    """Task definitions, by name."""
    c = TASK_DEFINITIONS.c
    query = sa.select(TASK_DEFINITIONS).where(c.tenant == tenant, c.name > after)
    query = query.where(*_clauses(TASK_DEFINITIONS, where))
    return rows(connection, query.order_by(c.name).limit(limit))


def get_artifact(connection: Connection, tenant: str, id: str) -> Row | None:
    """One artifact."""
    return _first(rows(connection, sa.select(ARTIFACTS).where(ARTIFACTS.c.tenant == tenant, ARTIFACTS.c.id == id)))


def artifact_holders(connection: Connection, tenant: str, artifact: str, limit: int) -> list[tuple[str, str]]:
    """What refers to an artifact."""
    c = REFERENCES.c
    query = sa.select(c.holder_kind, c.holder).where(c.tenant == tenant, c.artifact == artifact)
    found = rows(connection, query.order_by(c.holder_kind, c.holder).limit(limit))
    return [(kind, holder) for kind, holder in found]


def load_artifacts(connection: Connection, after: tuple[str, str], limit: int) -> list[tuple[str, str, int, bool]]:
    """Artifacts of all tenants, and whether anything refers to them."""
    c, r = ARTIFACTS.c, REFERENCES.c
    referred = sa.exists().where(r.tenant == c.tenant, r.artifact == c.id)
    query: Any = sa.select(c.tenant, c.id, c.created_at, referred)
    found = _page(connection, query, c.tenant, c.id, after, limit)
    return [(tenant, id, created_at, bool(used)) for tenant, id, created_at, used in found]


def known_artifacts(connection: Connection, tenant: str, ids: Sequence[str]) -> set[str]:
    """Which artifacts there are."""
    return {id for (id,) in _in_chunks(connection, (ARTIFACTS.c.id,), tenant, ARTIFACTS.c.id, ids)}


def _clauses(table: sa.Table, where: Sequence[Condition]) -> list[Clause]:
    clauses: list[Clause] = []
    for condition in where:
        column = table.c.get(condition.field)
        if column is None:
            raise StoreError.no_column(table.name, condition.field)
        clauses.append(_OPERATORS[condition.op](column, condition.value))
        if condition.field == "run_id" and condition.op == "==" and condition.value:
            clauses.append(sa.literal_column(OF_A_RUN.text, sa.Boolean()))
        if condition.field == "created_at" and condition.op in ("==", ">", ">="):
            clauses.append(table.c.id >= first_id_of(int(str(condition.value))))
    return clauses


def _first(found: list[Row]) -> Row | None:
    return found[0] if found else None
