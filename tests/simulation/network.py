"""A simulated network: packets that take their time, wait behind partitions, or find nobody at home.

Packets between two hosts are independent unless a connection orders them. What travels is `calls`' business.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from simulation.loop import Process, VirtualLoop

FAST_S = (0.0002, 0.003)
SLOW_S = (0.02, 0.4)
LONGEST_S = 10.0
SLOW_SHARE = 0.03
"""How many packets of a good network take long all the same: so that independent calls overtake each other."""

Deliver = Callable[[Process], object]
"""Called in the receiving process when a packet arrives."""
Bounce = Callable[[], object]
"""Called in the sending process when nobody is there to receive."""


@dataclass(eq=False, slots=True)
class Lane:
    """One direction of a connection: what is sent first arrives first. `stalled`: nothing arrives for now."""

    free_at: float = 0.0
    stalled: bool = False
    queue: deque[tuple[Deliver, Bounce]] = field(default_factory=deque)  # on the way, in order
    held: list[Callable[[], None]] = field(default_factory=list)


class Network:
    """Hosts by name, and which of them hear which.

    Args:
        loop: Gives time.
        rng: Draws delays.
    """

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._hosts: dict[str, Process] = {}
        self._blocked: dict[tuple[str, str], int] = {}
        self._slow: dict[Hashable, float] = {}
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self.doubling = 0.0
        """Share of packets that may be doubled and are."""

    def attach(self, name: str, process: Process) -> None:
        """A process takes a host's name."""
        self._hosts[name] = process

    def detach(self, name: str, process: Process) -> None:
        """The process is gone."""
        if self._hosts.get(name) is process:
            del self._hosts[name]

    def swift(self, names: tuple[str, str]) -> bool:
        """Tells whether packets pass now, and in their usual time."""
        return names not in self._blocked and self._slow.get(names[0], 1.0) == self._slow.get(names[1], 1.0) == 1.0

    def block(self, source: str, target: str) -> None:
        """Packets in this direction wait from now on."""
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        """Takes back one `block`; what has waited arrives."""
        left = self._blocked.pop((source, target)) - 1
        if left:
            self._blocked[source, target] = left
            return
        for arrive in self._held.pop((source, target), ()):
            self._loop.call_later(self.delay(source, target), arrive, context=self._loop.world.context)

    def set_slow(self, host: str, factor: float) -> None:
        """Packets from and to a host take so many times longer; 1 ends it."""
        self._slow[host] = factor

    def delay(self, source: str, target: str) -> float:
        """Draws how long a packet takes, in seconds."""
        low, high = SLOW_S if self._rng.random() < SLOW_SHARE else FAST_S
        slowness = max(self._slow.get(source, 1.0), self._slow.get(target, 1.0))
        return min(self._rng.uniform(low, high) * slowness, LONGEST_S)

    def doubled(self) -> bool:
        """Draws whether something that may be doubled is."""
        return self.doubling > 0.0 and self._rng.random() < self.doubling

    def send(
        self, source: Process, names: tuple[str, str], deliver: Deliver, bounce: Bounce, lane: Lane | None = None
    ) -> None:
        """Sends a packet.

        Args:
            source: Who sends; a dead process sends nothing.
            names: The hosts it goes from and to.
            deliver: What its arrival does.
            bounce: What happens at the sender when nobody is there.
            lane: The direction of a connection that orders it; None: it goes on its own.
        """
        if not source.alive:
            return
        arrival = self._loop.now + self.delay(*names)
        if lane is not None:
            arrival = lane.free_at = max(lane.free_at, arrival)
            lane.queue.append((deliver, bounce))

        def arrive() -> None:
            if lane is not None and lane.stalled:
                lane.held.append(arrive)
            elif names in self._blocked:
                self._held.setdefault(names, []).append(arrive)
            else:
                # Of a connection the next in order arrives, whichever packet's time it is.
                self._arrive(source, names, *(lane.queue.popleft() if lane is not None else (deliver, bounce)))

        self._loop.call_at(arrival, arrive, context=self._loop.world.context)

    def _arrive(self, source: Process, names: tuple[str, str], deliver: Deliver, bounce: Bounce) -> None:
        target = self._hosts.get(names[1])
        if target is not None:
            self._loop.call_soon(deliver, target, context=target.context)
            return
        back = self.delay(names[1], names[0])
        self._loop.call_later(back, self._bounce, source, bounce, context=self._loop.world.context)

    def release(self, lane: Lane) -> None:
        """Ends a stall; what has waited arrives in its order."""
        lane.stalled = False
        held, lane.held = lane.held, []
        for arrive in held:
            self._loop.call_soon(arrive, context=self._loop.world.context)

    def _bounce(self, source: Process, bounce: Bounce) -> None:
        if source.alive:
            self._loop.call_soon(bounce, context=source.context)
