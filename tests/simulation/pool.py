"""Runs many seeds over two processes and adds up what occurred."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from simulation import seed as seeds

PROCESSES = 2
SLICE = 10
"""Seeds that a process runs before it says how they went."""
SHOWN = 5


@dataclass(slots=True)
class Total:
    """What became of many seeds."""

    seeds: int = 0
    tasks: int = 0
    least_tasks: int = 1 << 30
    failed: dict[int, list[str]] = field(default_factory=dict)
    moves: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Total) -> None:
        """Adds another's counts to these."""
        self.seeds += other.seeds
        self.tasks += other.tasks
        self.least_tasks = min(self.least_tasks, other.least_tasks)
        self.failed.update(other.failed)
        self.moves.update(other.moves)
        self.faults.update(other.faults)
        self.facts.update(other.facts)

    def complaint(self) -> str:
        """Returns the failed seeds, each with the command that replays it; empty when none failed."""
        lines = [f"{len(self.failed)} of {self.seeds} seeds failed"] if self.failed else []
        for number, violations in sorted(self.failed.items())[:SHOWN]:
            lines.append(f"\nreplay with: {seeds.command(number)}")
            lines += [f"  {violation[:500]}" for violation in violations[:SHOWN]]
        return "\n".join(lines)


def run_slice(numbers: Sequence[int]) -> Total:
    """Runs seeds one after the other."""
    total = Total()
    for number in numbers:
        outcome = seeds.run(number)
        total.seeds += 1
        total.tasks += outcome.tasks
        total.least_tasks = min(total.least_tasks, outcome.tasks)
        if outcome.violations:
            total.failed[number] = outcome.violations
        total.moves.update(outcome.moves)
        total.faults.update(outcome.faults)
        total.facts.update(outcome.facts)
    gc.collect()
    return total


def run_all(first: int, count: int, told: Callable[[Total], None] = lambda _total: None) -> Total:
    """Runs seeds over the processes.

    Args:
        first: The first seed.
        count: How many.
        told: Called now and then with what there is so far.
    """
    total = Total()
    workers = min(PROCESSES, os.cpu_count() or 1)
    # Spawned, not forked: a copy of a test runner's threads and locks is not what a seed should run in.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=gc.freeze) as pool:
        for part in pool.map(run_slice, _slices(first, count)):
            total.add(part)
            told(total)
    return total


def _slices(first: int, count: int) -> Iterator[range]:
    for start in range(first, first + count, SLICE):
        yield range(start, min(start + SLICE, first + count))
