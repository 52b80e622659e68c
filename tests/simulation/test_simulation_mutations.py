"""The checker is itself proven: each promise, broken on purpose, is reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from simulation import mutations, seed

LIMIT = 120
"""Seeds within which each mutation must be caught."""
PROMISED = {1, 2, 3, 4, 5, 6, 7, 8, 9}
"""The guarantees that orderings can break. Of the fourth: what is due later begins at its time, once."""
PROCESSES = 2
KNOWN = {
    "A result is taken whatever attempt it is of": 12,
    "An exclusive attempt that was not started in time is replaced without waiting for its lease": 26,
    "The steps of a paused workflow are dispatched all the same": 39,
    "A result from outside counts for whatever attempt there is": 31,
    "What a leaving worker still holds is not queued again": 69,
}
"""The seed to try first where it is known and not one of the first ten: any change of the code may move it."""


def candidates(name: str) -> Iterator[int]:
    """Yields the seeds from 1 to LIMIT, the known one before all others."""
    known = KNOWN.get(name, 1)
    yield known
    yield from (number for number in range(1, LIMIT + 1) if number != known)


def catch(name: str) -> tuple[str, int | None, str]:
    """Returns the first seed that catches a mutation and passes without it, and what it says; None when none does."""
    mutation = mutations.ALL[name]
    for number in candidates(name):
        with mutation.applied():
            outcome = seed.run(number, only=mutation.faults)
        if outcome.violations and not seed.run(number, only=mutation.faults).violations:
            return name, number, outcome.violations[0].split("\n")[0]
    return name, None, ""


def line_about(name: str, number: int | None, story: str) -> str:
    where = f"seed {number}: {story[:110]}" if number is not None else "NOT CAUGHT"
    return f"  [{mutations.ALL[name].guarantee}] {name}: {where}"


def test_simulation_mutations_cover_every_promise() -> None:
    assert len(mutations.ALL) >= 20
    assert KNOWN.keys() <= mutations.ALL.keys()
    assert all(sorted(candidates(name)) == list(range(1, LIMIT + 1)) for name in mutations.ALL)
    assert {mutation.guarantee for mutation in mutations.ALL.values()} == PROMISED


@pytest.mark.timeout(1800)
def test_simulation_catches_every_mutation(record_property: Callable[[str, object], None]) -> None:
    workers = min(PROCESSES, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        caught = list(pool.map(catch, mutations.ALL))
    record_property("finding", "\n".join(line_about(*each) for each in caught))
    missed = [name for name, number, _ in caught if number is None]
    assert not missed, f"the checker lets these through: {missed}"


def test_simulation_mutation_is_undone() -> None:
    for mutation in mutations.ALL.values():
        before = [getattr(owner, name) for owner, name, _ in mutation.places()]
        with mutation.applied():
            pass
        assert before == [getattr(owner, name) for owner, name, _ in mutation.places()]
