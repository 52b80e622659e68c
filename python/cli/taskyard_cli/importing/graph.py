"""What a graph of tasks is like: its cycles, its depth. Knows no format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

Parents = Mapping[str, Iterable[str]]
"""By task: what it waits for. Whatever is waited for is a key as well."""


def cycle(parents: Parents) -> list[str]:
    """Returns a cycle, its first task again as its last, each waited for by the one after it; empty: there is none."""
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def depth(parents: Parents) -> int:
    """Returns how many tasks the longest chain has, in a graph without cycles."""
    depths: dict[str, int] = {}
    for task in TopologicalSorter(parents).static_order():
        depths[task] = 1 + max((depths[each] for each in parents[task]), default=0)
    return max(depths.values(), default=0)
