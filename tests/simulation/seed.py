"""One seed, one history: builds a world, lets it live through its faults, and has it checked."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from simulation import checker, faults, workload
from simulation.history import History
from simulation.hosts import ClientHost, SchedulerHost, WorkerHost, World
from simulation.ledger import Offer
from simulation.loop import Stuck, VirtualLoop
from simulation.programs import Program
from simulation.trace import Trace
from taskyard_core import ready as ready_module
from taskyard_core.engine import Engine, Limits
from taskyard_scheduler import leader as leader_module
from taskyard_scheduler import scheduler as scheduler_module

START_S = 1_000.0
HEAL_S = 28.0
"""When the last fault is undone that does not end by itself, in seconds since the beginning."""
PATIENCE_S = 260.0
"""How long after that everything accepted may take to end."""
DELAYED_S = 40_000.0
"""The latest that something may be due, by clocks that were wrong."""
QUIET_S = 3.0
COUNTS = (0, 3, 6, 6, 9, 12)
MANY = 12
"""How many faults a history has: one of these, or so many when it is to show a certain kind."""
BATCH_ROWS = 4
HEAD_LIMIT = 8
THEMED = 0.25
"""Share of histories in which two kinds of fault come again and again."""


@dataclass(slots=True)
class Outcome:
    """What became of a seed."""

    seed: int
    digest: str
    violations: list[str]
    moves: Counter[tuple[str, int, int]]
    faults: Counter[str]
    facts: Counter[str]
    lines: list[str]
    tasks: int


def run(seed: int, *, keep: bool = False, only: Sequence[str] = ()) -> Outcome:
    """Runs a seed.

    Args:
        seed: Decides everything.
        keep: Whether the trace's lines are kept.
        only: Kinds of fault to draw from, many of them; empty for all kinds.
    """
    loop = VirtualLoop(random.Random(f"{seed}/loop"))
    trace = Trace(lambda: loop.now - START_S, keep=keep)
    offers = {
        "worker-1": Offer(4, 2_000, 512, 1),
        "worker-2": Offer(3, 1_500, 256, 0),
        "worker-3": Offer(2),
    }
    history = History(trace, lambda: loop.now, offers)
    facts = Counter[str]()
    was_collecting = gc.isenabled()
    gc.disable()  # what a collection would run, and when, is no part of the history
    try:
        with observed(trace), small():
            world = build(seed, loop, history, offers)
            _live(world, only)
            for error in loop.errors:
                trace.violate("no defect shows", error)
        facts = trace.facts.copy()
    finally:
        trace.close()
        loop.dispose()
        if was_collecting:
            gc.enable()
    return Outcome(
        seed, trace.digest(), trace.violations, trace.moves, trace.faults, facts, trace.lines,
        len(history.ledger.instances),
    )  # fmt: skip


@contextmanager
def observed(trace: Trace) -> Iterator[None]:
    """Has every engine that is made meanwhile tell the trace its steps."""

    class Observed(Engine):
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.cluster.observe = trace.observe

    with patch.object(scheduler_module, "Engine", Observed):
        yield


@contextmanager
def small() -> Iterator[None]:
    """Has fifty tasks meet what only thousands do otherwise: full batches, and queues too long for memory."""
    with patch.object(leader_module, "BATCH_ROWS", BATCH_ROWS), patch.object(ready_module, "HEAD_LIMIT", HEAD_LIMIT):
        yield


def build(seed: int, loop: VirtualLoop, history: History, offers: dict[str, Offer]) -> World:
    """Returns a world with two schedulers and three workers, none of them started."""
    rng = random.Random(f"{seed}/world")
    limits = Limits(
        lease_ms=12_000,
        silence_ms=6_000,
        forget_ms=rng.choice((30_000, 24 * 3_600_000)),
        cancel_grace_ms=1_500,
        takeover_grace_ms=3_000,
    )
    world = World(seed, loop, history, limits, heartbeat_s=2)
    world.schedulers += [SchedulerHost(world, name) for name in ("scheduler-1", "scheduler-2")]
    types = ("loop", "thread", "alone", "odd")
    world.workers += [
        WorkerHost(world, "worker-1", types, offers["worker-1"], {"zone": "a", "gpu": "yes"}, lacks="odd"),
        WorkerHost(world, "worker-2", types, offers["worker-2"], {"zone": "b"}),
        WorkerHost(world, "worker-3", ("loop", "thread"), offers["worker-3"], {"zone": "a"}),
    ]
    return world


def _live(world: World, only: Sequence[str]) -> None:
    loop, trace = world.loop, world.trace
    try:
        loop.run(_story(world, only), until=START_S + HEAL_S + PATIENCE_S)
    except Stuck as stuck:
        trace.violate("nothing is stuck", str(stuck))
        for program in world.programs:
            if not program.finished:
                trace.violate("nothing is stuck", f"a client still waits for {program.missing()}")
        for line in checker.whats_left(world):
            trace.violate("nothing is stuck", line)


async def _story(world: World, only: Sequence[str]) -> None:
    load = workload.draw(world.rng("workload"))
    programs = world.programs = [Program(world, number, load) for number in range(2)]
    clients = [ClientHost(world, f"client-{number}", program.run) for number, program in enumerate(programs, 1)]
    rng = world.rng("faults")
    plan = faults.Plan(world, clients, rng)
    for host in (*world.schedulers, *world.workers, *clients):
        host.start()
    async with asyncio.TaskGroup() as group:
        if not only and rng.random() < THEMED:
            only = rng.sample(faults.kinds(), 2)
        count = MANY if only else rng.choice(COUNTS)
        group.create_task(plan.run(count, only), name="faults")
        watching = group.create_task(checker.watch(world), name="checker")
        await asyncio.sleep(HEAL_S)
        faults.heal(world, clients)
        while not all(program.finished for program in programs) or checker.unfinished(world):
            await asyncio.sleep(1.0)
            world.loop.until = max(world.loop.until, min(checker.latest_due(world), START_S + DELAYED_S) + PATIENCE_S)
        watching.cancel()
    await asyncio.sleep(QUIET_S)
    await checker.settle(world)
    checker.check_end(world, load, [program.disk for program in programs])


def command(seed: int) -> str:
    """Returns what a person types to see a seed again."""
    return f"PYTHONPATH=tests .venv/bin/python -m simulation --seed {seed} --trace"
