"""The election as a lock that one scheduler holds, and that the world can take away, told or untold."""

from __future__ import annotations

import asyncio

from simulation.loop import Process, VirtualLoop


class Seat:
    """The leadership of one cluster, as a database's lock gives it out.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.holder: SeatElection | None = None
        self._waiting: list[tuple[SeatElection, asyncio.Future[None]]] = []

    def enter(self, election: SeatElection) -> asyncio.Future[None]:
        """Returns what is done when the seat is given to the election."""
        won: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((election, won))
        self._give()
        return won

    def leave(self, election: SeatElection) -> None:
        """The election does not want the seat, or its process is gone."""
        self._waiting = [entry for entry in self._waiting if entry[0] is not election]
        if self.holder is election:
            self.holder = None
            self._give()

    def take_away(self, told_after: float) -> None:
        """Gives the seat to another; the holder hears of it after so many seconds."""
        old = self.holder
        if old is None:
            return
        self.holder = None
        self._loop.call_later(told_after, old.tell_lost, old.wins, context=old.process.context)
        self._give()

    def _give(self) -> None:
        while self.holder is None and self._waiting:
            election, won = self._waiting.pop(0)
            if election.process.alive and not won.done():
                self.holder = election
                self._loop.call_soon(_win, won, context=election.process.context)


def _win(won: asyncio.Future[None]) -> None:
    if not won.done():
        won.set_result(None)


class SeatElection:
    """One scheduler's way to the seat."""

    name = "local"

    def __init__(self, seat: Seat, process: Process) -> None:
        self._seat = seat
        self.process = process
        self.wins = 0
        self._lost = asyncio.Event()

    async def campaign(self) -> None:
        """Returns when the seat is this scheduler's."""
        try:
            await self._seat.enter(self)
        except asyncio.CancelledError:
            self._seat.leave(self)
            raise
        self.wins += 1
        self._lost.clear()

    async def lost(self) -> None:
        """Returns when the seat was taken away."""
        await self._lost.wait()

    async def resign(self) -> None:
        """Gives the seat back."""
        self._seat.leave(self)

    def tell_lost(self, win: int) -> None:
        """The connection to the seat that it won at that time has failed."""
        if win == self.wins:
            self._lost.set()
