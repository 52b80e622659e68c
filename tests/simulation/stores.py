"""The store in memory as simulated processes reach it: slow, failing before or after it wrote, or gone for a while.

What is really written goes to the ledger.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from simulation.ledger import Ledger
from simulation.trace import Trace
from taskyard_core.pauses import NONE_HELD, HeldRuns
from taskyard_core.records import INSTANCE_UPDATE, SUCCESS, Changes, Row
from taskyard_scheduler.store.memory import MemoryDatabase, MemoryStore
from taskyard_scheduler.store.port import RefusedRow, RowsRefused, StoreUnavailable

READ_S = (0.0005, 0.002)
COMMIT_S = (0.001, 0.006)
OUTAGE_S = 0.3
"""How long a call takes to find out that the database is gone."""
_STATE = INSTANCE_UPDATE.index("state")


@dataclass(slots=True)
class Weather:
    """How the database does at present; the fault plan changes it."""

    slowness: float = 1.0
    fail_before: float = 0.0
    fail_after: float = 0.0
    refuse: float = 0.0
    gone: bool = False


class SimStore(MemoryStore):
    """One scheduler's connection to the shared database.

    Args:
        database: What is shared.
        weather: How it does.
        rng: Draws times and failures.
        ledger: Told of each commit.
        trace: Told of each failure.
        name: The scheduler's name.
    """

    def __init__(
        self, database: MemoryDatabase, weather: Weather, rng: random.Random, ledger: Ledger, trace: Trace, name: str
    ) -> None:
        super().__init__(database, self._fault)
        self._weather = weather
        self._rng = rng
        self._ledger = ledger
        self._trace = trace
        self._name = name

    async def _fault(self, point: str) -> None:
        weather = self._weather
        when, _, method = point.partition(":")
        if method == "begin_term" and when == "after":
            self._ledger.term_began(self._database.term, self._name)
        if method == "commit":
            await asyncio.sleep(self._rng.uniform(*COMMIT_S) * weather.slowness / 2)
        elif when == "before":
            await asyncio.sleep(self._rng.uniform(*READ_S) * weather.slowness)
        if weather.gone:
            await asyncio.sleep(OUTAGE_S)
            self._fail(point, "store outage")
        if method != "commit":
            return
        chance = weather.fail_before if when == "before" else weather.fail_after
        if chance and self._rng.random() < chance:
            self._fail(point, f"commit fails {when} writing")

    def _fail(self, point: str, fault: str) -> None:
        self._trace.faults[fault] += 1
        self._trace.note(self._name, f"{fault} ({point})")
        raise StoreUnavailable(fault)

    async def commit(self, term: int, changes: Changes) -> None:
        self._trace.facts["commits that follow another at once"] += self._turn.locked()
        await super().commit(term, changes)

    async def load_ready(
        self, tenant: str, queue: str, after: tuple[int, str], limit: int, but: HeldRuns = NONE_HELD
    ) -> list[Row]:
        rows = await super().load_ready(tenant, queue, after, limit, but)
        self._trace.facts["tasks read back"] += len(rows)
        return rows

    def _commit(self, term: int, changes: Changes) -> None:
        before = self._database.revision
        if self._database.term == term and before == changes.revision - 1:
            self._refuse(changes)
        super()._commit(term, changes)
        if self._database.revision != before:
            self._ledger.committed(term, changes)
        else:
            self._trace.facts["commits repeated"] += 1

    def _refuse(self, changes: Changes) -> None:
        chance = self._weather.refuse
        if not chance:
            return
        refused = [
            RefusedRow("instance_updates", (row[0], row[1]), "the simulated database does not like it")
            for row in changes.instance_updates
            if row[_STATE] == SUCCESS and self._rng.random() < chance
        ]
        if refused:
            self._trace.faults["row refused"] += len(refused)
            raise RowsRefused(refused)
