"""One term of leadership: events go into the engine, batches into the store, effects out when they are committed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from structlog.typing import FilteringBoundLogger

from taskyard_core.engine import Batch, Engine, Event, Standing
from taskyard_core.engine.events import Heartbeat
from taskyard_core.engine.recovery import passed_over, refill, refills
from taskyard_core.ready import HEAD_LIMIT, ReadyQueue
from taskyard_core.records import Row
from taskyard_core.transitions import WorkerState
from taskyard_scheduler.clock import Clock
from taskyard_scheduler.definitions import Definitions
from taskyard_scheduler.egress.assignments import frame
from taskyard_scheduler.ends import RecentEnds
from taskyard_scheduler.metrics import STATUS_NAMES
from taskyard_scheduler.store.port import Deposed, RowsRefused, Store, StoreUnavailable
from taskyard_scheduler.streams import WorkerStream
from taskyard_scheduler.watches import Watches
from taskyard_service.errors import ResourceExhausted, ServiceError, Unavailable
from taskyard_service.metrics import Metrics
from taskyard_service.watchdog import Progress

RETRY_FIRST_S = 0.05
RETRY_CAP_S = 2.0
STALL_LIMIT_S = 5.0
"""After so long without a successful commit new submissions are refused, so that they do not pile up in memory."""
FULL_LIMIT_S = 1.0
"""How long a full disk is tried before those who wait are told. Nobody can say when there will be room again; what
passes by itself, such as a database server that restarts, is worth a longer wait."""
REFILL_ROWS = 2_500
REFILL_RETRY_S = 1.0
SLOW_COMMIT_S = 0.05
"""A commit of so long is taken out of the time that workers have to start what it assigned."""

BATCH_ROWS = 512
"""Rows in a batch that are enough for it: further frames and submissions wait for the next."""
IN_FLIGHT = 2
"""Batches with the store at once: one being written, and a full one behind it, so that it never waits for the loop."""
ROOM_LOOK_S = 1.0
"""How often who waits for room looks whether the database has stopped answering."""
CROWD = HEAD_LIMIT * 3 // 4
"""Tasks waiting in one queue from which on new ones wait for results to make room."""
WAY_LIMIT_S = 0.25
WAY_RECENT_S = 0.1

_REFUSED = (Standing.UNKNOWN, Standing.SUPERSEDED)

Remember = Callable[[Any], Row | None]


@dataclass(eq=False, slots=True)
class _Flight:
    """A batch on its way: sealed, not carried out yet. `commit` is None when it writes nothing."""

    batch: Batch
    since: float  # loop time
    commit: asyncio.Future[None] | None = None
    frames: dict[WorkerStream, list[Any]] = field(default_factory=dict)

    @property
    def landed(self) -> bool:
        return self.commit is None or self.commit.done()


class Leader:
    """The scheduler while it leads.

    Ordering: `handle` and `ask` act on memory at once and in the order of the calls; whatever an event entails leaves
    the process only after the commit that holds it. While a commit is in flight events share the next; one that is
    full follows it into the store at once. Batches are carried out in the order of their sealing.
    """

    def __init__(
        self,
        *,
        scheduler_id: str,
        term: int,
        engine: Engine,
        definitions: Definitions,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        log: FilteringBoundLogger,
        lease_ms: int,
        grace_ms: int,
        progress: Progress,
    ) -> None:
        self._progress = progress
        self.scheduler_id = scheduler_id
        self.term = term
        self.engine = engine
        self.definitions = definitions
        self.store = store
        self.clock = clock
        self.watches = Watches()
        self.ends = RecentEnds()
        self.committed_revision = engine.cluster.revision
        self.ended_counts: dict[tuple[str, int], int] = {}  # by tenant and TaskState, committed in this term
        self.run_ended_counts: dict[tuple[str, int], int] = {}  # by tenant and RunState
        self._metrics = metrics
        self._log = log
        self._lease_ms = lease_ms
        self._grace_ms = grace_ms
        self._wake = asyncio.Event()
        self._flights: deque[_Flight] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._stalled_since: float | None = None
        self._stall: StoreUnavailable | None = None  # why
        self._ended: str | None = None
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._room = asyncio.Event()
        self._turn = asyncio.Event()  # set, and replaced, with each batch that was carried out
        self._last_result = float("-inf")  # loop time
        self._idle = asyncio.Event()
        self._idle.set()

    # Events.

    def handle(self, event: Event) -> Standing:
        """Takes in an event whose effects need no answer. Returns what the engine makes of a worker's word."""
        self._check_open()
        verdict = self.engine.handle(event, self.clock.now())
        if verdict in _REFUSED and (reply := getattr(event, "reply", None)) is not None:
            reply.cancel()  # nobody will ever answer it
        if not isinstance(event, Heartbeat) or self.engine.cluster.active:
            self._kick()
        return verdict

    def future(self) -> asyncio.Future[Any]:
        """Returns what an event carries as its reply; it is answered after the commit, or fails with the leadership."""
        self._check_open()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future: asyncio.Future[Any]) -> None:
        self._waiting.pop(future, None)

    async def ask(self, event: Event, remember: Remember | None = None) -> Any:
        """Takes in an event that has a reply made by `future`; returns its answer once it is committed.

        Args:
            event: The event.
            remember: Makes of the answer a row of REQUEST_COLUMNS that is written in the same commit, or None.
        """
        self.handle(event)
        reply = event.reply  # type: ignore[union-attr]  # only events that have one are asked
        if remember is not None:
            answers = self.engine.cluster.batch.answers
            value = next((value for to, value in reversed(answers) if to is reply), None)
            row = remember(value)
            if row is not None:
                self.engine.cluster.batch.changes.request_inserts.append(row)
        return await reply  # type: ignore[misc]  # it is the future that `future` made

    async def committed(self) -> None:
        """Returns when what has been put into the present batch by hand is committed."""
        future = self.future()
        self.engine.cluster.batch.answers.append((future, None))
        self._kick()
        await future

    def admit(self, count: int) -> None:
        """Lets new work in, or says why not.

        Raises:
            Unavailable: the database has not taken a commit for a while, or its disk is full.
            ResourceExhausted: the cluster has as many live tasks as it may.
        """
        self._check_open()
        if self._stall is not None and self._stalled_long():
            raise Unavailable("DATABASE_UNAVAILABLE", f"{self._stall.sentence}; nothing new is taken: try again")
        limit = self.engine.cluster.limits.pending_limit
        live = self.engine.cluster.live_count()
        if live + count > limit:
            raise ResourceExhausted(
                "PENDING_LIMIT",
                f"{live} tasks have not ended and {limit} may: try again when some have",
                metadata={"live": str(live), "limit": str(limit)},
                retry_after_s=1.0,
            )

    def _kick(self) -> None:
        """There is something to commit or to send."""
        self._idle.clear()
        if not self._flights or self._next_is_due():
            self._wake.set()

    def _next_is_due(self) -> bool:
        """Tells whether the next batch goes into the store behind the one in flight, which nothing is read after."""
        return len(self._flights) < IN_FLIGHT and self._full() and not self._wants_refill()

    def _full(self) -> bool:
        cluster = self.engine.cluster
        return len(cluster.new) + len(cluster.dirty) >= BATCH_ROWS

    async def make_way(self) -> None:
        """Lets results go before new work while workers eat into a queue that is nearly as long as memory holds.

        What would come on top goes to the database and has to be read back, which costs more than a short wait. Nothing
        waits when no results come, when a queue is longer than that already, or for longer than WAY_LIMIT_S.
        """
        await self.room()
        loop = asyncio.get_running_loop()
        until = loop.time() + WAY_LIMIT_S
        while self._crowded() and loop.time() - self._last_result < WAY_RECENT_S and loop.time() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._turn.wait()
            self._check_open()

    async def room(self) -> None:
        """Returns when the batch that is being gathered takes new work.

        So a batch stays small enough that the next is gathered, and the one before carried out, while it is written.
        """
        await self._while(self._full)

    async def room_for_results(self) -> None:
        """Returns when the batch that is being gathered takes results: new work in it is no reason to wait."""
        await self._while(lambda: len(self.engine.cluster.dirty) >= BATCH_ROWS)

    async def _while(self, full: Callable[[], bool]) -> None:
        while full() and self._ended is None and not self._stalled_long():
            self._room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(ROOM_LOOK_S):
                    await self._room.wait()
        self._check_open()

    def _stalled_long(self) -> bool:
        return self._stalled_for() > (FULL_LIMIT_S if self._stall is not None and self._stall.full else STALL_LIMIT_S)

    def _stalled_for(self) -> float:
        """Returns for how long the database has not taken what it was given, in seconds."""
        stalled = self._stalled_since
        return 0.0 if stalled is None else asyncio.get_running_loop().time() - stalled

    def _crowded(self) -> bool:
        return any(queue.live > CROWD and queue.floor is None for queue in self.engine.cluster.queues.values())

    def _check_open(self) -> None:
        if self._ended is not None:
            raise Unavailable("NOT_LEADER", f"this scheduler does not lead any more ({self._ended}): try again")

    @property
    def busy(self) -> bool:
        """Whether something is being committed or waits for it."""
        return not self._idle.is_set()

    # The loop.

    async def run(self) -> str:
        """Commits until the term ends; returns why it did.

        Cancelling it ends the term as well.
        """
        self._arm()
        self._kick()  # what waits in the database alone is read now, whether or not anything else happens
        reason = "stopped"
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._advance()
                if not self._flights and not self._wake.is_set():
                    self._idle.set()
        except Deposed as error:
            reason = "deposed"
            self._log.warning("deposed", error=str(error))
            return reason
        finally:
            self._end(reason)

    async def _advance(self) -> None:
        """Does all that can be done now: seals what goes into the store, carries out what is committed, reads back.

        When the store would stand still, it gets the next batch before the last is carried out, so that neither it nor
        the loop waits for the other.
        """
        flights = self._flights
        while True:
            landed = bool(flights) and flights[0].landed
            if landed and len(flights) > 1:
                await self._land()
            elif landed:
                behind = not self._wants_refill() and self._launch()
                await self._land()
                if not behind and self._wants_refill():
                    await self._refill()
            elif (flights and not self._next_is_due()) or not self._launch():
                if flights or not self._wants_refill():
                    return
                await self._refill()

    def _launch(self) -> bool:
        """Seals what has been gathered and gives it to the store. False when there is nothing."""
        batch = self.engine.seal()
        self._arm()
        self._room.set()  # who waited for room in it has room in the next
        if not (batch.changes.revision or batch.answers or batch.frames or batch.closes):
            return False
        flight = _Flight(batch, asyncio.get_running_loop().time())
        if batch.changes.revision:
            flight.commit = self._begin(batch)
        flight.frames = self._encode(batch)
        self._flights.append(flight)
        return True

    def _begin(self, batch: Batch) -> asyncio.Future[None]:
        commit = asyncio.ensure_future(self.store.commit(self.term, batch.changes))
        commit.add_done_callback(self._committed)
        return commit

    def _committed(self, commit: asyncio.Future[None]) -> None:
        if not commit.cancelled():
            commit.exception()  # seen: when the term ends meanwhile, nobody waits for it any more
        self._wake.set()

    async def _land(self) -> None:
        """Waits for the oldest batch's commit, repeating it until it has happened, and carries the batch out."""
        flight = self._flights[0]
        delay = RETRY_FIRST_S
        while flight.commit is not None:
            try:
                await flight.commit
                break
            except RowsRefused as error:
                await self._come_back()
                self._drop(flight.batch, error)
            except StoreUnavailable as error:
                await self._come_back()
                self._stalled_since = self._stalled_since or flight.since
                self._stall = error
                self._log.warning("commit failed, trying again", error=str(error), wait_s=delay)
                if error.full and self._stalled_long():
                    self._fail_waiting(partial(_not_stored_yet, error))
                await asyncio.sleep(delay)
                delay = min(delay * 2, RETRY_CAP_S)
            for each in self._flights:
                if each.commit is not None:
                    each.commit = self._begin(each.batch)
        self._flights.popleft()
        if flight.commit is not None:
            self._note_commit(flight)
        self._carry_out(flight)

    async def _come_back(self) -> None:
        """Returns when no commit is under way any more: those behind one that failed fail too, or have been written."""
        behind = [flight.commit for flight in self._flights if flight.commit is not None]
        await asyncio.wait(behind)

    def _note_commit(self, flight: _Flight) -> None:
        self._stalled_since = None
        self._progress.mark()
        took = asyncio.get_running_loop().time() - flight.since
        self.engine.committed(flight.batch)
        if took >= SLOW_COMMIT_S:
            self.engine.left(flight.batch, self.clock.now())
            self._arm()
        self._metrics.commit_seconds.observe(took)
        changes = flight.batch.changes
        changed = len(changes.instance_updates) + len(changes.instance_rewrites)
        self._metrics.commit_rows.observe(len(changes.instance_inserts) + changed)

    def _drop(self, batch: Batch, error: RowsRefused) -> None:
        for row in error.rows:
            self._log.error("the database refused a row", kind=row.kind, key=row.key, reason=row.reason)
            self.engine.drop_refused(batch, row.kind, row.key, row.reason)
        for flight in self._flights:
            flight.frames = self._encode(flight.batch)

    def _encode(self, batch: Batch) -> dict[WorkerStream, list[Any]]:
        return {
            stream: frame(outgoing, self._lease_ms, self._grace_ms)  # type: ignore[misc]
            for stream, outgoing in batch.frames.items()
        }

    def _carry_out(self, flight: _Flight) -> None:
        batch = flight.batch
        for stream, ready in flight.frames.items():
            stream.send(ready)
            self._metrics.frames_sent.inc(len(ready))
            for each in ready:
                if each.assignments:
                    self._metrics.tasks_per_frame.observe(len(each.assignments))
        for closed, reason in batch.closes:
            closed.close(reason)  # type: ignore[attr-defined]  # every stream given to the engine is a WorkerStream
        for future, value in batch.answers:
            if not future.done():  # type: ignore[attr-defined]  # every reply given to the engine is a future
                future.set_result(value)  # type: ignore[attr-defined]
        self.ends.take(batch.touched, batch.changes.instance_deletes)
        self.watches.publish(batch.changes.revision, batch.touched, batch.touched_runs)
        self._count(batch)
        turn, self._turn = self._turn, asyncio.Event()
        turn.set()

    def _count(self, batch: Batch) -> None:
        self.committed_revision = batch.changes.revision or self.committed_revision
        if batch.ended:
            self._last_result = asyncio.get_running_loop().time()
        for tenant, task_type, state, milliseconds in batch.ended:
            self.ended_counts[tenant, state] = self.ended_counts.get((tenant, state), 0) + 1
            self._metrics.observe_task(task_type, STATUS_NAMES[state], milliseconds / 1000)
        for key in batch.ended_runs:
            self.run_ended_counts[key] = self.run_ended_counts.get(key, 0) + 1

    def _wants_refill(self) -> bool:
        return any(queue.wants_refill() for queue in self.engine.cluster.queues.values())

    async def _refill(self) -> None:
        """Reads back what waits in the database alone, where there is room for it."""
        for queue in refills(self.engine.cluster):
            order, id = queue.floor or (0, "")
            after = (order, id[:-1])  # a prefix sorts before the id itself: the floor's own row is read too
            held = passed_over(self.engine.cluster, queue)
            try:
                rows = await self.store.load_ready(queue.tenant, queue.key, after, REFILL_ROWS, held)
            except StoreUnavailable as error:
                self._log.warning("refill failed, trying again", error=str(error))
                asyncio.get_running_loop().call_later(REFILL_RETRY_S, self._read_again, queue)
                continue
            refill(self.engine.cluster, queue, rows, more=len(rows) == REFILL_ROWS, held=held)

    def _read_again(self, queue: ReadyQueue) -> None:
        """Lets a queue be read whose reading failed; until now it has counted as being read."""
        queue.refilling = False
        self._kick()

    # Time.

    def _arm(self) -> None:
        """Sets the timer to the engine's next deadline."""
        deadline = self.engine.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = max(0, deadline - self.clock.now()) / 1000
        self._timer_at = deadline
        self._timer = asyncio.get_running_loop().call_later(wait + 0.0005, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.engine.tick(self.clock.now())
        self._kick()
        self._arm()

    # The end.

    async def quiesce(self, timeout_s: float) -> None:
        """Takes in nothing more and returns when everything taken in is committed, or after the timeout."""
        self._ended = self._ended or "it is stopping"
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()

    def _end(self, reason: str) -> None:
        self._ended = reason
        if self._timer is not None:
            self._timer.cancel()
        for worker in self.engine.cluster.fleet.workers.values():
            if isinstance(worker.stream, WorkerStream):
                worker.stream.close("NOT_LEADER")
        self._room.set()
        self.watches.end_all("NOT_LEADER")
        self._fail_waiting(_unknown_outcome)

    def _fail_waiting(self, why: Callable[[], ServiceError]) -> None:
        """Tells everyone who waits for a commit that it is not known what will become of what they asked."""
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(why())
                future.exception()  # a call that still reads what it needs before it asks learns it there: not a fault

    def workers_healthy(self) -> int:
        """Returns how many workers take tasks."""
        return sum(worker.state == WorkerState.HEALTHY for worker in self.engine.cluster.fleet.workers.values())

    def stalled(self) -> bool:
        """Tells whether the database does not take commits."""
        return self._stalled_since is not None


def _unknown_outcome() -> ServiceError:
    return Unavailable(
        "OUTCOME_UNKNOWN", "this scheduler stopped leading before the answer was certain: repeat the same request"
    )


def _not_stored_yet(error: StoreUnavailable) -> ServiceError:
    # Not Unavailable, which clients try again by themselves: they would wait here again, and be told less.
    return ResourceExhausted(
        "STORAGE_FULL",
        f"{error.sentence}; what was asked is not stored yet and may still be done once there is room: "
        "repeat the same request then to know",
    )
