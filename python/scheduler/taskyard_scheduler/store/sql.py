"""The store port over a SQL database: threads, transactions, the proof of the term, refused rows.

What differs between databases is in `Dialect`: how to connect, how rows are written in bulk, what errors
mean.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from typing_extensions import override

from taskyard_core.pauses import NONE_HELD, HeldRuns
from taskyard_core.records import Changes, Row
from taskyard_scheduler.store import reads
from taskyard_scheduler.store.lane import Keepalive, Lane
from taskyard_scheduler.store.port import (
    Condition,
    Deposed,
    ElectionConflict,
    Found,
    Groups,
    RowsRefused,
    Store,
    StoreError,
    StoreUnavailable,
    TermStart,
)
from taskyard_scheduler.store.references import with_references
from taskyard_scheduler.store.refused import find_refused, units_of
from taskyard_scheduler.store.tables import CLUSTER
from taskyard_scheduler.store.writes import BadRow, Cursor, Writer

T = TypeVar("T")

COMMITS: Final = "commits"
READS: Final = "reads"
LISTS: Final = "lists"


class Dialect(Protocol):
    """What one kind of database needs beyond standard SQL."""

    name: str
    writer: Writer
    begin_statement: str
    driver_errors: tuple[type[Exception], ...]
    keepalive: Keepalive[Connection] | None
    """How the connection that writes is kept while there is nothing to write; None: nothing ends it."""

    def hold(self) -> None:
        """Makes sure that this process may use the database.

        Raises:
            StoreHeld: another process does.
        """

    def release(self) -> None:
        """Lets go of what `hold` took. May be called twice."""

    def connect(self, *, writes: bool) -> Connection:
        """Makes a connection in autocommit mode. Runs on the thread that will use it.

        Args:
            writes: it will hold locks that others wait for, so they must not outlast its owner.
        """
        ...

    def migrate(self, connection: Connection) -> None:
        """Brings the schema up to date, under a lock that other schedulers respect."""

    def settings(self, connection: Connection) -> dict[str, str]:
        """What decides how durable a commit is."""
        ...

    def translate(self, raised: Exception) -> StoreError | None:
        """Says what an error means to the store's caller; None when it is about what was asked."""
        ...


class SqlStore(Store):
    """The store port on a SQL database.

    Three threads with a connection each: commits; what the scheduler itself reads; and lists, so that
    somebody's slow filter holds up neither.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Connects to nothing yet."""
        self.name = dialect.name
        self._dialect = dialect
        self._lanes: dict[str, Lane[Connection]] = {}

    @override
    async def open(self) -> None:
        self._dialect.hold()
        self._lanes = {role: self._make_lane(role) for role in (COMMITS, READS, LISTS)}
        try:
            await self._lane(COMMITS).run(self._dialect.migrate)
        except BaseException:
            await self.close()
            raise

    def _make_lane(self, role: str) -> Lane[Connection]:
        connect = partial(self._dialect.connect, writes=role == COMMITS)
        keepalive = self._dialect.keepalive if role == COMMITS else None
        return Lane(f"store-{role}", connect, disconnect, self._translate, keepalive)

    def _lane(self, role: str) -> Lane[Connection]:
        lane = self._lanes.get(role)
        if lane is None:
            raise StoreError("the store is not open")
        return lane

    @override
    async def close(self) -> None:
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            await lane.close()
        self._dialect.release()

    def _translate(self, raised: Exception) -> tuple[Exception, bool]:
        """Gives what the caller gets, and whether the connection is still good."""
        if isinstance(raised, StoreError):
            return raised, not isinstance(raised, StoreUnavailable)
        error = self._dialect.translate(raised)
        if error is None and isinstance(raised, (DBAPIError, *self._dialect.driver_errors)):
            error = StoreError(f"{self.name} refuses what it was asked: {_words(raised)}")
        return error or raised, False

    # Writing.

    @override
    async def begin_term(self, holder: str, now_ms: int) -> TermStart:
        return await self._lane(COMMITS).run(partial(self._begin_term, holder, now_ms))

    def _begin_term(self, holder: str, now_ms: int, connection: Connection) -> TermStart:
        next_term = sa.update(CLUSTER).values(term=CLUSTER.c.term + 1, holder=holder, term_started_at=now_ms)
        with self._transaction(connection) as cursor:
            connection.execute(next_term)
            started = TermStart(*_term_and_revision(cursor))
        return started

    @override
    async def record_election(self, kind: str) -> None:
        await self._lane(COMMITS).run(partial(self._record_election, kind))

    def _record_election(self, kind: str, connection: Connection) -> None:
        with self._transaction(connection):
            connection.execute(sa.update(CLUSTER).where(CLUSTER.c.election == "").values(election=kind))
            recorded = connection.scalar(sa.select(CLUSTER.c.election))
        if recorded != kind:
            raise ElectionConflict.between(str(recorded), kind)

    @override
    async def settings(self) -> dict[str, str]:
        return await self._lane(READS).run(self._dialect.settings)

    @override
    def commit(self, term: int, changes: Changes) -> Awaitable[None]:
        return self._lane(COMMITS).start(partial(self._commit, term, changes))

    def _commit(self, term: int, changes: Changes, connection: Connection) -> None:
        changes = with_references(changes)
        try:
            with self._transaction(connection) as cursor:
                if self._prove(cursor, term, changes.revision):
                    self._dialect.writer.write(cursor, changes)
        except Exception as raised:
            if not self._is_a_rows_fault(raised):
                raise
            raise self._refusal(connection, term, changes, raised) from raised

    def _is_a_rows_fault(self, raised: Exception) -> bool:
        kinds = (BadRow, UnicodeEncodeError, OverflowError, DBAPIError, *self._dialect.driver_errors)
        return isinstance(raised, kinds) and self._dialect.translate(raised) is None

    def _prove(self, cursor: DBAPICursor, term: int, revision: int) -> bool:
        """Moves the revision if the term is the present one. False: this commit was written before."""
        cursor.execute(self._dialect.writer.prove, (revision, term, revision - 1))
        if cursor.rowcount:
            return True
        present, reached = _term_and_revision(cursor)
        if present != term:
            raise Deposed.by(term, present)
        if reached >= revision:
            return False
        raise StoreError.out_of_order(revision, reached, term)

    def _refusal(self, connection: Connection, term: int, changes: Changes, raised: Exception) -> StoreError:
        """Finds the rows that a commit failed on, trying its parts in a transaction that is rolled back."""
        with self._transaction(connection, keep=False) as cursor:
            self._prove(cursor, term, changes.revision)
            rows = find_refused(units_of(changes), partial(self._try, cursor), self._dialect.writer.reason)
        if rows:
            return RowsRefused(rows)
        return StoreError(f"{self.name} refused a commit, and no row of it alone: {raised}")

    def _try(self, cursor: Cursor, part: Changes) -> Exception | None:
        """Writes a part on top of what was tried before. Undoes it and returns what was raised, or None."""
        cursor.execute("SAVEPOINT trial")
        try:
            self._dialect.writer.write(cursor, part)
        except Exception as raised:
            if not self._is_a_rows_fault(raised):
                raise
            cursor.execute("ROLLBACK TO SAVEPOINT trial")
            return raised
        cursor.execute("RELEASE SAVEPOINT trial")
        return None

    @contextmanager
    def _transaction(self, connection: Connection, *, keep: bool = True) -> Iterator[DBAPICursor]:
        """Runs a transaction on the driver's own cursor; `connection` is in it too."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(self._dialect.begin_statement)
            yield cursor
            cursor.execute("COMMIT" if keep else "ROLLBACK")
        except BaseException:
            with suppress(*self._dialect.driver_errors):  # then the connection is lost, as the first error says
                cursor.execute("ROLLBACK")
            raise
        finally:
            cursor.close()

    # Reading.

    async def _read(self, work: Callable[..., T], *args: Any) -> T:
        return await self._lane(READS).run(lambda connection: work(connection, *args))

    async def _list(self, work: Callable[..., T], *args: Any) -> T:
        return await self._lane(LISTS).run(lambda connection: work(connection, *args))

    @override
    async def load_runs(self, after: tuple[str, str], limit: int) -> list[Row]:
        return await self._read(reads.load_runs, after, limit)

    @override
    async def load_instances(self, phase: int, after: tuple[str, str], limit: int) -> list[Row]:
        return await self._read(reads.load_instances, phase, after, limit)

    @override
    async def load_ready(
        self, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns = NONE_HELD
    ) -> list[Row]:
        return await self._read(reads.load_ready, tenant, queue, after, limit, but)

    @override
    async def count_ready(self) -> list[tuple[str, str, int, int]]:
        return await self._read(reads.count_ready)

    @override
    async def load_workers(self) -> list[Row]:
        return await self._read(reads.load_workers)

    @override
    async def load_pauses(self) -> list[Row]:
        return await self._read(reads.load_pauses)

    @override
    async def load_variables(self) -> list[Row]:
        return await self._read(reads.load_variables)

    @override
    async def load_task_definitions(self) -> list[Row]:
        return await self._read(reads.load_task_definitions)

    @override
    async def load_workflows(self) -> list[Row]:
        return await self._read(reads.load_workflows)

    @override
    async def load_workflow_heads(self) -> list[Row]:
        return await self._read(reads.load_workflow_heads)

    @override
    async def load_request_ids(self, since_ms: int, limit: int) -> list[tuple[str, str, str, bytes]] | None:
        return await self._read(reads.load_request_ids, since_ms, limit)

    @override
    async def find_requests(
        self, kind: Literal["instance", "run"], tenant: str, request_ids: Sequence[str]
    ) -> dict[str, Found]:
        return await self._read(reads.find_requests, kind, tenant, request_ids)

    @override
    async def find_keys(self, kind: Literal["instance", "run"], tenant: str, keys: Sequence[str]) -> dict[str, Found]:
        return await self._read(reads.find_keys, kind, tenant, keys)

    @override
    async def get_request(self, tenant: str, request_id: str) -> Row | None:
        return await self._read(reads.get_request, tenant, request_id)

    @override
    async def get_instances(self, tenant: str, ids: Sequence[str]) -> list[Row]:
        return await self._read(reads.get_instances, tenant, ids)

    @override
    async def list_instances(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        return await self._list(reads.list_records, "instance", tenant, where, after, limit, newest_first)

    @override
    async def count_records(self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition]) -> int:
        return await self._list(reads.count_records, kind, tenant, where)

    @override
    async def count_groups(
        self, kind: Literal["instance", "run"], tenant: str, where: Sequence[Condition], column: str, limit: int
    ) -> Groups:
        return await self._list(reads.count_groups, kind, tenant, where, column, limit)

    @override
    async def get_attempts(self, tenant: str, id: str) -> list[Row]:
        return await self._read(reads.get_attempts, tenant, id)

    @override
    async def get_run(self, tenant: str, id: str) -> Row | None:
        return await self._read(reads.get_run, tenant, id)

    @override
    async def run_instances(self, tenant: str, run_id: str) -> list[Row]:
        return await self._read(reads.run_instances, tenant, run_id)

    @override
    async def list_runs(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        return await self._list(reads.list_records, "run", tenant, where, after, limit, newest_first)

    @override
    async def get_workflow(self, tenant: str, name: str, version: int) -> Row | None:
        return await self._read(reads.get_workflow, tenant, name, version)

    @override
    async def list_workflows(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        return await self._list(reads.list_workflows, tenant, where, after, limit)

    @override
    async def list_task_definitions(self, tenant: str, where: Sequence[Condition], after: str, limit: int) -> list[Row]:
        return await self._list(reads.list_task_definitions, tenant, where, after, limit)

    @override
    async def get_artifact(self, tenant: str, id: str) -> Row | None:
        return await self._read(reads.get_artifact, tenant, id)

    @override
    async def list_artifacts(
        self, tenant: str, where: Sequence[Condition], after: str | None, limit: int, *, newest_first: bool
    ) -> list[Row]:
        return await self._list(reads.list_records, "artifact", tenant, where, after, limit, newest_first)

    @override
    async def artifact_holders(self, tenant: str, artifact: str, limit: int) -> list[tuple[str, str]]:
        return await self._read(reads.artifact_holders, tenant, artifact, limit)

    @override
    async def load_artifacts(self, after: tuple[str, str], limit: int) -> list[tuple[str, str, int, bool]]:
        return await self._list(reads.load_artifacts, after, limit)

    @override
    async def known_artifacts(self, tenant: str, ids: Sequence[str]) -> set[str]:
        return await self._list(reads.known_artifacts, tenant, ids)


def _term_and_revision(cursor: DBAPICursor) -> tuple[int, int]:
    cursor.execute("SELECT term, revision FROM cluster")
    [(term, revision)] = cursor.fetchall()
    return term, revision


def disconnect(connection: Connection) -> None:
    """Ends a connection, whatever state it is in."""
    connection.invalidate()  # first, so that nothing is said to a server that may be gone
    connection.close()


def _words(raised: Exception) -> str:
    """The database's own words, without SQL and parameters."""
    return str(getattr(raised, "orig", None) or raised)
