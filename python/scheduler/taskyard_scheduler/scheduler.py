"""A scheduler process: it campaigns, leads for a term, and campaigns again. Transport and servers are elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from structlog.typing import FilteringBoundLogger

from taskyard_core.engine import Engine, Limits
from taskyard_core.engine.events import Accepted, Outcome, Refused
from taskyard_scheduler.clock import Clock
from taskyard_scheduler.definitions import Definitions
from taskyard_scheduler.leader import Leader
from taskyard_scheduler.recovery import recover
from taskyard_scheduler.store.port import Deposed, Election, Store, StoreUnavailable
from taskyard_service.errors import Unavailable
from taskyard_service.lifecycle import end_tasks
from taskyard_service.metrics import Metrics
from taskyard_service.watchdog import Progress

CAMPAIGN_RETRY_S = 1.0
QUIESCE_S = 5.0
"""How long a scheduler that stops waits for what it has taken in to be committed."""


class Scheduler:
    """One scheduler of a cluster.

    Follows `campaign -> begin_term -> recover -> lead` for ever. While it does not lead, `leader` refuses.
    """

    def __init__(
        self,
        *,
        scheduler_id: str,
        store: Store,
        election: Election,
        limits: Limits,
        wall: Callable[[], int],
        rng: random.Random,
        metrics: Metrics,
        log: FilteringBoundLogger,
        on_leading: Callable[[bool], Awaitable[None]] | None = None,
    ) -> None:
        """Takes everything that it depends on.

        Args:
            scheduler_id: Its name, for people.
            store: Opened by the caller.
            election: How the leader is chosen.
            limits: The numbers of the engine.
            wall: Returns Unix milliseconds.
            rng: Source of ids, tokens, jitter and ties.
            metrics: Where figures go.
            log: Where events go.
            on_leading: Awaited with True when it begins to lead and with False when it has stopped.
        """
        self.scheduler_id = scheduler_id
        self.store = store
        self.limits = limits
        self.metrics = metrics
        self._election = election
        self._wall = wall
        self._rng = rng
        self.log = log
        self._on_leading = on_leading
        self._leader: Leader | None = None
        self.progress = Progress()

    def has_work(self) -> bool:
        """Whether a commit is due; `progress` counts those that were made."""
        return self._leader is not None and self._leader.busy

    @property
    def leading(self) -> bool:
        """Whether it leads now."""
        return self._leader is not None

    def leader(self) -> Leader:
        """Returns the present term.

        Raises:
            Unavailable: it does not lead.
        """
        if self._leader is None:
            raise Unavailable(
                "NOT_LEADER", f"scheduler {self.scheduler_id} does not lead: use another address, or try again"
            )
        return self._leader

    def count_submissions(self, outcomes: Sequence[Outcome]) -> None:
        """Counts what became of submitted items."""
        refused = sum(isinstance(outcome, Refused) for outcome in outcomes)
        repeated = sum(isinstance(outcome, Accepted) and outcome.repeated for outcome in outcomes)
        self.metrics.submitted_refused.inc(refused)
        self.metrics.submitted_repeated.inc(repeated)
        self.metrics.submitted_accepted.inc(len(outcomes) - refused - repeated)

    async def run(self) -> None:
        """Campaigns and leads until it is cancelled."""
        try:
            while True:
                await self._election.campaign()
                try:
                    await self._lead()
                except StoreUnavailable as error:
                    self.log.warning("the database went away, campaigning again", error=str(error))
                    await asyncio.sleep(CAMPAIGN_RETRY_S)
                except Deposed as error:
                    self.log.warning("another scheduler leads", error=str(error))
                await self._election.resign()
        finally:
            await self._election.resign()

    async def _lead(self) -> None:
        clock = Clock(self._wall, asyncio.get_running_loop().time)
        start = await self.store.begin_term(self.scheduler_id, clock.now())
        engine = Engine(
            start.term,
            start.revision,
            random_bits=self._rng.getrandbits,
            random=self._rng.random,
            limits=self.limits,
        )
        definitions = Definitions(self.store, engine.cluster.workflows)
        await recover(engine, definitions, self.store, clock.now())
        leader = Leader(
            scheduler_id=self.scheduler_id,
            term=start.term,
            engine=engine,
            definitions=definitions,
            store=self.store,
            clock=clock,
            metrics=self.metrics,
            log=self.log.bind(term=start.term),
            lease_ms=self.limits.lease_ms,
            grace_ms=self.limits.cancel_grace_ms,
            progress=self.progress,
        )
        self.log.info("leading", term=start.term, revision=start.revision, live=engine.cluster.live_count())
        await self._serve(leader)

    async def _serve(self, leader: Leader) -> None:
        """Serves one term until leadership is lost, the term is deposed, or the process stops."""
        serving = asyncio.create_task(leader.run(), name="leader")
        losing = asyncio.create_task(self._election.lost(), name="leadership lost")
        try:
            if self._on_leading is not None:
                await self._on_leading(True)
            self._leader = leader
            done, _ = await asyncio.wait({serving, losing}, return_when=asyncio.FIRST_COMPLETED)
            if serving in done:
                self.log.warning("term ended", reason=serving.result())
            else:
                losing.result()
                self.log.warning("leadership lost")
        except asyncio.CancelledError:
            await leader.quiesce(QUIESCE_S)
            raise
        finally:
            self._leader = None
            try:
                await end_tasks((serving, losing), self.log)
            finally:
                if self._on_leading is not None:
                    await self._on_leading(False)
