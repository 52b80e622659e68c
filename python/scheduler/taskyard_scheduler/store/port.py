"""The store port: what the scheduler asks of a database. The one contract for SQLite, MariaDB and memory.

No SQL here and no decisions. One conformance suite runs on every implementation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from taskyard_core.pauses import NONE_HELD, HeldRuns
from taskyard_core.records import Changes, Row


class StoreError(Exception):
    """The store could not do what it was asked."""

    @classmethod
    def out_of_order(cls, revision: int, last: int, term: int) -> StoreError:
        """The error of a commit whose revision is not the next one."""
        return cls(f"commit {revision} does not follow {last}, the last one, which term {term} wrote or found")

    @classmethod
    def no_column(cls, table: str, column: str) -> StoreError:
        """The error of a filter by what does not exist."""
        return cls(f"{table} has no column {column!r} to filter by")


class StoreUnavailable(StoreError):
    """The database is unreachable, busy, full or restarting: try again, the same call is safe to repeat.

    Args:
        message: What is wrong, for the scheduler's log.
        told: What anybody may be told of it: no path, address or name. Empty: nothing.
        full: There is no room left. That does not pass by itself, as most else does.
    """

    def __init__(self, message: str, told: str = "", *, full: bool = False) -> None:
        super().__init__(message)
        self.told = told
        self.full = full

    @property
    def sentence(self) -> str:
        """What a client is told."""
        return f"the database does not answer ({self.told})" if self.told else "the database does not answer"


class Deposed(StoreError):
    """Another scheduler leads: this term has ended and writes nothing any more."""

    @classmethod
    def by(cls, term: int, present: int) -> Deposed:
        """The error of a term that is not the present one."""
        return cls(f"term {term} has ended, the present one is {present}: another scheduler leads")


class SchemaTooNew(StoreError):
    """The database was made by a newer version of Taskyard: upgrade this scheduler, or restore a backup."""


class StoreHeld(StoreError):
    """Another process holds the database: stop it, or wait until it ends."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that is not taken. `kind` names the list in Changes, `key` is (tenant, id) or like it.

    `reason` is `request_id is taken`, `idempotency_key is taken`, `id is taken` and the like (the column,
    then "is taken"), `there is no such row` for an update of what does not exist, or else the database's own
    words.
    """

    kind: str
    key: tuple[str, ...]
    reason: str


class ElectionConflict(StoreError):
    """The cluster elects its leader by other means: configure this scheduler alike."""

    @classmethod
    def between(cls, recorded: str, wanted: str) -> ElectionConflict:
        """The error of a scheduler that is configured for another election than the recorded one."""
        return cls(
            f"the cluster elects its leader by {recorded!r}, and this scheduler wants {wanted!r}: "
            f"set its election to {recorded!r}, since two ways of electing would make two leaders"
        )


class RowsRefused(StoreError):
    """Some rows of a commit break a rule of the database. Nothing of that commit was written."""

    def __init__(self, rows: Sequence[RefusedRow]) -> None:
        super().__init__(f"{len(rows)} rows refused, first: {rows[0]}")
        self.rows = list(rows)


@dataclass(frozen=True, slots=True)
class TermStart:
    """A new term. `revision` is the number of the last commit."""

    term: int
    revision: int


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a filter. Fields are column names; values have its type. NULL matches nothing.

    `has` asks whether a text contains another, bytewise.
    """

    field: str
    op: Literal["==", "!=", "<", "<=", ">", ">=", "in", "has"]
    value: str | int | tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """An earlier submission: its id, and its payload's hash when it was found by request id."""

    id: str
    request_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Groups:
    """How many records there are, and how many of them have each value of a column, the most frequent first."""

    count: int
    largest: Sequence[tuple[str | int, int]]


class Store(Protocol):
    """A database that holds the scheduler's state.

    Every method may raise StoreUnavailable. All but `commit` and `begin_term` only read; reads see every
    commit that was answered before the read was asked for. Calls may overlap; commits are carried out one after
    the other in the order in which they were asked for.
    """

    name: str
    """`sqlite`, `mysql` or `memory`."""

    async def open(self) -> None:
        """Connects and brings the schema up to date under a lock.

        Raises:
            SchemaTooNew: a newer version made the database.
            StoreHeld: another process holds the file.
        """

    async def close(self) -> None:
        """Lets go of every connection. May be called twice."""

    async def begin_term(self, holder: str, now_ms: int) -> TermStart:
        """Starts a new term: the one before plus one. From now on commits of older terms raise Deposed."""
        ...

    async def record_election(self, kind: str) -> None:
        """Records how this cluster elects its leader, once for ever. To be called before the first campaign.

        Raises:
            ElectionConflict: another kind is recorded.
        """

    async def settings(self) -> dict[str, str]:
        """What decides how durable a commit is, in the database's own names, and the database's version."""
        ...

    def commit(self, term: int, changes: Changes) -> Awaitable[None]:
        """Writes all of it or nothing, durably, having proved `term` in the same transaction.

        May be asked for while the commit before is under way: it follows that one. When that one is not written, this
        one is not either, and fails as out of order: ask for both again.

        A key occurs at most once in each list. A deleted instance takes its attempts and its checkpoint with
        it.

        Idempotent: when the outcome of an earlier call was unknown, repeating it with the same revision
        writes nothing twice, also when later commits of the term have been written since.

        Raises:
            Deposed: `term` is not the present one; nothing was written.
            RowsRefused: some rows break a rule of the database (found by bisection); nothing was written.
            StoreUnavailable: the outcome is unknown; call again with the same changes.
            StoreError: the revision is not the one before plus one, or the database is damaged; nothing was
                written.
        """
        ...

    # Recovery: everything that lives, by pages in the order of the key. Each row is in the order of the
    # columns.

    async def load_runs(self, after: tuple[str, str], limit: int) -> list[Row]:
        """Runs that have not ended: RUN_COLUMNS, by (tenant, id), after the given key."""
        ...

    async def load_instances(self, phase: int, after: tuple[str, str], limit: int) -> list[Row]:
        """Instances that are PENDING or IN_FLIGHT: INSTANCE_COLUMNS + (checkpoint or None, number or 0)."""
        ...

    async def load_ready(
        self, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns = NONE_HELD
    ) -> list[Row]:
        """READY instances of a queue with (order_key, id) > after, in that order; rows as load_instances.

        `but`: steps of these workflows and runs are left out.
        """
        ...

    async def count_ready(self) -> list[tuple[str, str, int, int]]:
        """(tenant, queue, how many are READY, smallest order_key) for every queue that is not empty."""
        ...

    async def load_workers(self) -> list[Row]:
        """All of WORKER_COLUMNS."""
        ...

    async def load_pauses(self) -> list[Row]:
        """PAUSE_COLUMNS of all that is held back."""
        ...

    async def load_variables(self) -> list[Row]:
        """VARIABLE_COLUMNS of all tenants."""
        ...

    async def load_task_definitions(self) -> list[Row]:
        """All of TASK_DEFINITION_COLUMNS."""
        ...

    async def load_workflows(self) -> list[Row]:
        """The newest version of each workflow, deleted ones too: WORKFLOW_COLUMNS."""
        ...

    async def load_workflow_heads(self) -> list[Row]:
        """WORKFLOW_HEAD_COLUMNS of all tenants."""
        ...

    async def load_request_ids(self, since_ms: int, limit: int) -> list[tuple[str, str, str, bytes]] | None:
        """(tenant, request_id, id, hash) of instances and runs created since then; None if too many."""
        ...

    # Questions.

    async def find_requests(
        self, kind: Literal["instance", "run"], tenant: str, request_ids: Sequence[str]
    ) -> dict[str, Found]:
        """Which of these request ids made an instance or run."""
        ...

    async def find_keys(self, kind: Literal["instance", "run"], tenant: str, keys: Sequence[str]) -> dict[str, Found]:
        """Which of these idempotency keys made an instance or run."""
        ...

    async def get_request(self, tenant: str, request_id: str) -> Row | None:
        """REQUEST_COLUMNS of an earlier call."""
        ...

    async def get_instances(self, tenant: str, ids: Sequence[str]) -> list[Row]:
        """INSTANCE_COLUMNS + (checkpoint, number) of those that exist, in no order."""
        ...

    async def list_instances(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        """INSTANCE_COLUMNS by id, the order of creation, beyond `after` in the direction of travel."""
        ...

    async def count_records(self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition]) -> int:
        """How many instances, or runs, meet the conditions."""
        ...

    async def count_groups(
        self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition], column: str, limit: int
    ) -> Groups:
        """How many instances, or runs, meet the conditions, and how many have each value of a column.

        The largest `limit` groups, then by value; all of it as of one moment. The column is never NULL.

        Raises:
            StoreError: There is no such column.
        """
        ...

    async def get_attempts(self, tenant: str, id: str) -> list[Row]:
        """ATTEMPT_COLUMNS of the attempts that were followed by another, in order."""
        ...

    async def get_run(self, tenant: str, id: str) -> Row | None:
        """RUN_COLUMNS."""
        ...

    async def run_instances(self, tenant: str, run_id: str) -> list[Row]:
        """INSTANCE_COLUMNS + (checkpoint, number) of a run's steps, in no order."""
        ...

    async def list_runs(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        """RUN_COLUMNS by id, the order of creation, beyond `after` in the direction of travel."""
        ...

    async def get_workflow(self, tenant: str, name: str, version: int) -> Row | None:
        """WORKFLOW_COLUMNS of one version, deleted or not; 0 for the newest."""
        ...

    async def list_workflows(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        """WORKFLOW_COLUMNS, the newest version of each that is not deleted, by name, after the given one.

        `where` may ask for the head's `source` too, which is "" where there is no head.
        """
        ...

    async def list_task_definitions(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        """TASK_DEFINITION_COLUMNS by name, after the given one."""
        ...

    async def get_artifact(self, tenant: str, id: str) -> Row | None:
        """ARTIFACT_COLUMNS."""
        ...

    async def list_artifacts(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        """ARTIFACT_COLUMNS by id, the order of creation, beyond `after` in the direction of travel."""
        ...

    async def artifact_holders(self, tenant: str, artifact: str, limit: int) -> list[tuple[str, str]]:
        """(kind, name) of what refers to an artifact, in order."""
        ...

    async def load_artifacts(self, after: tuple[str, str], limit: int) -> list[tuple[str, str, int, bool]]:
        """(tenant, id, created_at, whether anything refers to it) by (tenant, id), after the given key."""
        ...

    async def known_artifacts(self, tenant: str, ids: Sequence[str]) -> set[str]:
        """Which of these artifacts there are."""
        ...


class Election(Protocol):
    """Who leads. Winning is followed by `Store.begin_term`; the term, not the election, fences writes."""

    name: str
    """`local`, `database` or `etcd`: recorded in SQL as a fact of the cluster."""

    async def campaign(self) -> None:
        """Returns when this process has won. Cancellable."""

    async def lost(self) -> None:
        """Returns when leadership was lost or can no longer be proved. Only after `campaign` returned."""

    async def resign(self) -> None:
        """Lets another win at once. May be called at any time."""
