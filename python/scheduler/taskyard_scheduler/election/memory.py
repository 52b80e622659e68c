"""Election in memory, for the simulation: deterministic, first come first served, and leadership can be taken away."""

from __future__ import annotations

import asyncio
from collections import deque

from typing_extensions import override

from taskyard_scheduler.store.port import Election


class Ballot:
    """What the candidates of one simulated cluster share."""

    def __init__(self) -> None:
        self.leader: MemoryElection | None = None
        self._waiting: deque[MemoryElection] = deque()

    def enter(self, candidate: MemoryElection) -> None:
        """Lets a candidate lead, or wait behind those who came before."""
        self._waiting.append(candidate)
        self._settle()

    def leave(self, candidate: MemoryElection) -> None:
        """Takes a candidate out, whether it leads, waits or neither."""
        if candidate in self._waiting:
            self._waiting.remove(candidate)
        if self.leader is candidate:
            self.leader = None
            self._settle()

    def depose(self) -> None:
        """Takes leadership away, as a lease that runs out does. The next candidate leads at once."""
        deposed, self.leader = self.leader, None
        if deposed is not None:
            deposed.told.set()
        self._settle()

    def depose_silently(self) -> None:
        """Lets the next candidate lead while the old leader does not know yet: two believe that they lead."""
        self.leader = None
        self._settle()

    def _settle(self) -> None:
        if self.leader is None and self._waiting:
            self.leader = self._waiting.popleft()
            self.leader.won.set()


class MemoryElection(Election):
    """One candidate.

    Attributes:
        won: set while it leads, as far as it knows.
        told: set when it has learned that it lost.
    """

    name = "memory"

    def __init__(self, ballot: Ballot) -> None:
        """Enters when `campaign` is called."""
        self._ballot = ballot
        self.won = asyncio.Event()
        self.told = asyncio.Event()

    @override
    async def campaign(self) -> None:
        self.told.clear()
        self.won.clear()
        self._ballot.enter(self)
        try:
            await self.won.wait()
        except BaseException:
            self._ballot.leave(self)
            raise

    @override
    async def lost(self) -> None:
        await self.told.wait()

    @override
    async def resign(self) -> None:
        self._ballot.leave(self)
