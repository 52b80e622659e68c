"""What is wrong with the dependencies of a workflow's steps, said at definition time."""

from __future__ import annotations

from collections.abc import Sequence

from taskyard_core.dag.links import Links
from taskyard_core.violations import Violation, cut, suggestion

SUGGESTIONS_LIMIT = 20
"""So many violations look for a similar name; the rest, if any, are only named."""
CYCLE_SHOWN = 30
"""Steps of a cycle that its violation prints; of a longer one, the first and the last."""


def validate(
    steps: Sequence[tuple[str, Sequence[str]]], field: str = "steps", upstream_field: str = "depends_on"
) -> list[Violation]:
    """Return what is wrong with the dependencies of a workflow's steps; linear in their number.

    Args:
        steps: Each step's id and the ids of its upstream steps.
        field: Path of the list of steps in the input, for the violations.
        upstream_field: Name of a step's list of upstream ids.
    """
    found: list[Violation] = []
    first: dict[str, int] = {}
    for number, (step, _) in enumerate(steps):
        if first.setdefault(step, number) != number:
            sentence = f"{cut(step)} is already the id of {field}[{first[step]}]; rename one of the two"
            found.append(Violation(f"{field}[{number}].id", sentence))
    for number, (step, upstream) in enumerate(steps):
        seen: set[str] = set()
        for position, name in enumerate(upstream):
            said = _dependency_fault(step, name, first, seen, len(found) < SUGGESTIONS_LIMIT)
            seen.add(name)
            if said:
                found.append(Violation(f"{field}[{number}].{upstream_field}[{position}]", said))
    if not found:
        cycle = Links(steps).cycle()
        if cycle:
            place = f"{field}[{cycle[0]}].{upstream_field}"
            found.append(Violation(place, _cycle_sentence([steps[number][0] for number in cycle])))
    return found


def _dependency_fault(step: str, name: str, known: dict[str, int], seen: set[str], may_suggest: bool) -> str | None:
    if name == step:
        return f"{cut(step)} depends on itself; remove this dependency"
    if name not in known:
        hint = suggestion(name, known) if may_suggest else ""
        return f"{cut(name)} is not a step of this workflow; add it, or name one that is.{hint}"
    if name in seen:
        return f"{cut(name)} is named twice; remove one of the two"
    return None


def _cycle_sentence(cycle: list[str]) -> str:
    path = [*cycle, cycle[0]]
    if len(path) > CYCLE_SHOWN:
        half = CYCLE_SHOWN // 2
        path = [*path[:half], f"... {len(path) - 2 * half} more ...", *path[-half:]]
    way = " -> ".join(path)
    return f"the steps wait for each other in a circle: {way}; remove one of these dependencies"
