"""Bisection: it finds every bad row, asks little, and tries what was good before on top of each other."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from store_rows import instance, instance_update, worker

from taskyard_core.records import Changes
from taskyard_scheduler.store.refused import Unit, find_refused, units_of
from taskyard_scheduler.store.writes import STEPS, Step, rows_of


class Model:
    """A database that refuses some ids, and every id that it has already."""

    def __init__(self, bad: set[str]) -> None:
        self.bad = bad
        self.written: list[str] = []
        self.asked = 0

    def attempt(self, part: Changes) -> Exception | None:
        self.asked += 1
        ids = [step.key_of(row)[-1] for step, row in units_of(part)]
        together = self.written + ids
        if self.bad.intersection(ids) or len(set(together)) < len(together):
            return ValueError(f"no {ids[0]}")
        self.written = together
        return None


def explain(step: Step, raised: Exception) -> str:
    return f"{step.kind}: {raised}"


def worker_units(ids: list[str]) -> list[Unit]:
    return units_of(Changes(worker_upserts=[worker(id) for id in ids]))


@given(st.lists(st.integers(0, 40), max_size=60), st.sets(st.integers(0, 40), max_size=4))
def test_the_bad_and_the_second_of_a_pair_are_found(numbers: list[int], bad: set[int]) -> None:
    model = Model({str(n) for n in bad})
    refused = find_refused(worker_units([str(n) for n in numbers]), model.attempt, explain)
    kept = list(dict.fromkeys(n for n in numbers if n not in bad))
    assert model.written == [str(n) for n in kept]
    assert len(refused) == len(numbers) - len(kept)
    most = 1 + len(refused) * 2 * (math.ceil(math.log2(max(len(numbers), 2))) + 1)
    assert model.asked <= most


def test_reasons_are_of_single_rows() -> None:
    model = Model({"7"})
    [found] = find_refused(worker_units([str(n) for n in range(20)]), model.attempt, explain)
    assert (found.kind, found.key, found.reason) == ("worker_upserts", ("7",), "worker_upserts: no 7")


def test_units_come_in_the_order_in_which_they_are_written() -> None:
    changes = Changes(
        instance_updates=[instance_update("b")],
        instance_inserts=[instance(id="a"), instance(id="b")],
        worker_deletes=["w"],
        instance_deletes=[("default", "a")],
    )
    found = [(step.kind, step.key_of(row)) for step, row in units_of(changes)]
    assert found == [
        ("instance_deletes", ("default", "a")),
        ("worker_deletes", ("w",)),
        ("instance_inserts", ("default", "a")),
        ("instance_inserts", ("default", "b")),
        ("instance_updates", ("default", "b")),
    ]


def test_every_list_of_changes_has_its_step() -> None:
    lists = {name for name, value in vars_of(Changes()).items() if isinstance(value, list)}
    assert {step.kind for step in STEPS} == lists
    assert all(rows_of(Changes(), step) == [] for step in STEPS)


def vars_of(changes: Changes) -> dict[str, object]:
    return {name: getattr(changes, name) for name in Changes.__slots__}
