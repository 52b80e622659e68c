"""What must have occurred over many seeds: every step of every state machine, every kind of fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from simulation.pool import Total
from taskyard_core.records import RunState, TaskState
from taskyard_core.transitions import INSTANCE_MOVES, RUN_MOVES, WORKER_MOVES, WorkerState

MACHINES = {
    "instance": (INSTANCE_MOVES, TaskState),
    "run": (RUN_MOVES, RunState),
    "worker": (WORKER_MOVES, WorkerState),
}
STORE_FAULTS = ("store outage", "commit fails before writing", "commit fails after writing", "row refused")


def wanted_moves() -> Iterator[tuple[str, int, int]]:
    """Yields every step that some state machine has."""
    for machine, (moves, _) in MACHINES.items():
        for before, afters in moves.items():
            for after in sorted(afters):
                yield machine, int(before), int(after)


def missing(total: Total, fault_kinds: Iterator[str] | list[str]) -> list[str]:
    """Returns what has not occurred."""
    moves = [name_of(move) for move in wanted_moves() if not total.moves[move]]
    unknown = [name_of(move) for move in total.moves if move not in set(wanted_moves())]
    faults = [kind for kind in (*fault_kinds, *STORE_FAULTS) if not total.faults[kind]]
    return moves + [f"{move}, which no table has" for move in unknown] + faults


def report(total: Total) -> str:
    """Returns all counts, for people."""
    lines = [f"{total.seeds} histories with {total.tasks} tasks, at least {total.least_tasks} in each"]
    lines += _table("steps of state machines", Counter({name_of(move): total.moves[move] for move in wanted_moves()}))
    lines += _table("faults", total.faults)
    lines += _table("what else occurred", total.facts)
    return "\n".join(lines)


def name_of(move: tuple[str, int, int]) -> str:
    """Returns a step in words."""
    machine, before, after = move
    states = MACHINES[machine][1]
    return f"{machine} {states(before).name} to {states(after).name}"


def _table(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title}:", *(f"  {count:>9,}  {name}" for name, count in sorted(counts.items()))]
