"""The store port in memory, for the simulation: deterministic, shared, failing on demand.

A model of what the SQL stores do, by the same steps in the same order. It keeps nothing beyond its process.
"""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import override

from taskyard_core import records
from taskyard_core.pauses import NONE_HELD, HeldRuns
from taskyard_core.records import Changes, Phase, Row
from taskyard_scheduler.store.memory_tables import MemoryTable, Record, apply, fits, row_of, tables
from taskyard_scheduler.store.port import (
    Condition,
    Deposed,
    ElectionConflict,
    Found,
    Groups,
    RowsRefused,
    Store,
    StoreError,
    TermStart,
)
from taskyard_scheduler.store.references import with_references

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Kind = Literal["instance", "run", "artifact"]
Faults = Callable[[str], Awaitable[None]]
"""Awaited with `before:NAME` and `after:NAME` around each method NAME of the port; may wait, and may raise.

What is raised before a method keeps it from happening; after it, its caller does not learn that it happened.
"""

_OWNERS: Final = {"instance": "instances", "run": "runs", "artifact": "artifacts"}
_COLUMNS: Final = {
    "instance": records.INSTANCE_COLUMNS, "run": records.RUN_COLUMNS, "artifact": records.ARTIFACT_COLUMNS,
}  # fmt: skip
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, values: value in values,
}  # fmt: skip


class MemoryDatabase:
    """What several stores share, as several processes share a database."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = tables()
        self.term = 0
        self.revision = 0
        self.holder = ""
        self.election = ""


class MemoryStore(Store):
    """A connection to a MemoryDatabase."""

    name = "memory"

    def __init__(self, database: MemoryDatabase, faults: Faults | None = None) -> None:
        """Connects.

        Args:
            database: what is shared.
            faults: see `Faults`; None for none.
        """
        self._database = database
        self._faults = faults
        self._turn = asyncio.Lock()  # it lets through in the order of the calls
        self._instances = database.tables["instances"]
        self._runs = database.tables["runs"]

    @asynccontextmanager
    async def _operation(self, name: str) -> AsyncIterator[None]:
        if self._faults is not None:
            await self._faults(f"before:{name}")
        yield
        if self._faults is not None:
            await self._faults(f"after:{name}")

    @override
    async def open(self) -> None:
        async with self._operation("open"):
            pass

    @override
    async def close(self) -> None:
        """Does nothing, and never fails: the database lives as long as its owner keeps it."""

    @override
    async def begin_term(self, holder: str, now_ms: int) -> TermStart:
        async with self._operation("begin_term"):
            self._database.term += 1
            self._database.holder = holder
            started = TermStart(self._database.term, self._database.revision)
        return started

    @override
    async def record_election(self, kind: str) -> None:
        async with self._operation("record_election"):
            self._database.election = recorded = self._database.election or kind
            if recorded != kind:
                raise ElectionConflict.between(recorded, kind)

    @override
    async def settings(self) -> dict[str, str]:
        async with self._operation("settings"):
            pass
        return {"durability": "none"}

    @override
    async def commit(self, term: int, changes: Changes) -> None:
        async with self._turn, self._operation("commit"):
            self._commit(term, changes)

    def _commit(self, term: int, changes: Changes) -> None:
        database = self._database
        if database.term != term:
            raise Deposed.by(term, database.term)
        if database.revision >= changes.revision:
            return  # an earlier attempt of this commit did succeed
        if database.revision != changes.revision - 1:
            raise StoreError.out_of_order(changes.revision, database.revision, term)
        refused = apply(database.tables, with_references(changes))
        if refused:
            raise RowsRefused(refused)
        database.revision = changes.revision

    # Recovery.

    @override
    async def load_runs(self, after: tuple[str, str], limit: int) -> list[Row]:
        async with self._operation("load_runs"):
            found = [r for key, r in self._runs.ordered() if key > after and r["ended_at"] is None][:limit]
        return [row_of(record, records.RUN_COLUMNS) for record in found]

    @override
    async def load_instances(self, phase: int, after: tuple[str, str], limit: int) -> list[Row]:
        async with self._operation("load_instances"):
            found = [r for key, r in self._instances.ordered() if r["phase"] == phase and key > after][:limit]
        return [self._with_checkpoint(record) for record in found]

    @override
    async def load_ready(
        self, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns = NONE_HELD
    ) -> list[Row]:
        async with self._operation("load_ready"):
            found = [
                record
                for record in self._ready()
                if (record["tenant"], record["queue"]) == (tenant, queue)
                and _place(record) > after
                and record["workflow"] not in but.workflows
                and record["run_id"] not in but.runs
            ]
        return [self._with_checkpoint(record) for record in sorted(found, key=_place)[:limit]]

    @override
    async def count_ready(self) -> list[tuple[str, str, int, int]]:
        async with self._operation("count_ready"):
            queues: dict[tuple[str, str], list[int]] = {}
            for record in self._ready():
                queues.setdefault((record["tenant"], record["queue"]), []).append(record["order_key"])
        return [(*queue, len(keys), min(keys)) for queue, keys in sorted(queues.items())]

    @override
    async def load_workers(self) -> list[Row]:
        async with self._operation("load_workers"):
            return self._all("workers", records.WORKER_COLUMNS)

    @override
    async def load_pauses(self) -> list[Row]:
        async with self._operation("load_pauses"):
            return self._all("pauses", records.PAUSE_COLUMNS)

    @override
    async def load_variables(self) -> list[Row]:
        async with self._operation("load_variables"):
            return self._all("variables", records.VARIABLE_COLUMNS)

    @override
    async def load_task_definitions(self) -> list[Row]:
        async with self._operation("load_task_definitions"):
            return self._all("task_definitions", records.TASK_DEFINITION_COLUMNS)

    @override
    async def load_workflows(self) -> list[Row]:
        async with self._operation("load_workflows"):
            return [row_of(record, records.WORKFLOW_COLUMNS) for record in self._newest_workflows()]

    @override
    async def load_workflow_heads(self) -> list[Row]:
        async with self._operation("load_workflow_heads"):
            return self._all("workflow_heads", records.WORKFLOW_HEAD_COLUMNS)

    @override
    async def load_request_ids(self, since_ms: int, limit: int) -> list[tuple[str, str, str, bytes]] | None:
        async with self._operation("load_request_ids"):
            found = [
                (record["tenant"], record["request_id"], record["id"], record["request_hash"])
                for table in (self._instances, self._runs)
                for _, record in table.ordered()
                if record["request_id"] is not None and record["created_at"] >= since_ms
            ]
        return found if len(found) <= limit else None

    def _ready(self) -> list[Record]:
        return [record for record in self._instances.rows.values() if record["phase"] == Phase.READY]

    def _all(self, table: str, columns: Sequence[str]) -> list[Row]:
        return [row_of(record, columns) for _, record in self._database.tables[table].ordered()]

    def _newest_workflows(self) -> list[Record]:
        newest = {
            (record["tenant"], record["name"]): record for _, record in self._database.tables["workflows"].ordered()
        }
        return list(newest.values())

    def _with_checkpoint(self, record: Record) -> Row:
        checkpoint = self._database.tables["checkpoints"].rows.get((record["tenant"], record["id"]))
        row = row_of(record, records.INSTANCE_COLUMNS)
        return (*row, checkpoint["data"], checkpoint["number"]) if checkpoint else (*row, None, 0)

    # Questions.

    @override
    async def find_requests(self, kind: Kind, tenant: str, request_ids: Sequence[str]) -> dict[str, Found]:
        async with self._operation("find_requests"):
            found = self._find(kind, "request_id", tenant, request_ids)
        return {record["request_id"]: Found(record["id"], record["request_hash"]) for record in found}

    @override
    async def find_keys(self, kind: Kind, tenant: str, keys: Sequence[str]) -> dict[str, Found]:
        async with self._operation("find_keys"):
            found = self._find(kind, "idempotency_key", tenant, keys)
        return {record["idempotency_key"]: Found(record["id"], None) for record in found}

    def _find(self, kind: Kind, column: str, tenant: str, values: Sequence[str]) -> list[Record]:
        table = self._database.tables[_OWNERS[kind]]
        keys = [table.taken[column].get((tenant, value)) for value in values]
        return [table.rows[key] for key in keys if key is not None]

    @override
    async def get_request(self, tenant: str, request_id: str) -> Row | None:
        async with self._operation("get_request"):
            record = self._database.tables["requests"].rows.get((tenant, request_id))
        return row_of(record, records.REQUEST_COLUMNS) if record else None

    @override
    async def get_instances(self, tenant: str, ids: Sequence[str]) -> list[Row]:
        async with self._operation("get_instances"):
            found = [self._instances.rows.get((tenant, id)) for id in dict.fromkeys(ids)]
        return [self._with_checkpoint(record) for record in found if record is not None]

    @override
    async def list_instances(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        async with self._operation("list_instances"):
            return self._list("instance", tenant, where, after, limit, newest_first)

    @override
    async def list_runs(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        async with self._operation("list_runs"):
            return self._list("run", tenant, where, after, limit, newest_first)

    def _list(
        self,
        kind: Kind,
        tenant: str,
        where: Sequence[Condition],
        after: str | None,
        limit: int,
        newest_first: bool,
    ) -> list[Row]:
        found = self._matching(_OWNERS[kind], tenant, where)
        if newest_first:
            found = [record for record in reversed(found) if after is None or record["id"] < after]
        else:
            found = [record for record in found if after is None or record["id"] > after]
        return [row_of(record, _COLUMNS[kind]) for record in found[:limit]]

    def _matching(self, table: str, tenant: str, where: Sequence[Condition]) -> list[Record]:
        owned = [r for _, r in self._database.tables[table].ordered() if r["tenant"] == tenant]
        return _where(table, owned, where)

    @override
    async def count_records(self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition]) -> int:
        async with self._operation("count_records"):
            return len(self._matching(_OWNERS[kind], tenant, where))

    @override
    async def count_groups(
        self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition], column: str, limit: int
    ) -> Groups:
        async with self._operation("count_groups"):
            if column not in _COLUMNS[kind]:
                raise StoreError.no_column(_OWNERS[kind], column)
            found = Counter(record[column] for record in self._matching(_OWNERS[kind], tenant, where))
        largest = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        return Groups(found.total(), largest[:limit])

    @override
    async def get_attempts(self, tenant: str, id: str) -> list[Row]:
        async with self._operation("get_attempts"):
            attempts = self._matching("attempts", tenant, [Condition("id", "==", id)])
        return [row_of(record, records.ATTEMPT_COLUMNS) for record in attempts]

    @override
    async def get_run(self, tenant: str, id: str) -> Row | None:
        async with self._operation("get_run"):
            record = self._runs.rows.get((tenant, id))
        return row_of(record, records.RUN_COLUMNS) if record else None

    @override
    async def run_instances(self, tenant: str, run_id: str) -> list[Row]:
        async with self._operation("run_instances"):
            found = self._matching("instances", tenant, [Condition("run_id", "==", run_id)])
        return [self._with_checkpoint(record) for record in found]

    @override
    async def get_workflow(self, tenant: str, name: str, version: int) -> Row | None:
        async with self._operation("get_workflow"):
            found = self._matching("workflows", tenant, [Condition("name", "==", name)])
        found = [record for record in found if version in (0, record["version"])]
        return row_of(found[-1], records.WORKFLOW_COLUMNS) if found else None

    @override
    async def list_workflows(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        async with self._operation("list_workflows"):
            owned = [r for r in self._newest_workflows() if r["tenant"] == tenant and r["name"] > after]
            found = _where("workflows", owned, [each for each in where if each.field != "source"])
            headed = [self._head(record) | record for record in found]
            kept = [record for record in headed if record["version"] > record["deleted_version"]]
            kept = _where("workflow_heads", kept, [each for each in where if each.field == "source"])
        return [row_of(record, records.WORKFLOW_COLUMNS) for record in kept[:limit]]

    def _head(self, workflow: Record) -> Record:
        heads = self._database.tables["workflow_heads"].rows
        return heads.get((workflow["tenant"], workflow["name"]), {"source": "", "deleted_version": 0})

    @override
    async def list_task_definitions(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        async with self._operation("list_task_definitions"):
            found = self._matching("task_definitions", tenant, [Condition("name", ">", after), *where])
        return [row_of(record, records.TASK_DEFINITION_COLUMNS) for record in found[:limit]]

    @override
    async def get_artifact(self, tenant: str, id: str) -> Row | None:
        async with self._operation("get_artifact"):
            record = self._database.tables["artifacts"].rows.get((tenant, id))
        return row_of(record, records.ARTIFACT_COLUMNS) if record else None

    @override
    async def list_artifacts(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        async with self._operation("list_artifacts"):
            return self._list("artifact", tenant, where, after, limit, newest_first)

    @override
    async def artifact_holders(self, tenant: str, artifact: str, limit: int) -> list[tuple[str, str]]:
        async with self._operation("artifact_holders"):
            keys = [key for key, _ in self._references() if key[:2] == (tenant, artifact)]
        return [(kind, holder) for _, _, kind, holder in keys[:limit]]

    @override
    async def load_artifacts(self, after: tuple[str, str], limit: int) -> list[tuple[str, str, int, bool]]:
        async with self._operation("load_artifacts"):
            found = [r for key, r in self._database.tables["artifacts"].ordered() if key > after][:limit]
            referred = {key[:2] for key, _ in self._references()}
        return [(r["tenant"], r["id"], r["created_at"], (r["tenant"], r["id"]) in referred) for r in found]

    @override
    async def known_artifacts(self, tenant: str, ids: Sequence[str]) -> set[str]:
        async with self._operation("known_artifacts"):
            known = self._database.tables["artifacts"].rows
            return {id for id in ids if (tenant, id) in known}

    def _references(self) -> list[tuple[Any, Record]]:
        return self._database.tables["artifact_references"].ordered()


def _place(record: Record) -> tuple[int, str]:
    return record["order_key"], record["id"]


def _where(table: str, found: list[Record], where: Sequence[Condition]) -> list[Record]:
    for condition in where:
        if not fits(table, condition.field):
            raise StoreError.no_column(table, condition.field)
        compare, name, value = _OPERATORS[condition.op], condition.field, condition.value
        found = [record for record in found if record[name] is not None and compare(record[name], value)]
    return found
