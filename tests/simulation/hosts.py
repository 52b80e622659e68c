"""Simulated hosts: a scheduler, a worker or a client each, which can be killed, restarted, paused and deceived.

What survives a death is what a disk would hold: a worker's spool and keys, a client's list of what it got answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf import message_factory
from prometheus_client import CollectorRegistry

from simulation.calls import Fabric, Route, ignore_failure
from simulation.election import Seat, SeatElection
from simulation.handlers import Machine, SimThreads, make_registry
from simulation.history import History
from simulation.ledger import Offer
from simulation.loop import Process, VirtualLoop, where_raised
from simulation.network import Network
from simulation.stores import SimStore, Weather
from simulation.transports import WORKER_SERVICE, SimLink
from simulation.transports import Route as Way
from taskyard.v1 import fleet_pb2, tasks_pb2, workers_pb2, workflows_pb2
from taskyard_core.engine import Limits
from taskyard_scheduler.logs.memory import MemoryLogStore
from taskyard_scheduler.scheduler import Scheduler
from taskyard_scheduler.services.fleet import FleetService
from taskyard_scheduler.services.tasks import TaskService
from taskyard_scheduler.services.workers import WorkerService
from taskyard_scheduler.services.workflows import WorkflowService
from taskyard_scheduler.store.memory import MemoryDatabase
from taskyard_service.identity import Identity as Caller
from taskyard_service.identity import Role
from taskyard_service.metrics import Metrics
from taskyard_worker.errors import NotAccepted, SessionSuperseded, Unauthenticated
from taskyard_worker.grpc_link import THREAD_HEARTBEAT_S
from taskyard_worker.keys import MemoryKeys
from taskyard_worker.runtime import Runtime, Storage
from taskyard_worker.session import Identity
from taskyard_worker.spool import MemorySpool
from taskyard_worker.watchdog import NOTICE_S
from taskyard_worker.work import Places

TENANT = "t"
EPOCH_MS = 1_700_000_000_000
METRICS = Metrics(CollectorRegistry())
"""Shared by all simulated schedulers: figures are not what is tested here, and making them takes time."""


class World:
    """What all hosts share.

    Args:
        seed: Decides everything.
        loop: The loop.
        history: Told of everything.
        limits: The engine's numbers.
        heartbeat_s: How often workers send a heartbeat.
    """

    def __init__(self, seed: int, loop: VirtualLoop, history: History, limits: Limits, heartbeat_s: int) -> None:
        self.seed = seed
        self.loop = loop
        self.history = history
        self.trace = history.trace
        self.limits = limits
        self.heartbeat_s = heartbeat_s
        self.network = Network(loop, self.rng("network"))
        self.fabric = Fabric(loop, self.network, history)
        self.database = MemoryDatabase()
        self.weather = Weather()
        self.seat = Seat(loop)
        self.logs = MemoryLogStore()
        self.schedulers: list[SchedulerHost] = []
        self.workers: list[WorkerHost] = []
        self.programs: list[Any] = []
        self.disturbed_at = loop.now  # when a fault last touched a leader or the database

    def rng(self, purpose: str) -> random.Random:
        """Returns a source of randomness that nothing else draws from."""
        return random.Random(f"{self.seed}/{purpose}")

    def addresses(self) -> list[str]:
        """Returns the schedulers' names."""
        return [host.name for host in self.schedulers]

    def leader(self) -> SchedulerHost | None:
        """Returns the host that leads in the newest term, if it is well."""
        for host in self.schedulers:
            if host.up and host.scheduler is not None and host.scheduler.leading:
                if host.scheduler.leader().term == self.database.term:
                    return host
        return None


class Host:
    """A host and the process that runs on it."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.process: Process | None = None
        self.clock_ms = 0  # how far its wall clock is off
        self.lives = 0

    @property
    def up(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.alive

    def wall(self) -> int:
        """Returns Unix milliseconds as this host has them."""
        return EPOCH_MS + int(self.world.loop.now * 1000) + self.clock_ms

    def start(self) -> None:
        """Starts the process; nothing happens when it runs."""
        if self.up:
            return
        self.lives += 1
        process = self.process = self.world.loop.spawn(self.name)
        self.world.network.attach(self.name, process)
        self.world.trace.note(self.name, f"starts, life {self.lives}")
        self.world.loop.start(process, self.main(process), f"{self.name} main")

    def kill(self, noticed_after: float = 0.001) -> None:
        """Kills the process as kill -9 does; its peers notice after so many seconds."""
        process = self.process
        if process is None or not process.alive:
            return
        self.world.trace.note(self.name, "killed")
        self.world.loop.kill(process)
        self.world.network.detach(self.name, process)
        self.world.fabric.died(process, noticed_after)
        self.died(process)

    def pause(self) -> None:
        """Stops the process for a while, as SIGSTOP does."""
        if self.process is not None:
            self.world.loop.pause(self.process)

    def resume(self) -> None:
        """Lets it go on."""
        if self.process is not None and self.process.paused:
            self.world.loop.resume(self.process)

    async def main(self, process: Process) -> None:
        """What the process does."""
        raise NotImplementedError

    def died(self, process: Process) -> None:
        """What else goes with the process."""

    def rng(self) -> random.Random:
        """Returns the randomness of this life."""
        return self.world.rng(f"{self.name}/{self.lives}")


class Log:
    """A log whose lines go to the trace; an error in it is a violation unless the world caused it."""

    EXPECTED = ("the database refused a row", "a loop stands still; starting it anew")

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    def bind(self, **_facts: object) -> Log:
        return self

    def debug(self, event: str, /, **_facts: object) -> None:
        """Passes over it."""

    def info(self, event: str, /, **_facts: object) -> None:
        self._world.trace.note(self._name, f"says {event}")

    def warning(self, event: str, /, **_facts: object) -> None:
        self._world.trace.note(self._name, f"warns {event}")

    def error(self, event: str, /, **facts: object) -> None:
        self._world.trace.note(self._name, f"fails {event} {facts.get('kind', '')} {facts.get('reason', '')}")
        if event not in self.EXPECTED:
            self._world.history.violate("no defect shows", f"{self._name} logged {event} {facts}")


class SchedulerHost(Host):
    """A host with a scheduler."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.scheduler: Scheduler | None = None
        self.election: SeatElection | None = None

    async def main(self, process: Process) -> None:
        world = self.world
        self.election = SeatElection(world.seat, process)
        scheduler = self.scheduler = Scheduler(
            scheduler_id=self.name,
            store=SimStore(world.database, world.weather, self.rng(), world.history.ledger, world.trace, self.name),
            election=self.election,
            limits=world.limits,
            wall=self.wall,
            rng=self.rng(),
            metrics=METRICS,
            log=Log(world, self.name),  # type: ignore[arg-type]  # the methods that are used
        )
        world.fabric.serve(process, routes(scheduler, world.logs, world.heartbeat_s))
        try:
            await scheduler.run()
        except Exception as error:
            world.history.violate("no defect shows", f"{self.name} ended: {error!r}{where_raised(error)}")
            world.loop.call_later(1.0, self.restart, process, context=world.loop.world.context)

    def restart(self, process: Process) -> None:
        """Starts anew after the process has failed by itself."""
        if self.process is process:
            self.kill()
            self.start()

    def died(self, process: Process) -> None:
        self.scheduler = None
        self.world.disturbed_at = max(self.world.disturbed_at, self.world.loop.now)
        if self.election is not None:
            self.world.loop.call_later(0.5, self.world.seat.leave, self.election, context=self.world.loop.world.context)


def routes(scheduler: Scheduler, logs: MemoryLogStore, heartbeat_s: int) -> dict[str, Route]:
    """Returns every method of the contract with its handler."""
    services: tuple[tuple[Any, Any], ...] = (
        (tasks_pb2, TaskService(scheduler, logs)),
        (workflows_pb2, WorkflowService(scheduler)),
        (fleet_pb2, FleetService(scheduler)),
        (workers_pb2, WorkerService(scheduler, logs, heartbeat_s)),
    )
    found: dict[str, Route] = {}
    for module, servicer in services:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                found[f"/{service.full_name}/{method.name}"] = Route(
                    getattr(servicer, method.name),
                    message_factory.GetMessageClass(method.input_type),
                    message_factory.GetMessageClass(method.output_type),
                    method.server_streaming,
                    method.client_streaming,
                )
    return found


class WorkerHost(Host):
    """A host with a worker, whose disk and machine outlive its process.

    Args:
        world: The world.
        name: The host's name, and the worker's id.
        types: The task types that it offers.
        offer: What it has.
        labels: Its labels.
        lacks: A type that it offers and has no handler for.
    """

    def __init__(
        self, world: World, name: str, types: tuple[str, ...], offer: Offer, labels: dict[str, str], lacks: str = ""
    ) -> None:
        super().__init__(world, name)
        self.types = types
        self.offer = offer
        self.labels = labels
        self.lacks = lacks
        self.runtime: Runtime | None = None
        self.for_good = False  # never started again
        self._spool = MemorySpool()
        self._keys = MemoryKeys(self.wall)
        self.machine = Machine(world.loop, world.history, world.loop.spawn(f"{name}'s host"))

    async def main(self, process: Process) -> None:
        world, rng = self.world, self.rng()
        self.machine.boot(process)
        way = Way(world.fabric, process, world.addresses(), Caller(self.name, TENANT, Role.WORKER))
        identity = Identity(
            worker_id=self.name,
            host=self.name,
            port=0,
            capabilities=self.types,
            max_concurrency=self.offer.slots,
            labels=self.labels,
            cpu_millis=self.offer.cpu_millis,
            memory_mb=self.offer.memory_mb,
            gpus=self.offer.gpus,
        )
        runtime = self.runtime = Runtime(
            link=SimLink(way, rng),
            identity=identity,
            registry=make_registry([name for name in self.types if name != self.lacks], world.history, process),
            storage=Storage(self._spool, self._keys),
            places=Places(SimThreads(world.loop, world.history, process), self.machine),
            random=rng,
            wall=self.wall,
            log=Log(world, self.name),
            drain_grace_s=3.0,
        )
        try:
            await runtime.run()
            why = "drained"
        except (NotAccepted, SessionSuperseded, Unauthenticated) as error:
            why = type(error).__name__
        except Exception as error:
            why = repr(error)
            world.history.violate("no defect shows", f"{self.name} ended: {error!r}{where_raised(error)}")
        world.trace.facts[f"worker ended: {why}"] += 1
        world.trace.note(self.name, f"exits: {why}")
        world.loop.call_soon(self._exited, process, context=world.loop.world.context)

    def drain(self) -> None:
        """Tells the worker to stop in good order, as SIGTERM does."""
        if self.up and self.process is not None and self.runtime is not None:
            self.world.loop.call_soon(self.runtime.drain, context=self.process.context)

    def hold_loop(self, seconds: float) -> None:
        """A handler holds the event loop: nothing more is done, but a thread says what has started."""
        world, process, runtime = self.world, self.process, self.runtime
        if process is None or runtime is None or process.paused:
            return
        self.pause()
        runtime.work.doubt.mark(world.loop.now)
        for after, what in ((NOTICE_S, self._speak), (seconds, self._let_go)):
            world.loop.call_later(after, what, process, runtime, context=world.loop.world.context)

    def _speak(self, process: Process, runtime: Runtime) -> None:
        """The guard of the loop speaks for it."""
        started, leader = sorted(runtime.work.entered_tokens()), self.world.leader()
        if not (process.alive and process.paused and runtime.session.registered and started and leader is not None):
            return
        self.world.trace.facts["held workers spoken for"] += 1
        guard = self.world.loop.spawn(f"{self.name}'s guard")
        self.world.network.attach(guard.name, guard)
        request = runtime.session.heartbeat(started=started)
        caller, path = Caller(self.name, TENANT, Role.WORKER), WORKER_SERVICE + "Heartbeat"
        call = self.world.fabric.unary((guard.name, leader.name), path, caller, request, THREAD_HEARTBEAT_S, guard)
        self.world.loop.start(guard, ignore_failure(call), guard.name)

    def _let_go(self, process: Process, runtime: Runtime) -> None:
        if process.alive and process.paused:
            runtime.work.doubt.mark(self.world.loop.now)
            self.world.loop.resume(process)
            self.world.loop.call_soon(runtime.session.beat_now, context=process.context)

    def died(self, process: Process) -> None:
        self.runtime = None
        self.machine.worker_died(0.02)
        self.world.history.worker_died(process)

    def _exited(self, process: Process) -> None:
        """The process has ended by itself: its supervisor starts another."""
        if self.process is process:
            self.kill()
            if not self.for_good:
                self.world.loop.call_later(1.5, self.start, context=self.world.loop.world.context)


class ClientHost(Host):
    """A host with a program that uses the client.

    Args:
        world: The world.
        name: The host's name.
        program: What it does with its process; runs anew in each life.
    """

    def __init__(self, world: World, name: str, program: Callable[[ClientHost, Process], Any]) -> None:
        super().__init__(world, name)
        self._program = program

    async def main(self, process: Process) -> None:
        await self._program(self, process)
