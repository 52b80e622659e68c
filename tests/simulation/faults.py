"""The faults of one history: drawn from the seed, done to the world at their time, and undone in the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulation.calls import ignore_failure
from simulation.hosts import TENANT, ClientHost, Host, World
from simulation.transports import WORKER_SERVICE
from taskyard.v1 import workers_pb2
from taskyard_service.identity import Identity, Role

SPAN_S = 24.0
"""When the last fault begins, in seconds since the beginning."""


@dataclass(slots=True)
class Plan:
    """What may happen to one world. `act` by name; each schedules its own undoing."""

    world: World
    clients: list[ClientHost]
    rng: random.Random

    def acts(self) -> dict[str, Callable[[], None]]:
        """Returns every kind of fault by its name."""
        return {
            "leader killed": self.kill_leader,
            "scheduler killed": lambda: self.kill(self.rng.choice(self.world.schedulers), self.between(0.2, 6.0)),
            "worker killed": lambda: self.kill(self.rng.choice(self.world.workers), self.between(0.2, 10.0)),
            "worker gone for good": self.lose_worker,
            "worker drained": lambda: self.rng.choice(self.world.workers).drain(),
            "client killed": lambda: self.kill(self.rng.choice(self.clients), self.between(0.1, 5.0)),
            "leader paused": self.pause_leader,
            "worker paused": lambda: self.pause(self.rng.choice(self.world.workers), self.between(0.5, 25.0)),
            "event loop held": lambda: self.rng.choice(self.world.workers).hold_loop(self.between(1.5, 15.0)),
            "client paused": lambda: self.pause(self.rng.choice(self.clients), self.between(0.5, 10.0)),
            "worker id taken by another": self.impersonate,
            "partition": self.partition,
            "one-way partition": self.one_way,
            "streams cut": self.cut_streams,
            "half-open stream": self.stall_stream,
            "stream lost unnoticed": self.lose_stream,
            "slow link": self.slow_link,
            "doubled messages": self.double,
            "slow store": self.slow_store,
            "store outage": self.store_outage,
            "commits fail before writing": lambda: self.failing_commits("fail_before"),
            "commits fail after writing": lambda: self.failing_commits("fail_after"),
            "rows refused": self.refuse_rows,
            "clock step": self.step_clock,
            "leader deposed, told at once": lambda: self.depose(0.0),
            "leader deposed, told late": lambda: self.depose(self.between(0.5, 15.0)),
        }

    def between(self, low: float, high: float) -> float:
        """Draws a number."""
        return self.rng.uniform(low, high)

    def later(self, seconds: float, what: Callable[..., object], *args: object) -> None:
        """Does something in the world's name after so many seconds."""
        self.world.loop.call_later(seconds, what, *args, context=self.world.loop.world.context)

    def disturb(self, seconds: float) -> None:
        """Notes that leader or database are not well for so long."""
        self.world.disturbed_at = max(self.world.disturbed_at, self.world.loop.now + seconds)

    # Processes.

    def kill(self, host: Host, down_s: float) -> None:
        host.kill(self.rng.choice((0.001, 0.05, 3.0)))
        self.later(down_s, self.revive, host)

    def revive(self, host: Host) -> None:
        if not getattr(host, "for_good", False):
            host.start()

    def kill_leader(self) -> None:
        holder = self.world.seat.holder
        for host in self.world.schedulers:
            if holder is not None and host.process is holder.process:
                self.kill(host, self.between(0.2, 6.0))

    def lose_worker(self) -> None:
        """The last worker takes nothing that the others could not; it never comes back."""
        worker = self.world.workers[-1]
        worker.for_good = True
        worker.kill(self.rng.choice((0.001, 3.0, 45.0)))

    def pause(self, host: Host, seconds: float) -> None:
        process = host.process
        if process is None:
            return
        host.pause()
        self.later(seconds, self.world.loop.resume, process)

    def pause_leader(self) -> None:
        leader = self.world.leader()
        if leader is not None:
            seconds = self.between(0.2, 12.0)
            self.disturb(seconds)
            self.pause(leader, seconds)
            if seconds > 5.0 and self.rng.random() < 0.5:
                self.later(3.0, self.world.seat.take_away, 0.0)

    def impersonate(self) -> None:
        """Somebody else registers under a worker's id, and is never heard of again."""
        worker = self.rng.choice(self.world.workers)
        process = self.world.loop.spawn("impostor")
        self.world.network.attach(process.name, process)
        identity = Identity("impostor", TENANT, Role.WORKER)
        request = workers_pb2.RegisterRequest(
            worker_id=worker.name,
            host="elsewhere",
            capabilities=worker.types,
            max_concurrency=worker.offer.slots,
            labels=worker.labels,
        )
        holder = self.world.leader()
        if holder is not None:
            names = (process.name, holder.name)
            path = WORKER_SERVICE + "Register"
            call = self.world.fabric.unary(names, path, identity, request, 5.0, process)
            self.world.loop.start(process, ignore_failure(call), "impostor")

    # The network.

    def pair(self) -> tuple[str, str]:
        scheduler = self.rng.choice(self.world.schedulers)
        other: Host = self.rng.choice([*self.world.workers, *self.clients])
        return scheduler.name, other.name

    def partition(self) -> None:
        one, other = self.pair()
        seconds = self.rng.choice((self.between(0.2, 4.0), self.between(4.0, 45.0)))
        if self.rng.random() < 0.5:
            for stream in list(self.world.fabric.streams):
                if set(stream.names) == {one, other}:
                    self.world.fabric.cut(stream, "connection reset")
        self._block(one, other, seconds)
        self._block(other, one, seconds)
        self.world.fabric.partitioned(one, other, seconds)

    def one_way(self) -> None:
        names = self.pair()
        one, other = names if self.rng.random() < 0.5 else names[::-1]
        seconds = self.between(0.5, 35.0)
        self._block(one, other, seconds)
        self.world.fabric.partitioned(one, other, seconds)

    def _block(self, one: str, other: str, seconds: float) -> None:
        self.world.network.block(one, other)
        self.later(seconds, self.world.network.unblock, one, other)

    def cut_streams(self) -> None:
        for stream in list(self.world.fabric.streams):
            if self.rng.random() < 0.6:
                self.world.fabric.cut(stream, "connection reset")

    def stall_stream(self) -> None:
        streams = [stream for stream in self.world.fabric.streams if stream.path.endswith("AssignTask")]
        if streams:
            self.world.fabric.stall(self.rng.choice(streams), self.rng.choice((2.0, 8.0, 60.0)))

    def lose_stream(self) -> None:
        """A stream ends at the scheduler, and the worker goes on believing in it."""
        streams = [stream for stream in self.world.fabric.streams if stream.path.endswith("AssignTask")]
        if streams:
            self.rng.choice(streams).drop_server()

    def slow_link(self) -> None:
        host = self.rng.choice([*self.world.schedulers, *self.world.workers, *self.world.workers, *self.clients]).name
        self.world.network.set_slow(host, self.between(5.0, 200.0))
        self.later(self.between(1.0, 10.0), self.world.network.set_slow, host, 1.0)

    def double(self) -> None:
        self.world.network.doubling = self.between(0.05, 0.3)
        self.later(self.between(2.0, 10.0), setattr, self.world.network, "doubling", 0.0)

    # The database and the clocks.

    def _weather(self, name: str, value: object, seconds: float, after: object) -> None:
        self.disturb(seconds)
        setattr(self.world.weather, name, value)
        self.later(seconds, setattr, self.world.weather, name, after)

    def slow_store(self) -> None:
        self._weather("slowness", self.between(5.0, 200.0), self.between(1.0, 6.0), 1.0)

    def store_outage(self) -> None:
        self._weather("gone", True, self.between(0.5, 9.0), False)

    def failing_commits(self, when: str) -> None:
        self._weather(when, self.between(0.1, 0.7), self.between(2.0, 8.0), 0.0)

    def refuse_rows(self) -> None:
        self._weather("refuse", self.between(0.1, 0.6), self.between(1.0, 5.0), 0.0)

    def step_clock(self) -> None:
        host: Host = self.rng.choice([*self.world.schedulers, *self.world.workers, *self.clients])
        host.clock_ms += int(self.rng.choice((-1, 1)) * self.rng.choice((1_500, 60_000, 3_600_000)))

    def depose(self, told_after: float) -> None:
        self.disturb(told_after)
        self.world.seat.take_away(told_after)

    # All of it.

    async def run(self, count: int, only: Sequence[str] = ()) -> None:
        """Does faults one after the other.

        Args:
            count: How many.
            only: Which kinds; empty for all.
        """
        acts = {name: act for name, act in self.acts().items() if not only or name in only}
        times = sorted(self.between(0.5, SPAN_S) for _ in range(count))
        kinds = [self.rng.choice(list(acts)) for _ in times]
        start = self.world.loop.now
        for at, kind in zip(times, kinds, strict=True):
            await asyncio.sleep(max(0.0, start + at - self.world.loop.now))
            self.world.trace.faults[kind] += 1
            self.world.trace.note("FAULT", kind)
            self.world.disturbed_at = max(self.world.disturbed_at, self.world.loop.now)
            acts[kind]()


def kinds() -> list[str]:
    """Returns the names of all kinds of fault."""
    return list(Plan.acts(Plan(None, [], random.Random(0))))  # type: ignore[arg-type]  # nothing is done to it


def heal(world: World, clients: list[ClientHost]) -> None:
    """Starts what is dead and lets go on what is paused; everything else ends by itself in its time."""
    world.trace.note("FAULT", "healed")
    world.trace.facts["healed"] = 1
    for host in (*world.schedulers, *world.workers, *clients):
        host.resume()
        if not getattr(host, "for_good", False):
            host.start()
